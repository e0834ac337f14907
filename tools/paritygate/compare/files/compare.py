"""The whole comparison: every pair, every finding in one pass, then the bounds."""

from __future__ import annotations

from pathlib import Path

from paritygate import __version__
from paritygate.compare.files.arrays import compare_sounds, compare_tensors
from paritygate.compare.files.bounds import Bound, check_kinds, judge
from paritygate.compare.files.declared import Declared
from paritygate.compare.files.pairing import Pair, Pairing
from paritygate.compare.files.pictures import compare_pictures
from paritygate.compare.files.result import RESULT_SCHEMA_VERSION, Outcome, Part, Result, State
from paritygate.compare.place import Refused
from paritygate.metrics.kernel import engine
from paritygate.metrics.specs import Kind
from paritygate.records.model import Finding


def compare_files(
    reference: Path, candidate: Path, pairing: Pairing, *, declared: Declared, bounds: tuple[Bound, ...] = ()
) -> Result:
    """Measure every pair and judge the bounds. One pair that cannot be compared does not keep the others from it.

    Args:
        reference: as given, for the result.
        candidate: as given, for the result.
        pairing: of the two.
        declared: what is measured and how; ``bounded`` names the metrics of the bounds.
        bounds: what is judged.

    Raises:
        UsageError: for a metric or bound that is defined for nothing that is compared.
        ModuleNotFoundError: when an optional part that a file or metric needs is not installed.
    """
    kinds: set[Kind] = {pair.kind for pair in pairing.pairs}
    # A clip may have sound.
    possible: set[Kind] = kinds | ({"audio"} if "video" in kinds and declared.kind is None else set())
    check_kinds((*(declared.metrics or ()), *declared.bounded), possible)
    parts: list[Part] = []
    findings, notes = list(pairing.findings), list(pairing.notes)
    for index, pair in enumerate(pairing.pairs):
        if len(pairing.pairs) > 1:
            declared.watch("pairs", index, len(pairing.pairs))
        _one(pair, declared, parts=parts, findings=findings, notes=notes)
    outcomes = judge(bounds, parts)
    if not parts and not findings:
        findings.append(Finding(code="nothing-compared", message="no pair was measured"))
    return Result(
        schema_version=RESULT_SCHEMA_VERSION,
        program=f"paritygate {__version__}",
        engine=engine(),
        reference=str(reference),
        candidate=str(candidate),
        state=_state(findings, outcomes, parts, asked=declared.metrics or ()),
        is_identical=bool(parts) and not findings and all(part.is_identical for part in parts),
        pairs=len(pairing.pairs),
        findings=tuple(findings),
        notes=tuple(dict.fromkeys(notes)),
        parts=tuple(parts),
        bounds=outcomes,
    )


def _one(pair: Pair, declared: Declared, *, parts: list[Part], findings: list[Finding], notes: list[str]) -> None:
    try:
        if pair.kind == "tensor":
            part, told, refusals = compare_tensors(pair, declared)
            findings += [_finding(pair, refusal) for refusal in refusals]
        else:
            part, told = (compare_sounds if pair.kind == "audio" else compare_pictures)(pair, declared)
        parts.append(part)
        notes += [f"{pair.name}: {note}" for note in told]
    except Refused as refusal:
        findings.append(_finding(pair, refusal))
        return
    if part.kind == "video" and part.reference.structure.get("sound"):
        sound = Pair(name=f"{pair.name} (sound)", kind="audio", reference=pair.reference, candidate=pair.candidate)
        _one(sound, declared, parts=parts, findings=findings, notes=notes)


def _finding(pair: Pair, refusal: Refused) -> Finding:
    return Finding(code=refusal.code, message=refusal.message, item=pair.name)


def _state(
    findings: list[Finding], outcomes: tuple[Outcome, ...], parts: list[Part], *, asked: tuple[str, ...]
) -> State:
    """Invalid before failed: a number beside a structure that differs proves nothing."""
    if findings:
        return "invalid"
    # A metric that was asked for by name and has no value is a failure, also where no bound judges it.
    lacking = any(series.problems for part in parts for series in part.series if series.metric in asked)
    if lacking or not all(outcome.satisfied for outcome in outcomes):
        return "failed"
    return "passed" if outcomes else "measured"
