"""Verdicts of a run that were followed by another one: a new judgement never makes an earlier one disappear."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from paritygate.errors import ArtifactError
from paritygate.records.model import RunRecord
from paritygate.records.store import RECORD_NAME, read_record

COMPARISON_NAME = "comparison.json"
_EARLIER = re.compile(r"record-([1-9][0-9]*)\.json")


def earlier_record(run_dir: Path) -> RunRecord | None:
    """The last record of a run that was judged before; None when it was not, or its record cannot be read."""
    names = [RECORD_NAME, *(f"record-{number}.json" for number in sorted(_numbers(run_dir), reverse=True))]
    for name in names:
        if (run_dir / name).is_file():
            try:
                return read_record(run_dir / name)
            except ArtifactError:
                return None
    return None


def put_aside(run_dir: Path) -> None:
    """Give the record and the comparison of an earlier judgement the first free number.

    Raises:
        ArtifactError: when they cannot be renamed.
    """
    if not os.path.lexists(run_dir / RECORD_NAME):
        return
    number = 1 + max(_numbers(run_dir), default=0)
    try:
        (run_dir / RECORD_NAME).rename(run_dir / f"record-{number}.json")
        if os.path.lexists(run_dir / COMPARISON_NAME):
            (run_dir / COMPARISON_NAME).rename(run_dir / f"comparison-{number}.json")
    except OSError as error:
        raise ArtifactError(f"cannot rename {run_dir / RECORD_NAME}: {error.strerror or error}") from error


def note(run_dir: Path, earlier: RunRecord | None) -> dict[str, Any]:
    """What the environment of a later record says of the judgements that ``put_aside`` kept; empty without any."""
    kept = [f"record-{number}.json" for number in sorted(_numbers(run_dir))]
    if not kept:
        return {}
    return {"judged_again": {"earlier": kept, "last_status": earlier.verdict.status.value if earlier else "unreadable"}}


def _numbers(run_dir: Path) -> list[int]:
    return [int(match[1]) for path in run_dir.glob("record-*.json") if (match := _EARLIER.fullmatch(path.name))]
