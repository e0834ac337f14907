"""What a verdict speaks for, in words: model, workload, representation, device, layers run and not run."""

from __future__ import annotations

from paritygate.compare.checklist import counted, listing
from paritygate.gates.files import GateProfile
from paritygate.manifest.case import Case
from paritygate.records.model import Comparison, DeviceProfile, LegRecord

#: What 8-bit pixels were taken from.
_EIGHT_BITS = {
    "encoded": "8-bit pixels decoded from the encoded clips",
    "lossless": "8-bit pixels from lossless files",
    "raw": "8-bit pixels of the raw frames",
}


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
        _representation(case),
        f"on {profile.sku}"
        + (f" x{profile.cards}" if profile.cards > 1 else "")
        + f" ({profile.arch}, {profile.name})",
        *_layers(comparison, case),
    ]
    bounded = {bound.measurement for bound in gate.bounds} if gate else set()
    if gate and (free := [entry.id for entry in case.measure.output if entry.id not in bounded]):
        parts.append(f"measured without a bound: {', '.join(free)}")
    if case.coverage.gaps:
        parts.append(f"not covered: {', '.join(case.coverage.gaps)}")
    return "; ".join(parts)


def _workload(case: Case, legs: tuple[LegRecord, ...]) -> str:
    items = min((len(leg.items) for leg in legs), default=0)
    size = f" of {case.output.width}x{case.output.height}" if case.output.width and case.output.height else ""
    mode = "" if case.output.kind in ("audio", "tensors") else f" {case.output.mode}"
    return f"{counted(items, 'request')}, {case.output.kind}{size}{mode}"


def _representation(case: Case) -> str:
    """What the numbers were taken from, for each sort of pixels or for the other kinds of output."""
    output = case.output
    if not case.measure.output:
        return "nothing measured"
    if output.kind == "tensors":
        return "compared as tensors in their own dtypes"
    sound = {"raw": "raw samples", "encoded": "samples decoded from the encoded files"}[output.compared_as]
    if output.kind == "audio":
        return f"compared as {sound}"
    pixels = _EIGHT_BITS[output.compared_as if output.has_video else "lossless"]
    words = {"stored": pixels, "float": "float pixels before rounding"}
    kinds = sorted({entry.pixels for entry in case.measure.output}, reverse=True)
    laid = f", laid on {output.composite}" if output.composite else ""
    heard = f", with {sound}" if output.has_audio else ""
    return "compared as " + " and ".join(words[kind] for kind in kinds) + laid + heard


def _layers(comparison: Comparison, case: Case) -> list[str]:
    shown = [entry.name for entry in comparison.exact if entry.status != "unreported"]
    silent = [entry.name for entry in comparison.exact if entry.status == "unreported"]
    measured = [entry for entry in comparison.measurements if not entry.problem]
    layers = []
    if shown:
        layers.append(f"exact layer: {', '.join(shown)}")
    if silent:
        layers.append(f"exact items not shown: {', '.join(silent)}")
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
