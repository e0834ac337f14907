"""Counts of how far stored levels lie apart, with NumPy: what the kernel counts, to the last digit."""

from __future__ import annotations

import numpy as np

from paritygate.metrics.image_kernel import Counts, LevelCounts
from paritygate.metrics.pixels import Array
from paritygate.metrics.tiles import CELL, Floats

_STRIP_VALUES = 1 << 18


def counted(reference: Array, candidate: Array, *, bins: int, last: bool) -> LevelCounts:
    """Count differences of uint8 or uint16 images; ``last``: those of the last channel too."""
    height, _width, channels = reference.shape
    values, pixels, alpha = (np.zeros(bins, np.int64) for _ in range(3))
    signed, cells = np.zeros(channels, np.int64), []
    rows = max(CELL, _STRIP_VALUES // reference[0].size // CELL * CELL)
    for top in range(0, height, rows):
        x, y = reference[top : top + rows], candidate[top : top + rows]
        apart = np.maximum(x, y)
        apart -= np.minimum(x, y)
        values += _counted(apart, bins)
        pixels += _counted(apart.max(axis=2), bins)
        if last:
            alpha += _counted(apart[..., -1], bins)
        signed += y.sum(axis=(0, 1), dtype=np.int64) - x.sum(axis=(0, 1), dtype=np.int64)
        cells.append(cell_sums(apart))
    return LevelCounts(values, pixels, alpha if last else alpha[:0], signed, np.concatenate(cells))


def cell_sums(apart: Array) -> Floats:
    """``(cells down, cells across)``: the values of ``(height, width, channels)`` added up in each cell."""
    height, width, channels = apart.shape
    down = np.add.reduceat(apart.reshape(height, -1), range(0, height, CELL), axis=0, dtype=np.float64)
    sums: Floats = np.add.reduceat(down, range(0, width * channels, CELL * channels), axis=1)
    return sums


def _counted(values: Array, bins: int) -> Counts:
    return np.bincount(values.ravel(), minlength=bins)
