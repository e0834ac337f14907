"""Run directories: ``artifacts/<case id>/<run id>/``, never used twice."""

from __future__ import annotations

import os
import re
import secrets
from datetime import datetime, timezone
from pathlib import Path

from paritygate.errors import ArtifactError, UsageError
from paritygate.manifest.case import Case
from paritygate.manifest.project import Project
from paritygate.records.store import RECORD_NAME

PREFLIGHT_NAME = "preflight.json"

# Never the name of a file of a run: `artifacts/<case>/x.json` would read like a record.
_RUN_ID = re.compile(r"(?!.*\.(?:json|md|npy|png|yaml|yml)$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.IGNORECASE)


def artifacts_folder(project: Project) -> Path:
    """Where the project keeps run directories, absolute."""
    return project.root / project.artifacts


def new_run_id() -> str:
    """UTC time to the microsecond and a random suffix: sorted by time, unique between machines."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(3)}"


def make_run(project: Project, case: Case, *, run_id: str | None = None, shared: bool = False) -> Path:
    """Make a run directory.

    Args:
        project: says where artifacts go.
        case: the case.
        run_id: a name of the caller's choice; a new one by default.
        shared: legs that run apart use one directory, so it may exist.

    Raises:
        UsageError: for a run id that is no plain name, or is used.
        ArtifactError: when it cannot be made.
    """
    path = run_folder(project, case, run_id or new_run_id())
    try:
        path.mkdir(parents=True, exist_ok=shared)
    except FileExistsError as error:
        raise _used(case, path.name) from error
    except OSError as error:
        raise ArtifactError(
            f"cannot create {path}: {error.strerror or error}", hint="make it writable, or choose another --artifacts"
        ) from error
    return path


def refuse_used(project: Project, case: Case, run_id: str) -> None:
    """Refuse a run id before anything is checked or run.

    Raises:
        UsageError: for a run id that is no plain name, or is used.
    """
    if os.path.lexists(run_folder(project, case, run_id)):
        raise _used(case, run_id)


def _used(case: Case, run_id: str) -> UsageError:
    return UsageError(
        f"the run {run_id} of {case.id} exists already", hint="use another --run-id; runs are never reused"
    )


def run_folder(project: Project, case: Case, run_id: str) -> Path:
    """The directory of a run, which may not exist.

    Raises:
        UsageError: for a run id that is no plain name.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(
            f"{run_id!r} is no run id",
            hint="use letters, digits, dots, hyphens and underscores, and no ending of a file",
        )
    return artifacts_folder(project) / case.id / run_id


def find_run(project: Project, name: str) -> Path | None:
    """The run directory that a path (of it, or of its record) or a run id names; None when it names no run.

    Raises:
        UsageError: for a run that has no record.
    """
    path = Path(name)
    places = [path.parent if path.name == RECORD_NAME else path]
    if _RUN_ID.fullmatch(name):
        places += sorted(artifacts_folder(project).glob(f"*/{name}"))
    # A case has a preflight.json of its own beside its runs.
    cases = artifacts_folder(project).resolve()
    runs = [run for run in (place.resolve() for place in places if _is_run(place)) if run.parent != cases]
    finished = [run for run in runs if (run / RECORD_NAME).is_file()]
    if runs and not finished:
        case = runs[0].parent.name
        raise UsageError(
            f"the run {runs[0].name} of {case} has no record: it did not finish",
            hint=f"when both legs did: paritygate run {case} --compare --run-id {runs[0].name}; "
            f"else a new run: paritygate run {case}",
        )
    return finished[0] if finished else None


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (RECORD_NAME, PREFLIGHT_NAME))


def newest_run(project: Project, case: Case) -> Path:
    """The newest run of a case that has a record.

    Raises:
        UsageError: when there is none.
    """
    runs = sorted(path.parent for path in (artifacts_folder(project) / case.id).glob(f"*/{RECORD_NAME}"))
    if not runs:
        raise UsageError(f"{case.id} has no finished run", hint=f"run: paritygate run {case.id}")
    return max(runs, key=lambda run: ((run / RECORD_NAME).stat().st_mtime_ns, run.name))
