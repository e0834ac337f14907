"""A second look at tensors whose plain sums lost digits.

Rare, so it is plain. Squares of float64 values beyond 1e154 overflow and below 1e-162 vanish; the variance of values
around a large mean cancels; so do the squares of a candidate far smaller than the reference, taken from those of the
reference and of the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.tensor_chunk import Column
from paritygate.metrics.tensor_pass import NUMPY_CHUNK, Totals
from paritygate.metrics.tensor_view import View

Floats = NDArray[np.float64]

#: Between these, squares lose nothing that matters in a sum.
_SAFE_LOW, _SAFE_HIGH = 1e-280, 1e300
#: Below this share of the mean square, a variance from plain sums has lost more than five digits.
_CANCELLED = 1e-5
#: Below this share of the reference's squares, those of the candidate have lost more than two digits.
_COMPARABLE = 0.01


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over r * scale_reference, c * scale_candidate and e * scale_error, with e = c - r.

    The scales are powers of two.
    """

    r: float
    c: float
    e: float
    abs_e: float
    rr: float
    cc: float
    ee: float
    rc: float
    scale_reference: float = 1.0
    scale_candidate: float = 1.0
    scale_error: float = 1.0


def sums_of(view: View, found: Totals) -> Sums:
    """The sums of a pass, or those of a second one over scaled values where the first lost digits."""
    r, e, rr, ee, re = (found[column] for column in (Column.R, Column.E, Column.RR, Column.EE, Column.RE))
    plain = Sums(r=r, c=r + e, e=e, abs_e=found[Column.ABS_E], rr=rr, cc=rr + 2 * re + ee, ee=ee, rc=rr + re)
    if found.non_finite or math.isinf(found[Column.MAX_ERROR]) or _sound(plain, equal=found[Column.MAX_ERROR] == 0):
        return plain
    reference, candidate, error = (_scale(largest) for largest in _maxima(view))
    rows = [
        (r.sum(), c.sum(), e.sum(), np.abs(e).sum(), r @ r, c @ c, e @ e, r @ c)
        for r, c, e in ((r * reference, c * candidate, (c - r) * error) for r, c in _values(view))
    ]
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]
    return Sums(
        **dict(zip(("r", "c", "e", "abs_e", "rr", "cc", "ee", "rc"), sums, strict=True)),
        scale_reference=reference,
        scale_candidate=candidate,
        scale_error=error,
    )


def _sound(plain: Sums, *, equal: bool) -> bool:
    squares = (plain.rr, plain.cc) if equal else (plain.rr, plain.cc, plain.ee)
    return plain.cc >= _COMPARABLE * plain.rr and all(_SAFE_LOW < square < _SAFE_HIGH for square in squares)


def covariances(view: View, sums: Sums) -> tuple[float, float, float]:
    """Sums of squares and products around the means: of the reference, of both, of the candidate.

    Exactly 0 for a side on which all elements are equal.
    """
    size = view.size
    plain = (sums.rr - sums.r * sums.r / size, sums.rc - sums.r * sums.c / size, sums.cc - sums.c * sums.c / size)
    if plain[0] > _CANCELLED * sums.rr and plain[2] > _CANCELLED * sums.cc:
        return plain
    means = sums.r / size, sums.c / size
    first = [values[0] for values in next(_values(view))]
    rows, varied = [], [False, False]
    for r, c in _values(view):
        varied = [varied[0] or bool((r != first[0]).any()), varied[1] or bool((c != first[1]).any())]
        x, y = r * sums.scale_reference - means[0], c * sums.scale_candidate - means[1]
        rows.append((x.sum(), y.sum(), x @ x, x @ y, y @ y))
    # The means are rounded; what is left of the sums takes that back.
    left, right, rr, rc, cc = (math.fsum(column) for column in zip(*rows, strict=True))
    variances = rr - left * left / size, cc - right * right / size
    return variances[0] if varied[0] else 0.0, rc - left * right / size, variances[1] if varied[1] else 0.0


def _values(view: View) -> Iterator[tuple[Floats, Floats]]:
    for chunk in view.chunks(NUMPY_CHUNK):
        reference, candidate = view.wide(chunk.reference), view.wide(chunk.candidate)
        yield reference.astype(np.float64), candidate.astype(np.float64)


def _maxima(view: View) -> tuple[float, float, float]:
    rows = [(np.abs(r).max(), np.abs(c).max(), np.abs(c - r).max()) for r, c in _values(view)]
    reference, candidate, error = (float(max(column)) for column in zip(*rows, strict=True))
    return reference, candidate, error


def _scale(largest: float) -> float:
    # Two steps would be needed to bring the smallest subnormal to 1; 2**1000 brings it far enough.
    return math.ldexp(1.0, max(-1000, min(1000, -math.frexp(largest)[1]))) if largest else 1.0
