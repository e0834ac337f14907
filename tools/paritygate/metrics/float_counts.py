"""Sums and counts of how far float pixels lie apart, in float64, a strip of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paritygate.metrics import blas
from paritygate.metrics.level_counts import cell_sums, largest
from paritygate.metrics.pixels import Array
from paritygate.metrics.tiles import CELL, Floats

_STRIP_VALUES = 1 << 16
#: Equal ranges of difference; only the values of those that a rank falls into are looked at again.
_BUCKETS = 1 << 16


@dataclass(frozen=True)
class FloatCounts:
    """Of one pair, in the unit of its values.

    ``channel_over`` and ``pixel_over``: how many values, and pixels, are above each limit. ``last_sum`` and
    ``last_max`` are those of the last channel; ``signed`` is candidate - reference added up for each channel.
    """

    square_sum: float
    maximum: float
    channel_over: Mapping[float, int]
    pixel_over: Mapping[float, int]
    signed: Floats
    cell_sums: Floats
    last_sum: float
    last_max: float


def counted(reference: Array, candidate: Array, *, limits: Sequence[float]) -> FloatCounts:
    """Add up and count the differences of two images ``(height, width, channels)``."""
    channels = reference.shape[2]
    values, pixels = dict.fromkeys(limits, 0), dict.fromkeys(limits, 0)
    squares, maximum, last_sum, last_max = 0.0, 0.0, 0.0, 0.0
    signed, cells = np.zeros(channels), []
    with blas.one_thread():
        for error in _errors(reference, candidate):
            signed += error.reshape(len(error), -1).sum(axis=0).reshape(-1, channels).sum(axis=0)
            squares += float(np.dot(error.ravel(), error.ravel()))
            apart = np.abs(error, out=error)
            furthest, last = largest(apart), apart[..., -1]
            for limit in limits:
                values[limit] += int(np.count_nonzero(apart > limit))
                pixels[limit] += int(np.count_nonzero(furthest > limit))
            maximum = max(maximum, float(furthest.max()))
            last_sum, last_max = last_sum + float(last.sum()), max(last_max, float(last.max()))
            cells.append(cell_sums(apart))
    return FloatCounts(squares, maximum, values, pixels, signed, np.concatenate(cells), last_sum, last_max)


def ranked(reference: Array, candidate: Array, *, ranks: Sequence[int], maximum: float) -> list[float]:
    """The absolute differences at these ranks (from 1) of all, exactly, without sorting or keeping all of them.

    Args:
        reference: ``(height, width, channels)``.
        candidate: the same.
        ranks: from 1 to the number of values.
        maximum: the largest of the differences.
    """
    if maximum == 0.0:
        return [0.0] * len(ranks)
    scale = (_BUCKETS - 1) / maximum
    counts = np.zeros(_BUCKETS, np.int64)
    for error in _errors(reference, candidate):
        counts += np.bincount(_buckets(np.abs(error, out=error), scale), minlength=_BUCKETS)
    below = counts.cumsum()
    wanted = np.searchsorted(below, np.asarray(ranks))
    kept = np.zeros(_BUCKETS, bool)
    kept[wanted] = True
    parts = []
    for error in _errors(reference, candidate):
        apart = np.abs(error, out=error).ravel()
        parts.append(apart[kept[_buckets(apart, scale)]])
    skipped = np.cumsum(np.where(kept, 0, counts))  # values of other buckets, at or below each bucket
    places = np.asarray(ranks) - 1 - skipped[wanted]
    found = np.partition(np.concatenate(parts), np.unique(places))
    return [float(found[place]) for place in places]


def _errors(reference: Array, candidate: Array) -> Iterator[Floats]:
    """Candidate - reference in float64, where float32 would lose digits of squares, a few rows at a time."""
    rows = max(CELL, _STRIP_VALUES // reference[0].size // CELL * CELL)
    for top in range(0, len(reference), rows):
        error = candidate[top : top + rows].astype(np.float64, order="C")
        error -= reference[top : top + rows]
        yield error


def _buckets(apart: Floats, scale: float) -> Array:
    """Growing with the difference, as every step of the way there does."""
    return (apart.ravel() * scale).astype(np.uint16)
