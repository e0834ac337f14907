"""Many values of one metric -> one value. NaN always wins; infinity never lifts a mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np


def aggregate(values: Sequence[float], how: str, *, direction: str) -> float:
    """The aggregate ``how`` of at least one value; ``all`` is the worst by ``direction``.

    NaN anywhere gives NaN. Percentiles are nearest-rank. ``mean`` is over the finite values, unless none is finite:
    one perfect image (infinite PSNR) must not carry fifteen bad ones over a bound.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or np.isnan(array).any():
        return math.nan
    worst = "min" if direction == "higher" else "max"
    return float(_AGGREGATES[worst if how == "all" else how](array))


def worst_index(values: Sequence[float], *, direction: str) -> int:
    """The position of the worst value: the first NaN, else the first extreme by ``direction``."""
    array = np.asarray(values, dtype=np.float64)
    missing = np.isnan(array)
    if missing.any():
        return int(np.argmax(missing))
    return int(np.argmin(array) if direction == "higher" else np.argmax(array))


def _mean(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    finite = array[np.isfinite(array)]
    return float(np.mean(finite)) if finite.size else float(array[0])


def _median(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    ordered = np.sort(array)
    low, high = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
    # Halfway to infinity is infinity, which no image of the middle need have reached.
    return float((low + high) / 2) if math.isfinite(low) == math.isfinite(high) else float(low)


def _nearest_rank(percent: int) -> Callable[[np.ndarray[tuple[int, ...], np.dtype[np.float64]]], float]:
    return lambda array: float(np.sort(array)[max(0, (percent * array.size + 99) // 100 - 1)])


_AGGREGATES: Mapping[str, Callable[[np.ndarray[tuple[int, ...], np.dtype[np.float64]]], float]] = MappingProxyType(
    {
        "max": lambda array: float(np.max(array)),
        "mean": _mean,
        "median": _median,
        "min": lambda array: float(np.min(array)),
        "p01": _nearest_rank(1),
        "p99": _nearest_rank(99),
    }
)
