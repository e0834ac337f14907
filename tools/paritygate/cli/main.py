"""The command line: one lazy sub-command per module, one place that turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from paritygate import __version__
from paritygate.errors import ManifestError, ParitygateError

#: command name -> (module under ``paritygate.cli``, one-line help). Sorted; modules load on use.
COMMANDS: dict[str, tuple[str, str]] = {
    "ci": ("ci", "Generate pipelines and check them for drift."),
    "init": ("init", "Scaffold a project."),
    "new": ("new", "Scaffold a case."),
    "preflight": ("preflight", "Check what a case needs, before anything loads."),
    "report": ("report", "Render the report of a run again."),
    "run": ("run", "Run cases: legs, comparison, verdict, record, report."),
    "schema": ("schema", "Print a JSON Schema."),
    "show": ("show", "Print a resolved case and where each value came from."),
    "validate": ("validate", "Check manifests, gate files and registries."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, so that ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All command names, sorted."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, loaded from its module; None lets click suggest near names."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"paritygate.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List commands from the table without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="paritygate")
def cli() -> None:
    """Accuracy gates for diffusion serving stacks: one manifest per case."""


def fail(error: ParitygateError) -> int:
    """Print an error for a person and return its exit code."""
    lines = [p.text() for p in error.problems] if isinstance(error, ManifestError) else [f"error: {error.message}"]
    if error.hint:
        lines.append(f"  fix: {error.hint}")
    for line in lines:
        click.echo(line, err=True)
    return int(error.exit_code)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with a documented code."""
    try:
        result: Any = cli.main(args=argv, prog_name="paritygate", standalone_mode=False)
    except ParitygateError as error:
        sys.exit(fail(error))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    sys.exit(result if isinstance(result, int) else 0)
