"""What a verdict speaks for, in words: model, workload, representation, device, layers run and not run."""

from __future__ import annotations

from paritygate.compare.checklist import counted, idle_differences, listing
from paritygate.compare.exact import pending_stages
from paritygate.compare.representation import representation_words
from paritygate.gates.files import GateProfile
from paritygate.manifest.case import Case
from paritygate.records.model import Comparison, DeviceProfile, LegRecord


def scope_text(
    comparison: Comparison,
    case: Case,
    *,
    legs: tuple[LegRecord, ...],
    profile: DeviceProfile,
    gate: GateProfile | None,
    verified: bool,
    purpose: str,
) -> str:
    """One paragraph. Random weights and diagnostic runs are named first, because they limit everything after.

    ``gate``: the bounds that hold here; what they leave out is named. None is the verdict's own reason.
    """
    parts = []
    if purpose != "run":
        parts.append(f"{purpose} run: never evidence, never a pass")
    if case.model.weights == "random":
        parts.append("plumbing only: random weights say nothing about accuracy")
    parts += [
        f"{case.claim} of {case.model.id}@{case.model.revision[:19]} ({case.model.weights} weights)"
        + ("" if verified else " (weights not verified)"),
        _workload(case, legs),
        representation_words(case),
        f"on {profile.sku}"
        + (f" x{profile.cards}" if profile.cards > 1 else "")
        + f" ({profile.arch}, {profile.name})",
        *_layers(comparison, case, legs),
        *_effects(comparison, legs),
    ]
    bounded = {bound.measurement for bound in gate.bounds} if gate else set()
    if gate and (free := [entry.id for entry in case.measure.output if entry.id not in bounded]):
        parts.append(f"measured without a bound: {', '.join(free)}")
    if idle := idle_differences(comparison.checklist, case.differences):
        parts.append(f"declared as differences and in fact equal: {', '.join(idle)}")
    if case.coverage.gaps:
        parts.append(f"not covered: {', '.join(case.coverage.gaps)}")
    return "; ".join(parts)


def _workload(case: Case, legs: tuple[LegRecord, ...]) -> str:
    items = min((len(leg.items) for leg in legs), default=0)
    size = f" of {case.output.width}x{case.output.height}" if case.output.width and case.output.height else ""
    mode = "" if case.output.kind in ("audio", "tensors") else f" {case.output.mode}"
    return f"{counted(items, 'request')}, {case.output.kind}{size}{mode}"


def _effects(comparison: Comparison, legs: tuple[LegRecord, ...]) -> list[str]:
    """Which request fields were seen to change the output; a server that nobody probed may ignore any of them."""
    shown = [
        entry.field if entry.leg == "candidate" else f"{entry.field} ({entry.leg})"
        for entry in comparison.effects
        if entry.exercised
    ]
    if shown:
        return [f"effects shown: {', '.join(shown)}"]
    unprobed = any(
        leg.name == "candidate"
        and leg.runner == "openai"
        and leg.failure is None
        and not (leg.effective and leg.effective.effects)
        for leg in legs
    )
    return ["effects of request fields not probed"] if unprobed else []


def _layers(comparison: Comparison, case: Case, legs: tuple[LegRecord, ...]) -> list[str]:
    shown = [entry.name for entry in comparison.exact if entry.is_shown]
    silent = [entry.name for entry in comparison.exact if entry.status == "unreported"]
    measured = [entry for entry in comparison.measurements if not entry.problem]
    layers = []
    if shown:
        layers.append(f"exact layer: {', '.join(shown)}")
    if silent:
        layers.append(f"exact items not shown: {', '.join(silent)}")
    if pending := pending_stages(comparison.exact, legs):
        layers.append(f"pending: {', '.join(pending)}")
    if unreported := [row.field for row in comparison.checklist if row.verdict == "unreported"]:
        layers.append(f"{counted(len(unreported), 'setting')} not reported: {listing(unreported)}")
    if measured:
        layers.append(f"output layer: {len(measured)} of {len(case.measure.output)} measurements")
    missing = [] if shown else ["exact"]
    # The parts layer is declared in manifests already and measured by the diagnosis work.
    missing.append("parts")
    if not measured:
        missing.append("output")
    layers.append(f"layers not run: {', '.join(missing)}")
    return layers
