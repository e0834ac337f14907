"""Make the draft of a golden: one leg, run like any other, and what would keep its outputs from counting."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import msgspec

from paritygate import __version__
from paritygate.errors import ArtifactError, GoldenError, InfrastructureError, LegError, MediaError, UsageError
from paritygate.goldens.draft import Made, drafts_folder, write_draft
from paritygate.goldens.store import check_name
from paritygate.manifest.build import build_leg
from paritygate.manifest.case import Case, Leg
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries
from paritygate.manifest.suite import items as items_of
from paritygate.media.paths import read_contained
from paritygate.records.codec import loads
from paritygate.records.golden import Golden, GoldenGenerator
from paritygate.records.model import LegRecord
from paritygate.runners.problems import PreflightReport
from paritygate.runners.weights import is_snapshot, model_folder
from paritygate.session import folders
from paritygate.session.legs import read_leg
from paritygate.session.progress import Progress, Watcher, silent
from paritygate.session.provenance import git, git_state
from paritygate.session.run import run_leg_apart


class Created(NamedTuple):
    """A draft: its folder, and what its list says."""

    folder: Path
    golden: Golden


def create_draft(
    case: Case, project: Project, registries: Registries, *, name: str | None = None, progress: Watcher = silent
) -> Created:
    """Run the reference leg of a case, or the generator of the golden that it refers to, and keep what it gave.

    Args:
        case: the case.
        project: its project.
        registries: the registries, for preflight.
        name: of the golden; the case's id by default.
        progress: told what happens.

    Raises:
        UsageError: when the reference is a golden that names no generator, or the name cannot be one.
        PreflightError: when something that the leg needs is missing.
        LegError: when the leg broke.
        InfrastructureError: when it broke for nothing but the network.
        GoldenError: when the draft cannot be written.
    """
    name_of = case.id if name is None else name
    _check_name(name_of)
    leg = _generator(case)
    case = msgspec.structs.replace(case, reference=leg)
    commit = git(case.root, "rev-parse", "HEAD")
    reasons = list(_worktree_reasons(case, leg, project)) if commit else []
    dirty = bool(reasons) if commit else None
    run_id = folders.new_run_id()
    record = run_leg_apart(case, project, registries, leg.name, run_id=run_id, progress=progress)
    run_dir = folders.run_folder(project, case, run_id)
    _require(record, run_dir)
    if commit and git_state(case.root) != {"commit": commit, "dirty": dirty}:
        reasons += ["the worktree changed while the leg ran"] * (not dirty)
        dirty = True
    progress(Progress(case=case.id, stage="draft"))
    made = _made(case, leg, run_dir, commit=commit, dirty=dirty, name=name, reasons=reasons)
    target = drafts_folder(project) / name_of / run_id
    golden = write_draft(case, leg, record, items=items_of(case), run_dir=run_dir, made=made, target=target)
    return Created(target, golden)


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except GoldenError as error:
        raise UsageError(error.message, hint=error.hint) from error


def _made(
    case: Case, leg: Leg, run_dir: Path, *, commit: str | None, dirty: bool | None, name: str | None, reasons: list[str]
) -> Made:
    """How the leg was run, and from what."""
    setting = read_leg(run_dir, leg.name).setting
    generator = GoldenGenerator(
        commit=commit,
        dirty=dirty,
        command=f"paritygate golden create {case.id}" + (f" --name {name}" if name else ""),
        made_on=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        platform=platform.platform(),
        python=platform.python_version(),
        paritygate=__version__,
        profile=msgspec.to_builtins(setting.profile),
    )
    return Made(
        contract=setting.contract,
        weights_verified=setting.weights_verified,
        is_snapshot=is_snapshot(case, model_folder(case)),
        versions=_versions(run_dir, leg),
        generator=generator,
        reasons=tuple(reasons),
    )


def _generator(case: Case) -> Leg:
    """The leg that makes the golden."""
    if case.reference.runner != "golden":
        return case.reference
    data = case.reference.spec["golden"].get("generator")
    if data is None:
        raise UsageError(
            f"the reference of {case.id} is a golden, and nothing says what makes it",
            hint="write its leg under reference.golden.generator, or create it from a case that runs the reference",
        )
    return build_leg("reference", data)


def _require(record: LegRecord, run_dir: Path) -> None:
    if record.failure is None:
        return
    text = f"the {record.name} leg broke: {record.message}; log: {run_dir / record.log}"
    if record.failure == "infrastructure":
        raise InfrastructureError(text, hint="try again later")
    raise LegError(text, kind=record.failure, hint="see the log; nothing was kept as a draft")


def _worktree_reasons(case: Case, leg: Leg, project: Project) -> Iterator[str]:
    """Why the commit does not say from what the golden is made: changes, and files that it does not hold."""
    artifacts = folders.artifacts_folder(project)
    beside = [f":(exclude){artifacts.relative_to(case.root)}"] if artifacts.is_relative_to(case.root) else []
    changes = git(case.root, "status", "--porcelain", "--untracked-files=normal", "--", ":/", *beside)
    if changes is None or changes:
        first = changes.splitlines()[0].strip() if changes else "git cannot say"
        yield f"the worktree is not clean ({first}): commit what you changed, and make it again"
    prompts = case.document.get("suite", {}).get("prompts")
    files = {case.manifest, *case.bases, *(media.path for media in case.inputs)}
    files |= {path for path in (leg.adapter, prompts) if isinstance(path, str)}
    files |= set(_named_files(case, leg))
    tracked = set((git(case.root, "ls-files", "-z", "--", *sorted(files)) or "").split("\0"))
    if missing := sorted(files - tracked):
        yield f"git does not hold {', '.join(missing)}: add it, and make the golden again"


def _named_files(case: Case, leg: Leg) -> Iterator[str]:
    """Files of the project among the arguments of the leg's program, which itself may be of an environment."""
    base = case.root / leg.spec.get("cwd", ".")
    for argument in (*leg.spec.get("command", ())[1:], *leg.spec.get("server", ())[1:]):
        path = Path(os.path.normpath(base / argument))
        # pathlib would raise for a script that is an argument: it is too long for a name.
        if os.path.isfile(path) and path.is_relative_to(case.root):  # noqa: PTH113
            yield path.relative_to(case.root).as_posix()


def _versions(run_dir: Path, leg: Leg) -> dict[str, str | None]:
    """What preflight found installed in the leg's interpreter."""
    try:
        text = read_contained(run_dir, folders.PREFLIGHT_NAME)
    except MediaError as error:
        raise ArtifactError(error.message, hint="run it again") from error
    return loads(text, PreflightReport, source=folders.PREFLIGHT_NAME).interpreters.get(leg.name, {})
