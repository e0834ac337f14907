"""``paritygate init``: the files of a new project, small, commented and valid."""

from __future__ import annotations

from pathlib import Path

import click

from paritygate.cli.scaffold import template, write_new
from paritygate.errors import UsageError
from paritygate.manifest.project import PROJECT_FILE, find_project

#: Where each template goes, in the order of the report.
_FILES = {
    PROJECT_FILE: "paritygate.yaml",
    ".buildkite/hardware.yml": "hardware.yml",
    ".buildkite/lanes.yml": "lanes.yml",
    ".buildkite/sources.yml": "sources.yml",
    "tests/e2e/accuracy/test_accuracy.py": "test_accuracy.py.txt",
    ".gitignore": "gitignore.txt",
}


@click.command("init")
def command() -> int:
    """Make the current folder a project: configuration, hardware, lanes, sources and the test module.

    Files that exist are kept as they are.
    """
    folder = Path.cwd()
    _refuse_nesting(folder)
    for name, source in _FILES.items():
        written = write_new(folder / name, template(source))
        click.echo(f"{'wrote' if written else 'kept '} {name}")
    if not _is_ignored(folder / ".gitignore"):
        click.echo("add /artifacts/ to .gitignore: runs are not for version control")
    click.echo("next: adapt .buildkite/hardware.yml to your agents, then add a case with: paritygate new SLUG")
    return 0


def _refuse_nesting(folder: Path) -> None:
    """A project inside a project would hide the outer one's cases from whoever stands in it."""
    if (folder / PROJECT_FILE).exists():
        return
    try:
        outer = find_project(folder)
    except UsageError:
        return
    raise UsageError(f"{folder} is inside the project {outer.root}", hint="add cases to it with: paritygate new SLUG")


def _is_ignored(path: Path) -> bool:
    lines = {line.strip().strip("/") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()}
    return "artifacts" in lines
