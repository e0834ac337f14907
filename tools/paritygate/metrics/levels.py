"""How far the values of two images lie apart: everything that counting the differences tells.

Stored levels (uint8, uint16) are counted exactly in integers; float pixels are subtracted in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.pixels import LEVELS, Array
from paritygate.metrics.specs.image import PERCENTILES, TOLERANCES
from paritygate.metrics.tiles import CELL, Floats

_Counts = NDArray[np.int64]

_STRIP_VALUES = 1 << 17
#: Float pixels of one image stored elsewhere may be off by rounding: that is no mismatch beyond a tolerance.
_SLACK_LEVELS = 1e-4


@dataclass(frozen=True)
class Differences:
    """Of one pair, in the unit of its values.

    ``signed``: mean of candidate - reference for each channel. ``cell_sums``: ``(cells down, cells across)``, absolute
    differences added up over pixels and channels. ``channel_over`` and ``pixel_over``: tolerance -> share.
    ``alpha_mean`` and ``alpha_max`` are those of the last channel, whatever it is.
    """

    mean: float
    mean_square: float
    maximum: float
    percentiles: Mapping[str, float]
    channel_over: Mapping[int, float]
    pixel_over: Mapping[int, float]
    signed: tuple[float, ...]
    cell_sums: Floats
    alpha_mean: float
    alpha_max: float


def differences(reference: Array, candidate: Array, *, data_range: float) -> Differences:
    """Compare two images ``(height, width, channels)`` that have been checked."""
    if reference.dtype.name in LEVELS:
        return _of_levels(reference, candidate, levels=LEVELS[reference.dtype.name])
    return _of_floats(reference, candidate, data_range)


def rank(size: int, above: int, of: int) -> int:
    """The nearest rank, from 1: how many of the sorted values are at or below the percentile ``above / of``."""
    return -(-size * above // of)


def _of_levels(reference: Array, candidate: Array, *, levels: int) -> Differences:
    height, _width, channels = reference.shape
    values, pixels, last = (np.zeros(levels + 1, np.int64) for _ in range(3))
    signed, cells = np.zeros(channels, np.int64), []
    rows = max(CELL, _STRIP_VALUES // reference[0].size // CELL * CELL)
    for top in range(0, height, rows):
        x, y = reference[top : top + rows], candidate[top : top + rows]
        apart = np.maximum(x, y)
        apart -= np.minimum(x, y)
        values += _counted(apart, levels)
        pixels += _counted(apart.max(axis=2), levels)
        last += _counted(apart[..., -1], levels)
        signed += y.sum(axis=(0, 1), dtype=np.int64) - x.sum(axis=(0, 1), dtype=np.int64)
        cells.append(_cell_sums(apart))
    steps = np.arange(levels + 1)
    size = reference.size
    return Differences(
        mean=_dot(values, steps) / size,
        mean_square=_dot(values, steps**2) / size,
        maximum=float(np.flatnonzero(values)[-1]),
        percentiles={
            name: float(np.searchsorted(values.cumsum(), rank(size, *share))) for name, share in PERCENTILES.items()
        },
        channel_over={level: _share_over(values, level, levels) for level in TOLERANCES},
        pixel_over={level: _share_over(pixels, level, levels) for level in TOLERANCES},
        signed=tuple(float(total) / (size // channels) for total in signed),
        cell_sums=np.concatenate(cells).astype(np.float64),
        alpha_mean=_dot(last, steps) / (size // channels),
        alpha_max=float(np.flatnonzero(last)[-1]),
    )


def _counted(values: Array, levels: int) -> _Counts:
    return np.bincount(values.ravel(), minlength=levels + 1)


def _dot(counts: _Counts, steps: _Counts) -> int:
    """Exact: Python integers do not overflow, as 16-bit squares in a large image would."""
    return sum(count * step for count, step in zip(counts.tolist(), steps.tolist(), strict=True))


def _share_over(counts: _Counts, level: int, levels: int) -> float:
    beyond = level * levels // 255  # a whole number of steps: 255 and 65535 are multiples of 255
    return float(counts[beyond + 1 :].sum()) / float(counts.sum())


def _cell_sums(apart: Array) -> Array:
    height, width, channels = apart.shape
    dtype = np.float64 if apart.dtype.kind == "f" else np.uint64
    down = np.add.reduceat(apart.reshape(height, -1), range(0, height, CELL), axis=0, dtype=dtype)
    sums: Array = np.add.reduceat(down, range(0, width * channels, CELL * channels), axis=1)
    return sums


def _of_floats(reference: Array, candidate: Array, data_range: float) -> Differences:
    # In float64: float32 squares lose digits.
    error = candidate.astype(np.float64) - reference.astype(np.float64)
    signed = error.mean(axis=(0, 1))
    mean_square = float(np.mean(np.square(error)))
    apart = np.abs(error, out=error)
    cell_sums, furthest = _cell_sums(apart), apart.max(axis=2)
    alpha = apart[..., -1]
    limits = {level: (level + _SLACK_LEVELS if level else 0.0) / 255 * data_range for level in TOLERANCES}
    ranks = {name: rank(apart.size, *share) - 1 for name, share in PERCENTILES.items()}
    ordered = np.partition(apart.ravel(), sorted(set(ranks.values())))
    return Differences(
        mean=float(np.mean(apart)),
        mean_square=mean_square,
        maximum=float(np.max(apart)),
        percentiles={name: float(ordered[place]) for name, place in ranks.items()},
        channel_over={level: float(np.mean(apart > limit)) for level, limit in limits.items()},
        pixel_over={level: float(np.mean(furthest > limit)) for level, limit in limits.items()},
        signed=tuple(float(value) for value in signed),
        cell_sums=cell_sums,
        alpha_mean=float(np.mean(alpha)),
        alpha_max=float(np.max(alpha)),
    )
