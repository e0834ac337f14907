"""Write a run's report and its pictures into the run directory."""

from __future__ import annotations

from pathlib import Path

from paritygate.errors import ArtifactError, ManifestError
from paritygate.manifest.case import Case
from paritygate.manifest.contract import contract
from paritygate.records.model import RunRecord
from paritygate.records.store import write_text_atomic
from paritygate.report.markdown import render
from paritygate.report.pictures import draw_worst_pairs

REPORT_NAME = "report.md"


def write_report(record: RunRecord, run_dir: Path, case: Case) -> Path:
    """Draw the worst pairs and write ``report.md``; returns its path. Can be repeated at any time.

    A case that has changed since the run adds nothing to the report: its record stands alone.

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
    now = case if is_as_run(case, record) else None
    write_text_atomic(path, render(record, run_dir, now, pictures=pictures, failures=failures))
    return path


def is_as_run(case: Case, record: RunRecord) -> bool:
    """Whether the case is still the one of the record; one that lost a prompt file or an adapter is not."""
    try:
        return contract(case) == record.contract
    except (ManifestError, OSError):
        return False
