"""``paritygate ci``: pipelines from manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from paritygate.ci.generate import COMMAND, Drift, apply, compare, generate
from paritygate.errors import DriftError, ManifestError, printable
from paritygate.manifest.index import load_project
from paritygate.manifest.project import find_project

_VERBS = {"changed": "wrote", "missing": "wrote", "stale": "removed"}


@click.group("ci")
def command() -> None:
    """Generate pipelines and check them for drift."""


@command.command("generate")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 with a diff when a file is not as generated.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def generate_command(*, check: bool, as_json: bool) -> int:
    """Write one pipeline per lane, and the sources of each step, beside the registries.

    Exit codes: 0 as generated; 1 drift (with --check); 2 problems in manifests or registries, or a file that cannot be
    read or written.
    """
    try:
        result, drifts = _generate(check=check)
    except ManifestError as error:
        if as_json:
            click.echo(_json({"problems": [problem.data() for problem in error.problems]}))
        raise
    if as_json:
        click.echo(_json(result))
    else:
        _print(result, drifts, check=check)
    if check and drifts:
        names = ", ".join(drift.path for drift in drifts)
        raise DriftError(f"not as generated: {names}", hint=f"run: {COMMAND}")
    return 0


def _generate(*, check: bool) -> tuple[dict[str, Any], tuple[Drift, ...]]:
    project = find_project(Path.cwd())
    registries, loaded = load_project(project)
    files, notes = generate(project, loaded, registries)
    drifts = compare(project, files)
    if not check:
        apply(project, files, drifts)
    touched = {drift.path for drift in drifts}
    result = {
        "drift": [{"path": drift.path, "kind": drift.kind, "diff": drift.diff} for drift in drifts],
        "mended": bool(drifts) and not check,
        "unchanged": sorted(path.as_posix() for path in files if path.as_posix() not in touched),
        "notes": notes,
    }
    return result, drifts


def _print(result: dict[str, Any], drifts: tuple[Drift, ...], *, check: bool) -> None:
    for drift in drifts:
        text = printable(drift.diff, lines=True) if check else f"{_VERBS[drift.kind]} {printable(drift.path)}"
        click.echo(text, nl=not check)
    for path in result["unchanged"]:
        click.echo(f"as generated: {printable(path)}")
    for note in result["notes"]:
        click.echo(f"note: {printable(note)}", err=True)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2)
