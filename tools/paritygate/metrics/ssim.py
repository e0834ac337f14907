"""Structural similarity of Wang et al. 2004, as the loss 1 - SSIM added up in the cells of an image.

Wang's formula in the sum s and the difference d of the two images: four blurs instead of five, and a difference of
zero gives a loss of exactly zero, where variances taken as E[x^2] - mean^2 would leave rounding noise.

The image is worked through in blocks whose planes stay in the cache, in float32; each block is shifted by its own
level first, since variances do not depend on it and small numbers round less. Where a block's rounding could still
matter (two flat areas far apart), it is computed again in float64.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.pixels import Array
from paritygate.metrics.tiles import CELL, Floats, cell_count

#: Pixels from the centre of a window to its edge; windows lie wholly inside the image.
RADIUS = 5
WINDOW = 2 * RADIUS + 1

#: A channel, or the BT.601 luma of the first three (of the first, where there are fewer).
Plane = int | Literal["y"]

LUMA = (0.299, 0.587, 0.114)

_SIGMA = 1.5
_K1, _K2 = 0.01, 0.03
_WEIGHTS = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / _SIGMA) ** 2)
_WEIGHTS /= _WEIGHTS.sum()
_ROWS, _COLUMNS = 32, 256  # of a block, multiples of CELL

_Block = NDArray[Any]


def loss_sums(reference: Array, candidate: Array, *, data_range: float, plane: Plane) -> Floats:
    """``(cells down, cells across)``: 1 - SSIM added up over the windows centred in each cell of one plane."""
    height, width = reference.shape[:2]
    sums: Floats = np.zeros((cell_count(height), cell_count(width)))
    for top, bottom in _spans(height, _ROWS):
        for left, right in _spans(width, _COLUMNS):
            area = (slice(top - RADIUS, bottom + RADIUS), slice(left - RADIUS, right + RADIUS))
            x, y = _plane(reference[area], plane), _plane(candidate[area], plane)
            loss = _loss(x, y, data_range)
            down = np.add.reduceat(loss, _starts(top, bottom), axis=0)
            part = np.add.reduceat(down, _starts(left, right), axis=1)
            row, column = top // CELL, left // CELL
            sums[row : row + part.shape[0], column : column + part.shape[1]] += part
    return sums


def _spans(pixels: int, step: int) -> list[tuple[int, int]]:
    """Ranges of window centres along a side, cut at multiples of ``step``."""
    spans = ((max(start, RADIUS), min(start + step, pixels - RADIUS)) for start in range(0, pixels, step))
    return [(low, high) for low, high in spans if low < high]


def _starts(low: int, high: int) -> list[int]:
    """Where the cells begin within a span of centres."""
    return [0, *range(CELL - low % CELL, high - low, CELL)]


def _plane(area: Array, plane: Plane) -> Array:
    if plane != "y":
        return area[..., plane]
    if area.shape[2] < len(LUMA):
        return area[..., 0]
    luma: Array = area[..., : len(LUMA)] @ np.array(LUMA)
    return luma


def _loss(x: Array, y: Array, data_range: float) -> _Block:
    total, difference = np.add(x, y, dtype=np.float64), np.subtract(x, y, dtype=np.float64)
    total -= data_range
    mean_total, mean_difference = _blur(total), _blur(difference)
    variance_total = _blur(total * total) - mean_total**2
    squared = mean_difference**2
    variance_difference = _blur(difference * difference) - squared
    luminance = squared / (((mean_total + data_range) ** 2 + squared) / 2 + (_K1 * data_range) ** 2)
    contrast = variance_difference / ((variance_total + variance_difference) / 2 + (_K2 * data_range) ** 2)
    loss: _Block = luminance + contrast - luminance * contrast
    return loss


def _blur(plane: _Block) -> _Block:
    height, width = plane.shape[0] - 2 * RADIUS, plane.shape[1] - 2 * RADIUS
    down = np.zeros((height, plane.shape[1]))
    for offset in range(WINDOW):
        down += _WEIGHTS[offset] * plane[offset : offset + height]
    across = np.zeros((height, width))
    for offset in range(WINDOW):
        across += _WEIGHTS[offset] * down[:, offset : offset + width]
    return across
