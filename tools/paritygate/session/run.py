"""Run one case: preflight, legs, structure, measures, verdict, record, report.

Everything observed is on disk before a bound is judged, so whatever happens later, nothing measured is lost and a
new verdict needs no new run.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

from paritygate.errors import ExitCode, PreflightError, UsageError
from paritygate.gates.files import load_gate
from paritygate.manifest.case import Case, LegName
from paritygate.manifest.contract import contract as contract_of
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries
from paritygate.manifest.suite import items as items_of
from paritygate.records.codec import dumps
from paritygate.records.model import LegRecord, RunRecord, Status
from paritygate.records.store import write_text_atomic
from paritygate.runners.devices import cpu_profile
from paritygate.runners.leg import Latents
from paritygate.runners.problems import PreflightReport
from paritygate.runners.problems import lines as problem_lines
from paritygate.session import folders, provenance
from paritygate.session.conclude import Run, conclude, without_hardware
from paritygate.session.history import earlier_record
from paritygate.session.latents import shared_latents
from paritygate.session.legs import LegRun, Setting, joined, read_legs, refuse_used_leg, run_one
from paritygate.session.preflight import preflight_case
from paritygate.session.progress import Watcher, silent

#: Verdict -> exit code, where the verdict alone decides.
_EXIT_CODES = {
    Status.ERROR: ExitCode.LEG,
    Status.INVALID: ExitCode.FAILED,
    Status.FAILED: ExitCode.FAILED,
    Status.UNVALIDATED: ExitCode.PREFLIGHT,
    Status.PASSED: ExitCode.OK,
}


def run_case(
    case: Case,
    project: Project,
    registries: Registries,
    *,
    in_ci: bool,
    run_id: str | None = None,
    progress: Watcher = silent,
) -> RunRecord:
    """Run a case whole and return its record, which is on disk with its report.

    A machine that lacks the declared hardware gives the verdict ``unvalidated``, with everything else that is
    missing, and no leg runs.

    Args:
        case: the case.
        project: its project; ``artifacts`` may be another folder.
        registries: the registries, to say where CI runs the case.
        in_ci: whether an undeclared difference is a failure.
        run_id: a name for the run directory, which must not exist.
        progress: told what happens.

    Raises:
        UsageError: for a run id that is unusable or used.
        ManifestError: for a bad gate file, before anything runs.
        PreflightError: when something is missing and the hardware is not, or a golden is; every problem is listed.
        ArtifactError: when the run directory cannot be written.
    """
    if run_id is not None:
        folders.refuse_used(project, case, run_id)
    report = preflight_case(case, project, registries, progress=progress)
    run = _begin(case, project, report, in_ci=in_ci, run_id=run_id)
    # A golden that is missing or altered is wrong on every machine: nowhere a skip.
    if report.hardware_missing and not any(problem.code == "golden" for problem in report.problems):
        return without_hardware(run, report)
    _require(report)
    latents = shared_latents(case, run.items, run.folder)
    legs: list[LegRun] = []
    for leg in case.legs:
        legs.append(_run_leg(run, leg.name, report, latents, watch=progress))
        if legs[-1].leg.failure is not None:
            break
    return conclude(run, tuple(legs), latents, watch=progress)


def run_leg_apart(
    case: Case,
    project: Project,
    registries: Registries,
    name: LegName,
    *,
    run_id: str,
    progress: Watcher = silent,
) -> LegRecord:
    """Run one leg into the run directory ``run_id``, which the legs of the run share.

    Raises:
        UsageError: for a leg that the case does not have or the run has already, or an unusable run id.
        PreflightError: when something that this leg needs is missing.
        ArtifactError: when the run directory cannot be written.
    """
    if name not in {leg.name for leg in case.legs}:
        known = ", ".join(leg.name for leg in case.legs)
        raise UsageError(f"{case.id} has no {name} leg", hint=f"its legs are: {known}")
    refuse_used_leg(case, folders.run_folder(project, case, run_id), name)
    report = preflight_case(case, project, registries, only=name, progress=progress)
    run = _begin(case, project, report, in_ci=False, run_id=run_id, shared=True)
    _require(report)
    latents = shared_latents(case, run.items, run.folder)
    return _run_leg(run, name, report, latents, watch=progress).leg


def compare_run(case: Case, project: Project, *, run_id: str, in_ci: bool, progress: Watcher = silent) -> RunRecord:
    """Compare and judge the legs that the run directory ``run_id`` holds; an earlier record and comparison are kept.

    The record speaks of where and when the legs ran, not of where they were compared, and names the earlier ones.

    Raises:
        UsageError: when a leg is missing or incomplete.
        ManifestError: for a bad gate file.
        ArtifactError: when a file of the run is damaged or cannot be written.
    """
    folder = folders.run_folder(project, case, run_id)
    legs = read_legs(case, folder)
    before_s = sum(entry.leg.duration_s for entry in legs)
    run = Run(
        case=case,
        items=items_of(case),
        setting=joined(legs, contract=_contract(case)),
        gate=load_gate(case),
        folder=folder,
        in_ci=in_ci,
        clock_s=time.monotonic() - before_s,
        earlier=earlier_record(folder),
    )
    return conclude(run, legs, shared_latents(case, run.items, folder), watch=progress)


def exit_code(record: RunRecord, *, in_ci: bool, allow_provisional: bool) -> ExitCode:
    """The process exit code that a record stands for.

    Args:
        record: the run.
        in_ci: provisional is red in CI,
        allow_provisional: unless the case's lane allows it.
    """
    status = record.verdict.status
    if status is Status.PROVISIONAL:
        return ExitCode.FAILED if in_ci and not allow_provisional else ExitCode.OK
    broken = {leg.failure for leg in record.legs if leg.failure is not None}
    if status is Status.ERROR and broken == {"infrastructure"}:
        return ExitCode.INFRASTRUCTURE
    return _EXIT_CODES[status]


def _begin(
    case: Case, project: Project, report: PreflightReport, *, in_ci: bool, run_id: str | None, shared: bool = False
) -> Run:
    """Make the run directory and write down what preflight found.

    Raises:
        PreflightError: when there is nowhere to write.
    """
    if any(problem.code == "artifacts" for problem in report.problems):
        _require(report)
    clock_s = time.monotonic()
    folder = folders.make_run(project, case, run_id=run_id, shared=shared)
    write_text_atomic(folder / folders.PREFLIGHT_NAME, dumps(report))
    notes = {"preflight_notes": list(report.notes)} if report.notes else {}
    setting = Setting(
        contract=_contract(case),
        profile=report.profile or cpu_profile(),
        weights_verified=report.weights_verified,
        started=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        attempt=provenance.attempt(),
        environment={**provenance.environment(case.root), **notes},
    )
    return Run(
        case=case,
        items=items_of(case),
        setting=setting,
        # Legs that run apart are judged later: only the gate of a whole run must be readable before it starts.
        gate=None if shared else load_gate(case),
        folder=folder,
        in_ci=in_ci,
        clock_s=clock_s,
    )


def _contract(case: Case) -> str:
    try:
        return contract_of(case)
    except OSError as error:
        raise PreflightError(f"cannot read a file of {case.id}: {error}", hint="restore it from git") from error


def _require(report: PreflightReport) -> None:
    """Raise when preflight found problems.

    Raises:
        PreflightError: listing all of them, each with its fix.
    """
    if report.problems:
        count = "1 problem" if len(report.problems) == 1 else f"{len(report.problems)} problems"
        lines = [f"{report.case} cannot run here: {count}", *problem_lines(report)]
        raise PreflightError("\n".join(lines))


def _run_leg(run: Run, name: str, report: PreflightReport, latents: Latents | None, *, watch: Watcher) -> LegRun:
    (leg,) = (leg for leg in run.case.legs if leg.name == name)
    return run_one(
        run.case,
        leg,
        items=run.items,
        run_dir=run.folder,
        model_dir=Path(report.model_dir),
        latents=latents,
        setting=run.setting,
        golden=Path(report.goldens[name]) if name in report.goldens else None,
        watch=watch,
    )
