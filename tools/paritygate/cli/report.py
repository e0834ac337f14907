"""``paritygate report``: the report of a run, rendered again from its record."""

from __future__ import annotations

import json
from pathlib import Path

import click

from paritygate.cli.project import open_project, require_run_extra
from paritygate.errors import printable


@click.command("report")
@click.argument("name", metavar="RUN|CASE")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder for run directories (project default).")
@click.option("--json", "as_json", is_flag=True, help="Print the record instead, as JSON.")
def command(*, name: str, artifacts: Path | None, as_json: bool) -> int:
    """Render report.md and its pictures again. RUN is a run directory, its record, or a run id; CASE its newest run.

    Exit codes: 0 rendered, whatever the verdict was; 2 no such run or case; 4 the record cannot be read.
    """
    require_run_extra()
    from paritygate.records.codec import dumps  # noqa: PLC0415 - loads with the run extra
    from paritygate.records.store import RECORD_NAME, read_record  # noqa: PLC0415
    from paritygate.report.files import write_report  # noqa: PLC0415
    from paritygate.session.folders import find_run, newest_run  # noqa: PLC0415

    opened = open_project(artifacts)
    folder = find_run(opened.project, name) or newest_run(opened.project, opened.case(name))
    record = read_record(folder / RECORD_NAME)
    if as_json:
        # Plain ASCII, unlike the file: nothing in it can move a terminal's cursor or turn its text around.
        click.echo(json.dumps(json.loads(dumps(record)), indent=2))
    else:
        click.echo(printable(write_report(record, folder, opened.case(record.case))))
    return 0
