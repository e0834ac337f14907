"""Did the accelerated path really run? A feature that never fires gives perfect scores."""

from __future__ import annotations

import math

from paritygate.manifest.case import Case
from paritygate.records.model import Finding, LegRecord

#: Codes of ``Comparison.feature``.
EXERCISED = "feature-exercised"
NOT_EXERCISED = "feature-not-exercised"


def feature_evidence(case: Case, candidate: LegRecord, *, bit_identical: bool) -> Finding | None:
    """What shows that the candidate's feature ran; None unless the claim is ``acceleration``.

    ``feature.exercised_by`` is the name of one counter that the candidate reports under ``feature.name``. The
    feature ran when that counter is a number above 0 (or true).
    """
    if case.claim != "acceleration":
        return None
    feature = case.candidate.feature
    if feature is None:
        return Finding(code=NOT_EXERCISED, message="the candidate declares no feature, so nothing shows that one ran")
    counters = candidate.effective.features.get(feature.name, {}) if candidate.effective else {}
    counter = f"{feature.name}.{feature.exercised_by}"
    value = counters.get(feature.exercised_by)
    if isinstance(value, (int, float)) and math.isfinite(value) and value > 0:
        return Finding(code=EXERCISED, message=f"{counter} = {value}")
    found = f"is {value!r}" if feature.exercised_by in counters else "was not reported"
    tail = ", and the output is bit-identical to the reference" if bit_identical else ""
    return Finding(code=NOT_EXERCISED, message=f"feature not exercised: the counter {counter} {found}{tail}")
