"""The command line: one lazy sub-command per module, one place that turns errors into exit codes."""

from __future__ import annotations

import difflib
import importlib
import sys
import tempfile
import traceback
from typing import Any

import click

from paritygate import __version__
from paritygate.errors import ManifestError, ParitygateError, missing_extra, printable

#: command name -> (module under ``paritygate.cli``, one-line help). Sorted; modules load on use.
COMMANDS: dict[str, tuple[str, str]] = {
    "checklist": ("checklist", "Show what both legs of a run had in common."),
    "ci": ("ci", "Generate pipelines and check them for drift."),
    "compare": ("compare", "Compare two files or two folders."),
    "golden": ("golden", "Make, verify, promote and list frozen references."),
    "init": ("init", "Scaffold a project."),
    "metrics": ("metrics", "List what can be measured, or explain one metric."),
    "new": ("new", "Scaffold a case."),
    "preflight": ("preflight", "Check what a case needs, before anything loads."),
    "report": ("report", "Render the report of a run again."),
    "run": ("run", "Run cases: legs, comparison, verdict, record, report."),
    "schema": ("schema", "Print a JSON Schema."),
    "show": ("show", "Print a resolved case and where each value came from."),
    "threeway": ("threeway", "Compare a target with exact and low-precision references."),
    "validate": ("validate", "Check manifests, gate files and registries."),
}

#: EX_SOFTWARE of sysexits.h: apart from every code that says something about a case.
BUG_EXIT_CODE = 70


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, so that ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All command names, sorted."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded from its module; an unknown name ends in a usage error with the nearest one."""
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(
                f"no command {cmd_name!r}" + (f"; did you mean {near[0]!r}?" if near else "; see paritygate --help")
            )
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
    if isinstance(error, ManifestError):
        lines = [printable(problem.text()) for problem in error.problems]
    else:
        lines = [printable(f"error: {error.message}", lines=True)]
    if error.hint:
        lines.append(printable(f"  fix: {error.hint}", lines=True))
    for line in lines:
        click.echo(line, err=True)
    return int(error.exit_code)


def bug_text(error: Exception) -> str:
    """Keep the traceback in a file and say where: an error that no branch of the tree describes is our own."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="paritygate-bug-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
    ) as log:
        log.write(f"paritygate {__version__}, Python {sys.version}, {sys.platform}\n")
        traceback.print_exception(error, file=log)
    return f"bug in paritygate: {printable(f'{type(error).__name__}: {error}')}\n  details to report: {log.name}"


def run(argv: list[str] | None) -> int:
    """Run one command and return its exit code; only what is our own bug escapes."""
    try:
        result: Any = cli.main(args=argv, prog_name="paritygate", standalone_mode=False)
    except ParitygateError as error:
        return fail(error)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        return fail(missing)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return result if isinstance(result, int) else 0


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with a documented code."""
    try:
        code = run(argv)
    except Exception as error:  # noqa: BLE001 - the last line before the user, who must not see a traceback
        click.echo(bug_text(error), err=True)
        code = BUG_EXIT_CODE
    sys.exit(code)
