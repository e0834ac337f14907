"""The worst tile of an image: local damage must not hide in an average.

An image is cut into cells of 8x8 pixels, those at the right and the bottom may be smaller. A tile is two by two
neighbouring cells, so tiles overlap by half: damage of 16x16 pixels anywhere fills at least a quarter of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Pixels on a side of a cell.
CELL = 8

Floats = NDArray[np.float64]


def cell_count(pixels: int) -> int:
    """Cells along a side of so many pixels."""
    return -(-pixels // CELL)


def counts(pixels: int, *, margin: int = 0) -> Floats:
    """How many pixels of each cell along a side lie at least ``margin`` from both ends."""
    edges = np.minimum(np.arange(cell_count(pixels) + 1) * CELL, pixels)
    inside: Floats = np.diff(np.clip(edges, margin, max(pixels - margin, margin))).astype(np.float64)
    return inside


def highest_mean(sums: Floats, *, height: int, width: int, margin: int = 0) -> tuple[float, Mapping[str, Any]]:
    """The highest mean of a tile, and the pixels that the tile covers; the first in reading order when several tie.

    Args:
        sums: ``(cells down, cells across)``, what was added up in each cell.
        height: of the image, in pixels.
        width: of the image, in pixels.
        margin: pixels along every edge that nothing was added up for.
    """
    pixels = np.outer(counts(height, margin=margin), counts(width, margin=margin))
    means = _pairs(sums) / _pairs(pixels)
    down, across = (int(index) for index in np.unravel_index(int(np.argmax(means)), means.shape))
    x, y = across * CELL, down * CELL
    place = {"x": x, "y": y, "width": min(2 * CELL, width - x), "height": min(2 * CELL, height - y)}
    return float(means[down, across]), place


def _pairs(cells: Floats) -> Floats:
    """Sums of two by two neighbours; along a side of one cell there is nothing to add."""
    for axis in (0, 1):
        if cells.shape[axis] > 1:
            cells = np.take(cells, range(cells.shape[axis] - 1), axis) + np.take(
                cells, range(1, cells.shape[axis]), axis
            )
    return cells
