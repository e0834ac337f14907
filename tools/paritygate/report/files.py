"""Write a run's report and its pictures into the run directory."""

from __future__ import annotations

from pathlib import Path

from paritygate.errors import ArtifactError
from paritygate.manifest.case import Case
from paritygate.records.model import RunRecord
from paritygate.records.store import write_text_atomic
from paritygate.report.markdown import render
from paritygate.report.pictures import draw_worst_pairs

REPORT_NAME = "report.md"


def write_report(record: RunRecord, run_dir: Path, case: Case) -> Path:
    """Draw the worst pairs and write ``report.md``; returns its path. Can be repeated at any time.

    Raises:
        ArtifactError: when the run directory cannot be written; an old report is then untouched.
    """
    try:
        pictures, failures = draw_worst_pairs(record, run_dir, case)
    except OSError as error:
        raise ArtifactError(
            f"cannot write pictures into {run_dir}: {error.strerror or error}",
            hint="free space, or choose a folder with --artifacts",
        ) from error
    path = run_dir / REPORT_NAME
    write_text_atomic(path, render(record, run_dir, case, pictures=pictures, failures=failures))
    return path
