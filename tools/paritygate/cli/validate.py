"""``paritygate validate``: every problem of every hand-written file, in one pass."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal, NamedTuple

import click

from paritygate.errors import ExitCode, ManifestError, Problem, printable
from paritygate.manifest.index import load_project
from paritygate.manifest.project import PROJECT_FILE, Project, find_project
from paritygate.manifest.rules.table import summaries

_RULES = "\b\nRules:\n" + "\n".join(f"  {name:<22} {summary}" for name, summary in summaries().items())


class _Result(NamedTuple):
    problems: tuple[Problem, ...]
    cases: int
    variants: int
    files: int


@click.command("validate", epilog=_RULES)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github"]), default="text", help="How to print problems."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(*, paths: tuple[Path, ...], form: Literal["text", "json", "github"], as_json: bool) -> int:
    """Check manifests, gate files and registries of the project, or the manifests beneath PATHS.

    Exit codes: 0 sound; 2 problems, or no case found.
    """
    try:
        result = _validate(find_project(Path.cwd()), paths)
    except ManifestError as error:
        result = _Result(error.problems, 0, 0, 0)
    if as_json or form == "json":
        click.echo(_json(result))
    else:
        for problem in result.problems:
            click.echo(problem.github() if form == "github" else printable(problem.text()))
        click.echo(_summary(result))
    return int(ExitCode.USAGE if result.problems else ExitCode.OK)


def _validate(project: Project, paths: tuple[Path, ...]) -> _Result:
    _, loaded = load_project(project, only=paths)
    problems = loaded.problems
    if gated := [case for case in loaded.cases if os.path.lexists(case.gate_file)]:
        from paritygate.gates.evidence import check_all_evidence  # noqa: PLC0415 - few projects start with gates

        problems += check_all_evidence(gated)
    if not loaded.files:
        problems += (_no_cases(project, paths),)
    return _Result(
        tuple(sorted(problems)),
        len({case.base_id for case in loaded.cases}),
        sum(case.variant is not None for case in loaded.cases),
        loaded.files,
    )


def _no_cases(project: Project, paths: tuple[Path, ...]) -> Problem:
    where = ", ".join(str(path) for path in paths) or ", ".join(project.cases)
    return Problem(PROJECT_FILE, 1, 1, "no-cases", f"no *.case.yaml in {where}", "add a case with: paritygate new SLUG")


def _summary(result: _Result) -> str:
    files = _count(result.files, "file")
    if result.problems:
        return f"{_count(len(result.problems), 'problem')}; {files} read"
    return f"ok: {_count(result.cases, 'case')}, {_count(result.variants, 'variant')}, {files}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _json(result: _Result) -> str:
    data = {
        "ok": not result.problems,
        "cases": result.cases,
        "variants": result.variants,
        "files": result.files,
        "problems": [problem.data() for problem in result.problems],
    }
    return json.dumps(data, indent=2)
