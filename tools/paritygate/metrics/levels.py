"""How far the values of two images lie apart: everything that counting the differences tells.

Stored levels (uint8, uint16) are counted exactly in integers; float pixels are subtracted in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paritygate.metrics import float_counts, image_kernel, level_counts
from paritygate.metrics.pixels import CHANNELS, COLOURS, LEVELS, Array
from paritygate.metrics.specs.image import PERCENTILES, TOLERANCES
from paritygate.metrics.tiles import Floats

_WITH_ALPHA = tuple(CHANNELS[mode] for mode in CHANNELS if CHANNELS[mode] > COLOURS[mode])
#: Float pixels of one image stored elsewhere may be off by rounding: that is no mismatch beyond a tolerance.
_SLACK_LEVELS = 1e-4


@dataclass(frozen=True)
class Differences:
    """Of one pair, in the unit of its values.

    ``signed``: mean of candidate - reference for each channel. ``cell_sums``: ``(cells down, cells across)``, absolute
    differences added up over pixels and channels. ``channel_over`` and ``pixel_over``: tolerance -> share.
    ``alpha_mean`` and ``alpha_max`` are those of the last channel where it is alpha, else 0.
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
    last = reference.shape[2] in _WITH_ALPHA
    found = image_kernel.level_counts(reference, candidate, bins=levels + 1, last=last)
    if found is None:
        found = level_counts.counted(reference, candidate, bins=levels + 1, last=last)
    steps = np.arange(levels + 1)
    size, pixels = reference.size, reference.size // reference.shape[2]
    below = found.values.cumsum()
    return Differences(
        mean=_dot(found.values, steps) / size,
        mean_square=_dot(found.values, steps**2) / size,
        maximum=float(np.flatnonzero(found.values)[-1]),
        percentiles={name: float(np.searchsorted(below, rank(size, *share))) for name, share in PERCENTILES.items()},
        channel_over={level: _share_over(found.values, level, levels) for level in TOLERANCES},
        pixel_over={level: _share_over(found.pixels, level, levels) for level in TOLERANCES},
        signed=tuple(float(total) / pixels for total in found.signed),
        cell_sums=found.cell_sums,
        alpha_mean=_dot(found.last, steps) / pixels if last else 0.0,
        alpha_max=float(np.flatnonzero(found.last)[-1]) if last else 0.0,
    )


def _dot(counts: image_kernel.Counts, steps: image_kernel.Counts) -> int:
    """Exact: 16-bit squares of a large image pass 64 bits only beyond four thousand million values."""
    return int(np.dot(counts, steps))


def _share_over(counts: image_kernel.Counts, level: int, levels: int) -> float:
    beyond = level * levels // 255  # a whole number of steps: 255 and 65535 are multiples of 255
    return float(counts[beyond + 1 :].sum()) / float(counts.sum())


def _of_floats(reference: Array, candidate: Array, data_range: float) -> Differences:
    size, pixels = reference.size, reference.size // reference.shape[2]
    limits = {level: (level + _SLACK_LEVELS if level else 0.0) / 255 * data_range for level in TOLERANCES}
    found = float_counts.counted(reference, candidate, limits=tuple(limits.values()))
    ranks = [rank(size, *share) for share in PERCENTILES.values()]
    ordered = float_counts.ranked(reference, candidate, ranks=ranks, maximum=found.maximum)
    alpha = reference.shape[2] in _WITH_ALPHA
    return Differences(
        mean=float(found.cell_sums.sum()) / size,
        mean_square=found.square_sum / size,
        maximum=found.maximum,
        percentiles=dict(zip(PERCENTILES, ordered, strict=True)),
        channel_over={level: found.channel_over[limit] / size for level, limit in limits.items()},
        pixel_over={level: found.pixel_over[limit] / pixels for level, limit in limits.items()},
        signed=tuple(float(total) / pixels for total in found.signed),
        cell_sums=found.cell_sums,
        alpha_mean=found.last_sum / pixels if alpha else 0.0,
        alpha_max=found.last_max if alpha else 0.0,
    )
