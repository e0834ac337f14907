"""The formulas of the tensor metrics, from what one pass over both tensors found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paritygate.metrics.tensor_again import Sums, covariances
from paritygate.metrics.tensor_chunk import Column
from paritygate.metrics.tensor_formats import EXACT_INTEGER
from paritygate.metrics.tensor_pass import Place, Totals
from paritygate.metrics.tensor_view import View
from paritygate.metrics.values import Value, refused


@dataclass(frozen=True)
class Found:
    """What one pass over a pair of tensors found, and the sums that the formulas use."""

    totals: Totals
    view: View
    sums: Sums

    @property
    def size(self) -> int:
        """How many elements were looked at."""
        return self.totals.size


def no_number(found: Found) -> str:
    """Why no number can be computed for these values; empty when one can."""
    totals = found.totals
    if totals.non_finite:
        sides = (
            ("reference", Column.BAD_REFERENCE, totals.places.bad_reference),
            ("candidate", Column.BAD_CANDIDATE, totals.places.bad_candidate),
        )
        said = [
            f"{int(totals[column])} of the {side}, the first at {found.view.index(places[0].position)}"
            for side, column, places in sides
            if places
        ]
        return f"not finite: {' and '.join(said)}"
    if totals[Column.INEXACT]:
        return f"integers beyond {EXACT_INTEGER} are compared exactly only: mismatch_count"
    if math.isinf(totals[Column.MAX_ERROR]):
        return "the sides differ by more than a float64 can hold"
    return ""


def abs_error_max(found: Found) -> Value:
    """Largest |c - r|, with the ten worst elements."""
    worst = [
        {**_place(place, found), "error": -place.rank, "reference": place.reference, "candidate": place.candidate}
        for place in found.totals.places.worst
    ]
    return Value(found.totals[Column.MAX_ERROR], {"worst": worst})


def abs_error_mean(found: Found) -> Value:
    """Mean |c - r|."""
    return Value(found.sums.abs_e / found.size / found.sums.scale_error)


def abs_error_p99(found: Found) -> Value:
    """99th percentile, nearest rank, of |c - r|."""
    percentile = found.totals.percentile_99
    return refused("no percentile was computed") if percentile is None else Value(percentile)


def abs_error_rms(found: Found) -> Value:
    """Root of the mean (c - r)^2."""
    return Value(math.sqrt(found.sums.ee / found.size) / found.sums.scale_error)


def bias_over_rms(found: Found) -> Value:
    """|mean (c - r)| / rms (c - r), the sign in the detail."""
    if found.size == 1:
        return refused("of one element it is always 1")
    if not found.sums.ee:
        return Value(0.0, {"signed": 0.0})
    signed = found.sums.e / math.sqrt(found.size) / math.sqrt(found.sums.ee)
    return Value(min(1.0, abs(signed)), {"signed": max(-1.0, min(1.0, signed))})


def relative_l2(found: Found) -> Value:
    """|c - r| / |r|, Euclidean; 0 for equal sides, infinite for others when the reference is all zero."""
    if not found.sums.ee:
        return Value(0.0)
    if not found.sums.rr:
        return Value(math.inf, {"reference": "all zero"})
    scale = found.sums.scale_reference / found.sums.scale_error
    return Value(math.sqrt(found.sums.ee) / math.sqrt(found.sums.rr) * scale)


def relative_linf(found: Found) -> Value:
    """Largest |c - r| / largest |r|; 0 for equal sides, infinite for others when the reference is all zero."""
    error, reference = found.totals[Column.MAX_ERROR], found.totals[Column.MAX_REFERENCE]
    if not error:
        return Value(0.0)
    return Value(error / reference) if reference else Value(math.inf, {"reference": "all zero"})


def cosine(found: Found) -> Value:
    """Cosine of the angle between the sides as vectors."""
    if found.size == 1:
        return refused("of one element it is always 1 or -1")
    zero = [side for side, square in (("reference", found.sums.rr), ("candidate", found.sums.cc)) if not square]
    if zero:
        return refused(f"a zero vector has no direction: {' and '.join(zero)}")
    return _within_one(found.sums.rr, found.sums.rc, found.sums.cc, equal=not found.sums.ee)


def correlation(found: Found) -> Value:
    """Pearson's correlation of the two sides."""
    if found.size < 3:
        return refused("of fewer than three elements it is always 1 or -1")
    rr, rc, cc = covariances(found.view, found.sums)
    constant = [side for side, square in (("reference", rr), ("candidate", cc)) if square <= 0]
    if constant:
        return refused(f"constant: {' and '.join(constant)}")
    return _within_one(rr, rc, cc, equal=not found.sums.ee)


def mismatch_count(found: Found) -> Value:
    """How many elements are unequal, with the first ten."""
    first = [
        {**_place(place, found), "reference": _json(place.reference), "candidate": _json(place.candidate)}
        for place in found.totals.places.mismatches
    ]
    return Value(found.totals[Column.MISMATCHES], {"first": first})


def mismatch_share(found: Found) -> Value:
    """The share of elements that are unequal."""
    return Value(found.totals[Column.MISMATCHES] / found.size)


def non_finite_candidate(found: Found) -> Value:
    """How many elements of the candidate are NaN or infinite, with the first ten."""
    places = found.totals.places.bad_candidate
    return _non_finite(found, Column.BAD_CANDIDATE, ((place, place.candidate) for place in places))


def non_finite_reference(found: Found) -> Value:
    """How many elements of the reference are NaN or infinite, with the first ten."""
    places = found.totals.places.bad_reference
    return _non_finite(found, Column.BAD_REFERENCE, ((place, place.reference) for place in places))


def ulp_max(found: Found) -> Value:
    """Largest distance in units in the last place."""
    return Value(found.totals[Column.MAX_ULPS])


def ulp_mean(found: Found) -> Value:
    """Mean distance in units in the last place."""
    return Value(found.totals[Column.ULPS] / found.size)


def ulp_over_1_share(found: Found) -> Value:
    """The share of elements that are more than one unit in the last place apart."""
    return Value(found.totals[Column.ULPS_OVER_ONE] / found.size)


def _within_one(first: float, both: float, second: float, *, equal: bool) -> Value:
    value = 1.0 if equal else both / (math.sqrt(first) * math.sqrt(second))
    if abs(value) <= 1:
        return Value(value)
    # Only rounding, in double precision, leads here.
    return Value(math.copysign(1.0, value), {"before_clamping": value})


def _non_finite(found: Found, column: Column, places: Iterable[tuple[Place, float]]) -> Value:
    count, nan = found.totals[column], int(found.totals[column.nan])
    first = [{**_place(place, found), "value": _json(value)} for place, value in places]
    return Value(count, {"nan": nan, "infinite": int(count) - nan, "first": first})


def _place(place: Place, found: Found) -> dict[str, Any]:
    return {"index": found.view.index(place.position)}


def _json(value: Any) -> Any:
    # JSON has no word for these.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
