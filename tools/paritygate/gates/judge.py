"""Comparison and gate -> verdict. Every check adds reasons; the worst reason is the verdict.

A bound is met only by "value satisfies bound", so a value that is not a number meets nothing, and a pass is what
remains when an accepted gate for this device and contract was met and nothing spoke against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paritygate.compare.checklist import covers, misspelt_fields
from paritygate.compare.exact import OTHER_NOISE
from paritygate.compare.feature import NOT_EXERCISED
from paritygate.errors import Problem
from paritygate.gates.files import Bound, Gate, GateProfile, device_words
from paritygate.gates.scope import scope_text
from paritygate.manifest.case import Case
from paritygate.records.model import (
    BoundResult,
    Comparison,
    DeviceProfile,
    Finding,
    LegRecord,
    MeasurementResult,
    Real,
    Status,
    Verdict,
    unit_suffix,
)

#: Of one kind of reason, this many are spelled out.
SPELLED_OUT = 3
_ORDER = list(Status)
#: Status of an exact item that nobody could compare -> what that means for a gate that was selected with it.
_NOT_SHOWN = {
    "pending": "is pending now: deliver it (in outputs/effective.json of the import), and run again",
    "unreported": "is not shown now",
}
#: Verdict -> class of failure, where no leg's own failure says it.
_FAILURE_CLASSES = {Status.ERROR: "crash", Status.INVALID: "structure", Status.FAILED: "accuracy"}


@dataclass(frozen=True)
class _Reason:
    status: Status
    finding: Finding


def judge(
    comparison: Comparison,
    case: Case,
    *,
    legs: tuple[LegRecord, ...],
    contract: str,
    profile: DeviceProfile,
    gate: Gate | None,
    evidence: tuple[Problem, ...],
    weights_verified: bool,
    in_ci: bool,
    purpose: str,
) -> Verdict:
    """The verdict on one run.

    Args:
        comparison: what was observed.
        case: the case as resolved now.
        legs: every leg that was run.
        contract: the contract of ``case``.
        profile: the device of the candidate leg.
        gate: the case's gate file, if it has one.
        evidence: what ``gates.evidence.check_evidence`` finds wrong with the gate's evidence.
        weights_verified: whether the digest of the weights was checked in this run.
        in_ci: an undeclared difference is then a failure.
        purpose: ``run``, or ``diagnostic``, which never passes.
    """
    matched, gate_reasons = _resolve(gate, case, contract=contract, profile=profile)
    reasons = [*_leg_reasons(legs), *_comparison_reasons(comparison)]
    # What a broken leg did not show is no finding of its own.
    if not any(reason.status is Status.ERROR for reason in reasons):
        reasons += [*_exact_reasons(comparison, matched), *_latents_reasons(comparison, case)]
        reasons += _checklist_reasons(comparison, case, in_ci=in_ci)
        reasons += [*gate_reasons, *_evidence_reasons(gate, matched, evidence), *_limits(case, purpose)]
    bounds = _applied(matched, comparison, reasons)
    reasons += _bound_reasons(bounds, comparison)
    status, findings = _settle(reasons, bounds)
    scope = scope_text(
        comparison, case, legs=legs, profile=profile, gate=matched, verified=weights_verified, purpose=purpose
    )
    return Verdict(
        status=status,
        reasons=findings,
        scope=scope,
        gate=_describe(gate, matched),
        gate_status=matched.status if matched else "none",
        bounds=bounds,
        failure_class=failure_class(status, legs),
    )


def failure_class(status: Status, legs: tuple[LegRecord, ...]) -> str:
    """Why a red run is red, in one word of ``Verdict.failure_class``; empty for the other verdicts.

    Of several broken legs the first counts that broke for another reason than infrastructure, which no retry mends.
    """
    kinds = [leg.failure for leg in legs if leg.failure is not None] if status is Status.ERROR else []
    own = [kind for kind in kinds if kind != "infrastructure"]
    return next(iter([*own, *kinds]), _FAILURE_CLASSES.get(status, ""))


def _resolve(
    gate: Gate | None, case: Case, *, contract: str, profile: DeviceProfile
) -> tuple[GateProfile | None, list[_Reason]]:
    """The gate profile for exactly this device, variant and contract, with what it limits; or why there is none."""
    if gate is None:
        return None, [_reason(Status.UNVALIDATED, "no-gate", f"there is no gate file {case.gate_file.name}")]
    for_device = [
        entry
        for entry in gate.profiles
        if (entry.sku, entry.cards, entry.variant) == (profile.sku, profile.cards, case.variant)
        and entry.arch in (None, profile.arch)
    ]
    here = device_words(profile.sku, profile.cards)
    if not for_device:
        known = sorted({entry.device for entry in gate.profiles})
        message = f"{gate.path} has no bounds for {here} ({profile.arch}), only for {', '.join(known)}"
        return None, [_reason(Status.UNVALIDATED, "no-profile", message)]
    matching = [entry for entry in for_device if entry.contract == contract]
    if not matching:
        message = (
            f"the bounds for {here} hold for another contract ({for_device[0].contract}); this case is now "
            f"{contract}: the request, a leg, a measure or an adapter changed, so measure again"
        )
        return None, [_reason(Status.UNVALIDATED, "other-contract", message)]
    chosen = max(matching, key=lambda entry: entry.arch is not None)
    if not chosen.bounds:
        return chosen, [_reason(Status.UNVALIDATED, "no-bounds", f"{gate.path} lists no bounds for {here}")]
    if chosen.status != "accepted":
        message = "the bounds are proposed: measured, and not yet accepted by a person"
        return chosen, [_reason(Status.PROVISIONAL, "proposed-bounds", message)]
    return chosen, []


def _evidence_reasons(
    gate: Gate | None, matched: GateProfile | None, problems: tuple[Problem, ...]
) -> Iterator[_Reason]:
    """Why the bounds that hold here rest on nothing; other profiles of the gate do not concern this run."""
    if gate is None or matched is None:
        return
    place = gate.document.position((*matched.pointer, "evidence"))
    for problem in problems:
        if (problem.line, problem.column) == place:
            yield _reason(Status.PROVISIONAL, "unsupported-bounds", f"no evidence for the bounds: {problem.message}")


def _applied(matched: GateProfile | None, comparison: Comparison, reasons: list[_Reason]) -> tuple[BoundResult, ...]:
    """Every bound against its value; without comparable outputs there is nothing to hold against one."""
    if matched is None or any(reason.status in (Status.ERROR, Status.INVALID) for reason in reasons):
        return ()
    return tuple(apply_bound(bound, comparison) for bound in matched.bounds)


def apply_bound(bound: Bound, comparison: Comparison) -> BoundResult:
    """One bound against its measurement. A missing or uncomputed measurement is NaN and meets nothing."""
    found = _measurement(bound.measurement, comparison)
    value = float("nan") if found is None or found.problem else float(found.value)
    satisfied = value >= bound.limit if bound.relation == "at_least" else value <= bound.limit
    headroom = value - bound.limit if bound.relation == "at_least" else bound.limit - value
    return BoundResult(
        measurement=bound.measurement,
        relation=bound.relation,
        limit=Real(bound.limit),
        value=Real(value),
        satisfied=bool(satisfied),
        headroom=Real(headroom),
    )


def _leg_reasons(legs: tuple[LegRecord, ...]) -> Iterator[_Reason]:
    broken = [leg for leg in legs if leg.failure is not None or leg.exit_code not in (0, None)]
    for leg in broken:
        what = leg.failure or f"exit code {leg.exit_code}"
        message = f"the {leg.name} leg broke ({what}): {leg.message or 'no message'}; log: {leg.log}"
        yield _reason(Status.ERROR, f"leg-{leg.failure or 'crash'}", message)
    # After a broken leg the next one is not started, and that needs no reason of its own.
    missing = {"reference", "candidate"} - {leg.name for leg in legs} if not broken else set()
    for name in sorted(missing):
        yield _reason(Status.ERROR, "leg-missing", f"the {name} leg was not run")


def _comparison_reasons(comparison: Comparison) -> Iterator[_Reason]:
    for finding in comparison.invalid:
        nothing = finding.code == "nothing-compared"
        yield _Reason(Status.ERROR if nothing else Status.INVALID, finding)
    if comparison.feature is not None and comparison.feature.code == NOT_EXERCISED:
        yield _Reason(Status.INVALID, comparison.feature)
    for effect in comparison.effects:
        if not effect.exercised:
            message = f"the {effect.leg} ignores {effect.field}: another value changed nothing ({effect.detail})"
            yield _reason(Status.INVALID, "not-exercised", message)
    for entry in comparison.measurements:
        if entry.problem:
            yield _reason(Status.FAILED, "not-computed", f"{entry.id} could not be computed: {entry.problem}")


def _exact_reasons(comparison: Comparison, matched: GateProfile | None) -> Iterator[_Reason]:
    status = {entry.name: entry.status for entry in comparison.exact}
    for entry in comparison.exact:
        if entry.status == "different":
            what = f"{entry.name} differ: {entry.detail}"
            if entry.name == "initial_latents" and comparison.measurements:
                what += f"; {OTHER_NOISE}"
            yield _reason(Status.FAILED, "exact-different", what)
    for name in matched.exact if matched else ():
        if (tail := _NOT_SHOWN.get(status.get(name, "unreported"))) is not None:
            yield _reason(Status.INVALID, "exact-missing", f"{name} was shown when the gate was selected and {tail}")


def _latents_reasons(comparison: Comparison, case: Case) -> Iterator[_Reason]:
    if case.initial_latents != "shared":
        return
    shown = {entry.name for entry in comparison.exact if entry.is_shown}
    if "initial_latents" not in shown:
        message = "the noise is declared as shared, and not every leg shows that it started from it (initial_latents)"
        yield _reason(Status.PROVISIONAL, "latents-unshown", message)


def _checklist_reasons(comparison: Comparison, case: Case, *, in_ci: bool) -> Iterator[_Reason]:
    declared = misspelt_fields(comparison.checklist, case.differences)
    for row in comparison.checklist:
        if row.verdict == "undeclared":
            message = f"{row.field} differs and is not declared: reference {row.reference}, candidate {row.candidate}"
            for meant, field in declared.items():
                message += f"; is differences.field {field} meant to be {meant}?" if covers(meant, row.field) else ""
            yield _reason(Status.FAILED if in_ci else Status.PROVISIONAL, "undeclared-difference", message)
    for field in case.checklist_require:
        rows = [row for row in comparison.checklist if covers(field, row.field)]
        silent = [row.note or row.field for row in rows if row.verdict == "unreported"]
        if silent or not rows:
            message = f"{field} must be reported (checklist.require): {silent[0] if silent else 'no leg reports it'}"
            yield _reason(Status.FAILED, "required-unreported", message)


def _limits(case: Case, purpose: str) -> Iterator[_Reason]:
    if case.model.weights == "random":
        yield _reason(Status.PROVISIONAL, "plumbing", "random weights test the plumbing, never accuracy")
    if purpose != "run":
        yield _reason(Status.PROVISIONAL, "diagnostic", f"a {purpose} run never counts as a pass")


def _bound_reasons(bounds: tuple[BoundResult, ...], comparison: Comparison) -> Iterator[_Reason]:
    for result in bounds:
        found = _measurement(result.measurement, comparison)
        if found is None:
            message = f"{result.measurement} is bounded by the gate and was not measured"
            yield _reason(Status.FAILED, "not-computed", message)
        elif not result.satisfied and not found.problem:
            value = f"{result.value:.6g}{unit_suffix(found.unit)}"
            message = f"{result.measurement} is {value}, required {result.words}; worst: {found.worst_item}"
            yield _reason(Status.FAILED, "bound-not-met", message, item=found.worst_item.partition("/")[0])


def _settle(reasons: list[_Reason], bounds: tuple[BoundResult, ...]) -> tuple[Status, tuple[Finding, ...]]:
    if not reasons:
        count = len(bounds)
        met = f"all {count} accepted bounds are met" if count > 1 else "the accepted bound is met"
        return Status.PASSED, (Finding(code="bounds-met", message=met),)
    ordered = sorted(reasons, key=lambda reason: _ORDER.index(reason.status))
    kept: list[Finding] = []
    counts: dict[str, int] = {}
    for reason in ordered:
        counts[reason.finding.code] = counts.get(reason.finding.code, 0) + 1
        if counts[reason.finding.code] <= SPELLED_OUT:
            kept.append(reason.finding)
    for code, count in counts.items():
        if count > SPELLED_OUT:
            last = max(index for index, finding in enumerate(kept) if finding.code == code)
            kept.insert(last + 1, Finding(code=code, message=f"and {count - SPELLED_OUT} more of this kind"))
    return ordered[0].status, tuple(kept)


def _describe(gate: Gate | None, matched: GateProfile | None) -> str:
    if gate is None:
        return "no gate file"
    if matched is None:
        return f"{gate.path}: no profile for this run"
    return f"{gate.path}, profile {matched.device}, {matched.status}" + (
        f", {matched.selected}" if matched.selected else ""
    )


def _measurement(name: str, comparison: Comparison) -> MeasurementResult | None:
    return next((entry for entry in comparison.measurements if entry.id == name), None)


def _reason(status: Status, code: str, message: str, *, item: str | None = None) -> _Reason:
    return _Reason(status, Finding(code=code, message=message, item=item))
