"""What a person does next about a verdict."""

from __future__ import annotations

from paritygate.manifest.case import Case
from paritygate.records.model import BoundResult, RunRecord

#: Reasons with these codes say that there are no bounds for this case as it is, on this device.
NO_BOUNDS = frozenset({"no-bounds", "no-gate", "no-profile", "other-contract"})


def next_step(record: RunRecord, case: Case) -> str:
    """How to come by the bounds that the verdict misses; empty when it misses none."""
    if not any(reason.code in NO_BOUNDS for reason in record.verdict.reasons):
        return ""
    gate = case.gate_file.relative_to(case.root).as_posix()
    return f"repeat the run, commit its records under evidence/, and write the bounds they meet to {gate}"


def bound_line(bound: BoundResult) -> str:
    """One bound against its value in words: ``missed output.ssim.min = 0.9, at least 0.97 (headroom -0.07)``."""
    state = "met   " if bound.satisfied else "missed"
    return f"{state} {bound.measurement} = {bound.value:.6g}, {bound.words} (headroom {bound.headroom:.6g})"
