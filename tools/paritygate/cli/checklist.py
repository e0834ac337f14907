"""``paritygate checklist``: what both legs of a run had in common, and what they had not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click
import msgspec

from paritygate.cli.project import open_project, require_run_extra
from paritygate.cli.table import table
from paritygate.errors import ExitCode, UsageError, printable

#: Verdicts of a row that no run may end with unseen.
_RED = ("undeclared", "different", "not-exercised")


@click.command("checklist")
@click.argument("name", metavar="CASE")
@click.option(
    "--run", "run", metavar="RUN", help="A run directory, its record, or a run id; the newest run by default."
)
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder for run directories (project default).")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def command(*, name: str, run: str | None, artifacts: Path | None, as_json: bool) -> int:
    """Show the effective settings of both legs of a run side by side, as they were observed.

    Exit codes: 0 nothing differs undeclared, and nothing required is missing; 1 something does; 2 no such case or run;
    4 the record cannot be read.
    """
    require_run_extra()
    from paritygate.compare.checklist import covers  # noqa: PLC0415 - loads with the run extra
    from paritygate.compare.groups import HEADINGS  # noqa: PLC0415
    from paritygate.records.store import RECORD_NAME, read_record  # noqa: PLC0415
    from paritygate.report.checklist import VERDICTS, checklist_rows  # noqa: PLC0415
    from paritygate.report.files import is_as_run  # noqa: PLC0415
    from paritygate.session.folders import find_run, newest_run  # noqa: PLC0415

    opened = open_project(artifacts)
    case = opened.case(name)
    folder = find_run(opened.project, run) if run else newest_run(opened.project, case)
    if folder is None:
        raise UsageError(f"{run!r} is no run", hint=f"run: paritygate run {case.id}")
    record = read_record(folder / RECORD_NAME)
    if record.case != case.id:
        raise UsageError(f"the run {record.run_id} is of {record.case}, not of {case.id}")
    # What the manifest says now of its inputs was not so when the run was made.
    rows = checklist_rows(record, case if is_as_run(case, record) else None)
    required = [row for row in rows if row.verdict == "unreported"
                and any(covers(field, row.field) for field in case.checklist_require)]  # fmt: skip
    red = [row for row in rows if row.verdict in _RED] + required
    if as_json:
        data = {
            "case": record.case,
            "run": record.run_id,
            "ok": not red,
            "rows": msgspec.to_builtins(rows),
        }
        click.echo(json.dumps(data, indent=2))
        return int(ExitCode.FAILED if red else ExitCode.OK)
    counts = Counter(row.verdict for row in rows)
    click.echo(printable(f"{record.case}: run {record.run_id}"))
    for group, heading in HEADINGS.items():
        if shown := [row for row in rows if row.group == group]:
            click.echo(f"\n{heading}")
            cells = [(row.field, row.reference, row.candidate, row.verdict, row.note) for row in shown]
            header = ("field", "reference", "candidate", "verdict", "evidence or declared difference")
            click.echo("\n".join(table(header, cells, left=len(header))))
    click.echo(f"\n{', '.join(f'{counts[verdict]} {verdict}' for verdict in VERDICTS if counts[verdict])}")
    for verdict in VERDICTS:
        if counts[verdict] and verdict != "equal":
            click.echo(f"  {verdict}: {VERDICTS[verdict]}")
    return int(ExitCode.FAILED if red else ExitCode.OK)
