"""Structural similarity of Wang et al. 2004, as the loss 1 - SSIM added up in the cells of an image.

Wang's formula is taken in the sum s and the difference d of the two images. With M = mean, V = variance,
``1 - SSIM = 2 (Md^2 (Vs + 2 C2) + Vd (Ms^2 + 2 C1)) / ((Ms^2 + Md^2 + 2 C1) (Vs + Vd + 2 C2))``:
four blurs instead of five, and a difference of zero gives a loss of exactly zero.

The image is worked through in blocks whose planes stay in the cache. Of uint8 images a block is computed in float32,
shifted to its own level first, since variances do not depend on it and small numbers round less. A block whose
rounding could still matter (flat areas far apart), small images and all others are computed in float64.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from paritygate.metrics import blas, image_kernel
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


def _in_steps(step: float) -> Floats:
    """The weights in whole steps, with a sum of exactly one."""
    weights: Floats = np.rint(_WEIGHTS / step) * step
    weights[RADIUS] -= weights.sum() - 1.0
    return weights


# float32 holds them, and a flat area stays as it is: otherwise variances are off by a share of the mean squared.
_COARSE_WEIGHTS = _in_steps(2**-25)
# Times a sum (10 bits) and a squared sum (18 bits) of bytes, exact in float32. What the weights lack is added from a
# second product: in one product, areas of few levels (sky, text) would all round to the same side.
_HIGH_WEIGHTS = (_in_steps(2**-14), _in_steps(2**-6))

_ROWS, _COLUMNS = 64, 1024  # most centres in a block; both multiples of _GROUP
_GROUP = 16  # centres that one matrix product blurs along a side; a multiple of CELL
_SMALL = 128 * 128  # pixels; float64 is quick enough below
#: Mean of Md^2 / (Vs + Vd + 2 C2) in a block above which its rounding in float32 can pass 1e-8.
_ILL_CONDITIONED = 0.25

_Block = NDArray[Any]
_Area = tuple[slice, slice]


def loss_sums(reference: Array, candidate: Array, *, data_range: float, plane: Plane) -> Floats:
    """``(cells down, cells across)``: 1 - SSIM added up over the windows centred in each cell of one plane."""
    height, width = reference.shape[:2]
    exact = height * width <= _SMALL
    compiled = (
        None
        if exact
        else image_kernel.loss_sums(
            reference, candidate, data_range=data_range, channel=None if plane == "y" else plane
        )
    )
    if compiled is not None:
        return compiled
    sums: Floats = np.zeros((cell_count(height), cell_count(width)))
    rows, columns = _even(height, _ROWS), _even(width, _COLUMNS)
    exact = exact or plane == "y" or reference.dtype != np.uint8
    quick, careful = None if exact else _Blocks(rows, columns, np.float32), None
    with blas.one_thread():
        for left in range(0, width - RADIUS, columns):
            for top in range(0, height - RADIUS, rows):
                centres = (_inside(top, rows, height), _inside(left, columns, width))
                x, y = (_plane(image[_grown(centres)], plane) for image in (reference, candidate))
                place = (_moved(centres[0], top), _moved(centres[1], left))
                part = None if quick is None else quick.loss(x, y, place, data_range=data_range)
                if part is None:
                    careful = careful or _Blocks(rows, columns, np.float64)
                    part = careful.loss(x, y, place, data_range=data_range)
                assert part is not None, "float64 always does"
                target = sums[top // CELL :, left // CELL :][: part.shape[0], : part.shape[1]]
                target[:] = part[: target.shape[0], : target.shape[1]]
    return sums


def _even(pixels: int, most: int) -> int:
    """Blocks of about one size, none above ``most``: centres in each along this side."""
    size = -(-pixels // -(-pixels // most))
    return -(-size // _GROUP) * _GROUP


def _inside(start: int, size: int, pixels: int) -> slice:
    """The centres from ``start`` whose windows lie inside."""
    return slice(max(start, RADIUS), min(start + size, pixels - RADIUS))


def _grown(centres: _Area) -> _Area:
    rows, columns = (slice(span.start - RADIUS, span.stop + RADIUS) for span in centres)
    return rows, columns


def _moved(span: slice, start: int) -> slice:
    return slice(span.start - start, span.stop - start)


def _plane(area: Array, plane: Plane) -> Array:
    if plane != "y":
        return area[..., plane]
    if area.shape[2] < len(LUMA):
        return area[..., 0]
    luma: Array = area[..., : len(LUMA)] @ np.array(LUMA)
    return luma


def _band(weights: Floats, dtype: type[np.floating[Any]]) -> _Block:
    """``(group, group + 10)``: times so many rows of a plane, its vertical blur."""
    band = np.zeros((_GROUP, _GROUP + 2 * RADIUS), dtype)
    for row in range(_GROUP):
        band[row, row : row + WINDOW] = weights
    return band


class _Blocks:
    """Buffers for one block, and what is computed in them.

    The four planes are s, s^2, d and d^2. Everything but the reading runs over whole buffers, which is quicker than
    over parts of them: where the image ends earlier, so do the sums, and what lies beyond is finite and left out.
    """

    def __init__(self, rows: int, columns: int, dtype: type[np.floating[Any]]) -> None:
        padded = (rows + 2 * RADIUS, columns + 2 * RADIUS)
        self.exact = dtype is np.float64
        self.sides = np.zeros((2, *padded), dtype)
        self.planes = np.zeros((4, *padded), dtype)
        self.down = np.zeros((4, rows, padded[1]), dtype)
        self.blurred = np.zeros((4, rows, columns), dtype)
        self.losses, self.spare = np.zeros((2, rows, columns), dtype)
        self.band = _band(_WEIGHTS if self.exact else _COARSE_WEIGHTS, dtype)
        self.band_high = np.stack([_band(high, dtype) for high in _HIGH_WEIGHTS])[:, np.newaxis]
        self.band_low = np.stack([_band(_WEIGHTS - high, dtype) for high in _HIGH_WEIGHTS])[:, np.newaxis]
        self.band_across = np.ascontiguousarray(self.band.T)
        groups, window = rows // _GROUP, _GROUP + 2 * RADIUS
        plane, row, item = self.planes.strides
        self.rows_in = as_strided(self.planes, (4, groups, window, padded[1]), (plane, _GROUP * row, row, item))
        self.rows_out = self.down.reshape(4, groups, _GROUP, padded[1])
        across = (columns // _GROUP, 4 * rows)
        self.columns_in = as_strided(self.down, (*across, window), (_GROUP * item, row, item))
        self.columns_out = as_strided(self.blurred, (*across, _GROUP), (_GROUP * item, columns * item, item))

    def loss(self, x: Array, y: Array, centres: _Area, *, data_range: float) -> Floats | None:
        """``(cells down, cells across)``: the loss added up in the cells of the block; None when float32 does not do.

        Args:
            x: of the reference, the windows around ``centres``.
            y: of the candidate, the same.
            centres: of the windows, as places in the block.
            data_range: of the pixels.
        """
        c1, c2 = 2 * (_K1 * data_range) ** 2, 2 * (_K2 * data_range) ** 2
        level, shift = self._fill(x, y, centres, data_range)
        self._blur_down()
        np.matmul(self.columns_in, self.band_across, out=self.columns_out)
        mean_s, var_s, mean_d, var_d = self.blurred
        losses, spare = self.losses, self.spare
        np.multiply(mean_d, mean_d, out=losses)
        var_d -= losses
        np.multiply(mean_s, mean_s, out=spare)
        var_s -= spare
        var_s += c2
        if not self.exact and self._is_ill_conditioned(c2):
            return None
        mean_s += level
        mean_s *= mean_s
        mean_s += c1
        if shift:
            mean_d += shift
            np.multiply(mean_d, mean_d, out=losses)
        np.multiply(losses, var_s, out=spare)  # Md^2 (Vs + 2 C2)
        losses += mean_s  # Ms^2 + Md^2 + 2 C1
        mean_s *= var_d  # Vd (Ms^2 + 2 C1)
        spare += mean_s
        var_s += var_d
        losses *= var_s
        np.divide(spare, losses, out=losses)
        return self._cell_sums(centres)

    def _fill(self, x: Array, y: Array, centres: _Area, data_range: float) -> tuple[float, float]:
        """Write the four planes; the levels that s and d were shifted by."""
        rows, columns = (slice(span.start, span.stop + 2 * RADIUS) for span in centres)
        for buffer, side in zip(self.sides, (x, y), strict=True):
            np.copyto(buffer[rows, columns], side)
        s, d = self.planes[::2]
        np.add(self.sides[0], self.sides[1], out=s)
        np.subtract(self.sides[0], self.sides[1], out=d)
        # Any shift is right. Whole levels of 255 keep stored pixels exact, and negate with the sides exchanged.
        step = data_range / 255
        level, shift = (float(np.rint(plane[RADIUS::CELL].mean() / step)) * step for plane in (s, d))
        s -= level
        if shift:
            d -= shift
        np.multiply(self.planes[::2], self.planes[::2], out=self.planes[1::2])
        return level, shift

    def _blur_down(self) -> None:
        if self.exact:
            np.matmul(self.band, self.rows_in, out=self.rows_out)
            return
        sums, differences = slice(0, 2), slice(2, 4)
        np.matmul(self.band_high, self.rows_in[sums], out=self.rows_out[sums])
        np.matmul(self.band_low, self.rows_in[sums], out=self.rows_out[differences])
        self.rows_out[sums] += self.rows_out[differences]
        np.matmul(self.band, self.rows_in[differences], out=self.rows_out[differences])

    def _is_ill_conditioned(self, c2: float) -> bool:
        squares, (_, var_s, _, var_d) = self.losses, self.blurred
        limit = _ILL_CONDITIONED * squares.size
        if float(squares.sum()) <= limit * c2:  # the denominator is at least 2 C2
            return False
        return bool((squares / (var_s + var_d)).sum() > limit)

    def _cell_sums(self, centres: _Area) -> Floats:
        rows, columns = centres
        for beyond in (slice(rows.start), slice(rows.stop, None)):
            self.losses[beyond] = 0
        for beyond in (slice(columns.start), slice(columns.stop, None)):
            self.losses[:, beyond] = 0
        down = self.losses.reshape(-1, CELL, self.losses.shape[1]).sum(axis=1)
        sums: Floats = 2.0 * down.reshape(down.shape[0], -1, CELL).sum(axis=2, dtype=np.float64)
        return sums
