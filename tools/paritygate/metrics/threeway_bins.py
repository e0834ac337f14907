"""The common bins of two error histograms, and how far the two overlap.

Bins over [0, max] let one outlier squeeze all others into one bin, and bins of each side's own range let any two
look alike. These are cut from the error's own bits: equal steps within each power of two, both signs apart, and one
bin for what is small beside the baseline's median error, where only rounding noise is left to tell apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.values import Value, refused

#: Keys are the sign, the 8 exponent bits and 3 mantissa bits of the error as float32, rounded half up in magnitude.
KEYS = 1 << 12
#: What is added to the magnitude's bits before ``SHIFT`` cuts them off: a bin lies around a round number, not beside
#: it, so that errors of just below and just above 0.5 are not told apart.
ROUNDING = 1 << 19
SHIFT = 20

FINEST = 8
#: So many values for each bin of a power of two: two samples of one distribution then overlap by 0.997 on average, and
#: by more than 0.993 (normal, uniform and Laplace, 200 of each).
VALUES_PER_STEP = 2048
#: The bin around zero ends this many powers of two below the median of the baseline's errors other than 0.
OCTAVES_BELOW_MEDIAN = 7

_MAGNITUDES = KEYS // 2
_INFINITY = 0x7F80_0000


@dataclass(frozen=True, kw_only=True)
class Bin:
    """How many errors of each side lie from ``start`` to ``stop``; infinite at the last one."""

    start: float
    stop: float
    low: int
    target: int


@dataclass(frozen=True, kw_only=True)
class Bins:
    """The histograms of both sides over common bins, from the most negative error to the most positive.

    ``definition`` says in words what ``bhattacharyya`` was computed from: it depends on the bins. ``per_octave`` is the
    number of bins for each power of two and sign, ``zero_within`` the end of the bin around zero. Bins that are
    empty on both sides are left out; the counts of a side sum to the number of values.
    """

    definition: str
    per_octave: int
    zero_within: float
    bins: tuple[Bin, ...]


def common_bins(low: NDArray[np.int64], target: NDArray[np.int64]) -> Bins:
    """The histograms of two sides.

    Args:
        low: how many errors of the low-precision reference have each key, ``(KEYS,)``.
        target: the same for the target.
    """
    per_octave = FINEST
    while per_octave > 1 and int(low.sum()) < per_octave * VALUES_PER_STEP:
        per_octave //= 2
    merged = FINEST // per_octave
    first = _first_magnitude(low)
    magnitude = np.arange(_MAGNITUDES)
    place = np.where(magnitude < first, 0, magnitude // merged + 1)
    places = np.concatenate([place, -place])
    found = []
    for index in sorted(set(places[(low > 0) | (target > 0)].tolist())):
        chosen = places == index
        start, stop = _ends(abs(index), merged=merged, first=first)
        start, stop = (start, stop) if index > 0 else (-stop, -start if index else stop)
        found.append(Bin(start=start, stop=stop, low=int(low[chosen].sum()), target=int(target[chosen].sum())))
    zero_within = _edge(first)
    each = f"{per_octave} equal {'bins' if per_octave > 1 else 'bin'} per power of two"
    definition = f"signed errors, {each}, around round numbers, one bin from {-zero_within:.3g} to {zero_within:.3g}"
    return Bins(definition=definition, per_octave=per_octave, zero_within=zero_within, bins=tuple(found))


def overlap(bins: Bins) -> Value:
    """The Bhattacharyya coefficient, sum over bins of sqrt(p q): 0 for disjoint histograms, 1 for equal ones.

    Refused for too few values, whose histograms differ by chance, and when one bin holds all: then it is always 1.
    """
    count = sum(bin_.low for bin_ in bins.bins)
    if count < VALUES_PER_STEP:
        return refused(f"{count} values are too few for a histogram, it takes {VALUES_PER_STEP}")
    if len(bins.bins) == 1:
        return refused("all errors of both sides lie in one bin")
    number = min(1.0, math.fsum(math.sqrt(bin_.low * bin_.target) for bin_ in bins.bins) / count)
    sides = {side: sum(getattr(bin_, side) > 0 for bin_ in bins.bins) for side in ("low", "target")}
    return Value(number, {"bins": bins.definition, "occupied_low": sides["low"], "occupied_target": sides["target"]})


def _first_magnitude(low: NDArray[np.int64]) -> int:
    """The first magnitude key outside the bin around zero, a multiple of ``FINEST`` where there is a median."""
    counts = low[:_MAGNITUDES] + low[_MAGNITUDES:]
    counts[0] = 0
    total = np.cumsum(counts)
    if not total[-1]:
        return 1
    median = int(np.searchsorted(total, (total[-1] + 1) // 2))
    return max(1, (median // FINEST - OCTAVES_BELOW_MEDIAN) * FINEST)


def _ends(place: int, *, merged: int, first: int) -> tuple[float, float]:
    """Where the bin of a place begins and ends, as magnitudes."""
    if place == 0:
        return 0.0, _edge(first)
    begin = (place - 1) * merged
    return _edge(max(begin, first)), _edge(begin + merged)


def _edge(magnitude: int) -> float:
    """The smallest magnitude with this key."""
    bits = max(0, (magnitude << SHIFT) - ROUNDING)
    return math.inf if bits >= _INFINITY else float(np.uint32(bits).view(np.float32))
