"""SSIM and PSNR as torchmetrics 1.9 computes them on a CPU, rounding included.

Its SSIM blurs in float32 and takes variances as E[x^2] - mean^2, which cancels on flat areas: two identical flat
pictures of 250 give 0.999065. To carry such a threshold over, the rounding itself has to be repeated: each window
is a chain of 121 fused multiply-adds in float32, row by row. Blind as the peer is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.migration_pair import Pair
from paritygate.metrics.pixels import Array
from paritygate.metrics.values import Value, refused

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]

NAMES = ("torchmetrics_psnr_db", "torchmetrics_ssim", "torchmetrics_ssim_255")

_RADIUS = 5
_STRIP_ROWS = 32
_GAUSS = np.exp(-((np.arange(-_RADIUS, _RADIUS + 1, dtype=np.float32) / np.float32(1.5)) ** 2 / 2).astype(np.float64))
_ROW = _GAUSS.astype(np.float32) / np.float32(_GAUSS.astype(np.float32).sum(dtype=np.float64))
_WINDOW = np.outer(_ROW, _ROW).astype(np.float64)


def measure(names: Iterable[str], pair: Pair) -> dict[str, Value]:
    """The named metrics of a pair whose ``problem`` is empty."""
    functions = {"torchmetrics_psnr_db": _psnr, "torchmetrics_ssim": _unit_ssim, "torchmetrics_ssim_255": _byte_ssim}
    return {name: functions[name](pair) for name in names}


def _psnr(pair: Pair) -> Value:
    error = pair.reference.astype(np.float32) - pair.candidate.astype(np.float32)
    mean_square = float(np.mean(error * error, dtype=np.float64))
    return Value(math.inf if mean_square == 0 else 10 * math.log10(pair.data_range**2 / mean_square))


def _unit_ssim(pair: Pair) -> Value:
    reference, candidate = (side.astype(np.float32) / np.float32(pair.data_range) for side in pair.sides)
    return _ssim(reference, candidate, data_range=1.0)


def _byte_ssim(pair: Pair) -> Value:
    if pair.data_range != 255:
        return refused(f"torchmetrics_ssim_255 needs pixels in [0, 255], the declared range is {pair.data_range:g}")
    reference, candidate = (side.astype(np.float32) for side in pair.sides)
    return _ssim(reference, candidate, data_range=255.0)


def _ssim(reference: _Floats, candidate: _Floats, *, data_range: float) -> Value:
    if min(reference.shape[:2]) <= _RADIUS:
        return refused(f"torchmetrics_ssim mirrors {_RADIUS} pixels at each border: it needs sides of 6 or more")
    total = 0.0
    for channel in range(reference.shape[2]):
        x, y = (np.pad(side[..., channel], _RADIUS, mode="reflect") for side in (reference, candidate))
        for start in range(0, reference.shape[0], _STRIP_ROWS):
            strip = slice(start, start + _STRIP_ROWS + 2 * _RADIUS)
            total += float(_similarity(x[strip], y[strip], data_range=data_range).sum(dtype=np.float64))
    return Value(total / reference.size)


def _similarity(x: _Floats, y: _Floats, *, data_range: float) -> _Floats:
    """Similarity of every window of a strip, in the peer's order of float32 operations."""
    mean_x, mean_y, square_x, square_y, product = (_blur(plane) for plane in (x, y, x * x, y * y, x * y))
    c1, c2 = (np.float32((k * data_range) ** 2) for k in (0.01, 0.03))
    mean_xx, mean_yy, mean_xy = mean_x * mean_x, mean_y * mean_y, mean_x * mean_y
    # The peer clamps the variances and not the covariance: where both cancel, equal windows differ.
    variances = np.maximum(square_x - mean_xx, 0) + np.maximum(square_y - mean_yy, 0)
    upper = 2 * (product - mean_xy) + c2
    result: _Floats = ((2 * mean_xy + c1) * upper) / ((mean_xx + mean_yy + c1) * (variances + c2))
    return result


def _blur(plane: Array) -> _Floats:
    """The valid region under the 11x11 window, a float32 fused multiply-add per tap.

    A float32 product is exact in float64, so one rounding to float32 after the sum is what the fused operation does.
    """
    rows, columns = plane.shape[0] - 2 * _RADIUS, plane.shape[1] - 2 * _RADIUS
    wide = plane.astype(np.float64)
    total: _Doubles = np.zeros((rows, columns))
    product, rounded = np.empty_like(total), np.empty((rows, columns), np.float32)
    for row in range(2 * _RADIUS + 1):
        for column in range(2 * _RADIUS + 1):
            taps = wide[row : row + rows, column : column + columns]
            np.multiply(taps, _WINDOW[row, column], out=product)
            np.add(product, total, out=rounded, dtype=np.float64, casting="same_kind")
            total[...] = rounded
    return rounded
