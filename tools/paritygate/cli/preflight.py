"""``paritygate preflight``: everything that cases lack on this machine, before anything loads."""

from __future__ import annotations

import json
from pathlib import Path

import click
import msgspec

from paritygate.cli.project import open_project, require_run_extra
from paritygate.errors import ExitCode


@click.command("preflight")
@click.argument("names", metavar="CASE...", nargs=-1, required=True)
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder for run directories (project default).")
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
def command(*, names: tuple[str, ...], artifacts: Path | None, as_json: bool) -> int:
    """Check interpreters, imports, weights, inputs, goldens, hardware, memory, disk and ports for CASE.

    No weights are loaded. The report is kept as preflight.json in the case's artifacts; within an hour, files and
    imports are not checked again unless something changed.

    Exit codes: 0 nothing is missing; 2 usage or manifest; 3 something is missing, all of it listed with its fix.
    """
    opened = open_project(artifacts)
    cases = [case for name in dict.fromkeys(names) for case in opened.cases(name)]
    require_run_extra()
    from paritygate.runners.problems import environment_lines, lines  # noqa: PLC0415 - loads with the run extra
    from paritygate.session.preflight import keep, preflight_case  # noqa: PLC0415

    reports = [preflight_case(case, opened.project, opened.registries) for case in cases]
    for report, case in zip(reports, cases, strict=True):
        keep(report, case, opened.project)
    if as_json:
        data = [{"ok": not report.problems, **msgspec.to_builtins(report)} for report in reports]
        click.echo(json.dumps(data, indent=2))
    else:
        for report in reports:
            count = len(report.problems)
            state = "ready" if not count else f"{count} {'problem' if count == 1 else 'problems'}"
            state += " (files and imports as in the last preflight: nothing changed)" if report.reused else ""
            click.echo("\n".join([f"{report.case}: {state}", *lines(report), *environment_lines(report)]))
    return int(ExitCode.PREFLIGHT if any(report.problems for report in reports) else ExitCode.OK)
