"""From the legs of a run to its record: compare, judge, write. Each result is on disk before the next step."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from paritygate.compare.compare import compare_legs
from paritygate.gates.evidence import check_evidence
from paritygate.gates.files import Gate
from paritygate.gates.judge import judge
from paritygate.manifest.case import Case, Item
from paritygate.records.codec import dumps
from paritygate.records.model import (
    OUTPUTS_FOLDER,
    RECORD_SCHEMA_VERSION,
    Comparison,
    Finding,
    LegRecord,
    RunRecord,
    Status,
    Verdict,
)
from paritygate.records.store import write_record, write_text_atomic
from paritygate.report.files import write_report
from paritygate.runners.leg import Latents
from paritygate.runners.problems import PreflightReport
from paritygate.session import history
from paritygate.session.latents import change, forgery
from paritygate.session.legs import LegRun, Setting, binding_findings, contract_findings, device_findings
from paritygate.session.progress import Progress, Watcher


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same through one run.

    ``clock_s``: the monotonic second at which the run began, moved back by what its legs took when they ran before.
    ``earlier``: its record, when it was judged before.
    """

    case: Case
    items: tuple[Item, ...]
    setting: Setting
    gate: Gate | None
    folder: Path
    in_ci: bool
    clock_s: float
    earlier: RunRecord | None = None


def conclude(run: Run, legs: tuple[LegRun, ...], latents: Latents | None, *, watch: Watcher) -> RunRecord:
    """Compare the legs, judge the comparison, and write ``comparison.json``, ``record.json`` and the report.

    Raises:
        ArtifactError: when the run directory cannot be written; what is there stays.
    """
    watch(Progress(case=run.case.id, stage="compare"))
    comparison = _compare(run, legs, latents)
    history.put_aside(run.folder)
    write_text_atomic(run.folder / history.COMPARISON_NAME, dumps(comparison))
    watch(Progress(case=run.case.id, stage="judge"))
    records = tuple(entry.leg for entry in legs)
    verdict = judge(
        comparison,
        run.case,
        legs=records,
        contract=run.setting.contract,
        profile=run.setting.profile,
        gate=run.gate,
        evidence=check_evidence(run.case, run.gate) if run.gate else (),
        weights_verified=run.setting.weights_verified,
        in_ci=run.in_ci,
        purpose="run",
    )
    record = _record(run, legs=records, comparison=comparison, verdict=verdict)
    write_record(run.folder, record)
    watch(Progress(case=run.case.id, stage="report"))
    write_report(record, run.folder, run.case)
    return record


def _compare(run: Run, legs: tuple[LegRun, ...], latents: Latents | None) -> Comparison:
    """What was observed; nothing is compared when a leg broke, and nothing measured when the run is invalid."""
    by_name = {entry.leg.name: entry.leg for entry in legs}
    drawn = (change(latents, when="when the legs were compared"), forgery(run.case, run.items, latents))
    linked = _linked_outputs(legs, run.folder)
    findings = (
        *(finding for entry in legs for finding in entry.findings),
        *(finding for finding in drawn if finding),
        *contract_findings(run.case, legs, run.setting.contract),
        *binding_findings(run.case, legs, run.folder),
        *device_findings(legs),
        *linked,
    )
    broken = any(entry.leg.failure is not None for entry in legs)
    if broken or linked or not {"reference", "candidate"} <= by_name.keys():
        return Comparison(invalid=findings)
    comparison = compare_legs(
        run.case, run.items, reference=by_name["reference"], candidate=by_name["candidate"], run_dir=run.folder
    )
    if not findings:
        return comparison
    return msgspec.structs.replace(comparison, invalid=(*findings, *comparison.invalid), measurements=())


def _linked_outputs(legs: tuple[LegRun, ...], run_dir: Path) -> list[Finding]:
    """Legs whose folder of outputs leads elsewhere, into a tree of any size."""
    names = [entry.leg.name for entry in legs if (run_dir / entry.leg.name / OUTPUTS_FOLDER).is_symlink()]
    return [Finding(code="path", message=f"{name}/{OUTPUTS_FOLDER} is a symbolic link") for name in names]


def without_hardware(run: Run, report: PreflightReport) -> RunRecord:
    """The record of a run that this machine cannot do: ``unvalidated``, with everything that is missing."""
    problems = sorted(report.problems, key=lambda problem: problem.code != "hardware")
    verdict = Verdict(
        status=Status.UNVALIDATED,
        reasons=tuple(
            Finding(code=problem.code, message=f"{problem.message}; fix: {problem.fix}") for problem in problems
        ),
        scope="nothing ran: this machine is none that the case allows",
        gate="not looked up",
        gate_status="none",
    )
    record = _record(run, legs=(), comparison=Comparison(), verdict=verdict)
    write_record(run.folder, record)
    write_report(record, run.folder, run.case)
    return record


def _record(run: Run, *, legs: tuple[LegRecord, ...], comparison: Comparison, verdict: Verdict) -> RunRecord:
    setting, earlier = run.setting, run.earlier
    return RunRecord(
        schema_version=RECORD_SCHEMA_VERSION,
        run_id=run.folder.name,
        case=run.case.id,
        base_case=run.case.base_id,
        variant=run.case.variant,
        title=run.case.title,
        claim=run.case.claim,
        contract=setting.contract,
        model_id=run.case.model.id,
        model_revision=run.case.model.revision,
        weights=run.case.model.weights,
        purpose="run",
        started=earlier.started if earlier else setting.started,
        duration_s=earlier.duration_s if earlier else time.monotonic() - run.clock_s,
        attempt=setting.attempt,
        in_ci=run.in_ci,
        profile=setting.profile,
        environment={**setting.environment, **history.note(run.folder, earlier)},
        legs=legs,
        comparison=comparison,
        verdict=verdict,
        weights_verified=setting.weights_verified,
    )
