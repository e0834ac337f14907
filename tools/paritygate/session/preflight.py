"""Preflight of one case: what this machine lacks, its goldens, and the report that the next run may go back to."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from paritygate.errors import ArtifactError, InfrastructureError, MediaError
from paritygate.goldens.needed import resolve_for
from paritygate.manifest.case import Case, LegName
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries
from paritygate.manifest.suite import items as items_of
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps, loads
from paritygate.records.store import write_text_atomic
from paritygate.runners import preflight
from paritygate.runners.preflight_imports import answered, keep_answer
from paritygate.runners.problems import PreflightProblem, PreflightReport
from paritygate.session import folders
from paritygate.session.progress import Progress, Watcher, silent

#: A report is not gone back to after this; bytes can rot without a trace in the times of a file.
_HOLDS_S = 3600


def preflight_case(
    case: Case,
    project: Project,
    registries: Registries,
    *,
    only: LegName | None = None,
    progress: Watcher = silent,
) -> PreflightReport:
    """Everything that the case (or one leg of it) lacks on this machine; nothing is loaded.

    Raises:
        InfrastructureError: when nothing is missing but a server that has a golden.
    """
    progress(Progress(case=case.id, stage="preflight"))
    hardware = registries.hardware.get(case.ci.sku[0])
    legs = tuple(leg for leg in case.legs if only in (None, leg.name))
    report = preflight.check(
        case,
        legs=legs,
        artifacts=folders.artifacts_folder(project),
        items=len(items_of(case)),
        queue=hardware.queue if hardware else "",
        earlier=_earlier(case, project),
    )
    try:
        found = resolve_for(case, project, legs)
    except InfrastructureError as error:
        if not report.problems:
            raise
        problem = PreflightProblem(code="infrastructure", message=error.message, fix=error.hint)
        return msgspec.structs.replace(report, problems=(*report.problems, problem))
    lacking = [
        PreflightProblem(code="golden", message=message, fix=fix, leg=leg) for leg, message, fix in found.problems
    ]
    return msgspec.structs.replace(
        report,
        problems=(*report.problems, *lacking),
        goldens={leg: str(folder) for leg, folder in found.folders.items()},
    )


def keep(report: PreflightReport, case: Case, project: Project) -> None:
    """Write ``<artifacts>/<case id>/preflight.json``, where that can be written: the report says so where it cannot.

    A report that rests on an earlier one does not replace it: it holds as long as that one does.
    """
    path = _place(case, project)
    if not report.reused:
        with suppress(ArtifactError, OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            text = dumps(report)
            write_text_atomic(path, text)
            if not report.problems:
                keep_answer(project.root, sha256_bytes(text.encode()))


def _earlier(case: Case, project: Project) -> PreflightReport | None:
    path = _place(case, project)
    try:
        if not 0 <= time.time() - path.lstat().st_mtime <= _HOLDS_S:
            return None
        content = read_contained(path.parent, path.name)
        # The fingerprint is no secret: a report that was altered or brought along could say anything.
        if not answered(project.root, sha256_bytes(content)):
            return None
        return loads(content, PreflightReport, source=path.name)
    except (ArtifactError, MediaError, OSError):
        return None  # as good as none


def _place(case: Case, project: Project) -> Path:
    return folders.artifacts_folder(project) / case.id / folders.PREFLIGHT_NAME
