"""SSIM as ``skimage.metrics.structural_similarity`` computes it when only the data range is given.

A uniform 7x7 window and sample covariance (divided by 48, not 49), not the Gaussian of Wang et al. 2004: up to 0.03
above it under noise. 8-bit pixels are computed in float64, float32 stays float32, as there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from paritygate.metrics.migration_pair import Pair
from paritygate.metrics.pixels import Array
from paritygate.metrics.values import Value, refused

NAMES = ("skimage_default_ssim", "skimage_default_ssim_gray", "skimage_default_ssim_pillow_l")

_SIDE = 7
_STRIP_ROWS = 64
#: Weights of ``skimage.color.rgb2gray``: BT.709 primaries on the stored, not linear, values.
_GRAY = (0.2125, 0.7154, 0.0721)


def measure(names: Iterable[str], pair: Pair) -> dict[str, Value]:
    """The named metrics of a pair whose ``problem`` is empty."""
    functions = {
        "skimage_default_ssim": _ssim,
        "skimage_default_ssim_gray": _gray_ssim,
        "skimage_default_ssim_pillow_l": _pillow_ssim,
    }
    if pair.shortest < _SIDE:
        return {name: refused(f"{name} needs sides of {_SIDE} pixels or more") for name in names}
    return {name: functions[name](pair) for name in names}


def _ssim(pair: Pair) -> Value:
    per_channel = [
        _plane_ssim(*(side[..., channel] for side in pair.sides), data_range=pair.data_range)
        for channel in range(pair.reference.shape[2])
    ]
    return Value(sum(per_channel) / len(per_channel))


def _gray_ssim(pair: Pair) -> Value:
    if pair.mode == "L":
        return _ssim(pair)
    stored = pair.reference.dtype == np.uint8
    floats = [side / 255.0 if stored else side for side in pair.sides]
    planes = [side @ np.array(_GRAY, side.dtype) for side in floats]
    return Value(_plane_ssim(planes[0], planes[1], data_range=1.0 if stored else pair.data_range))


def _pillow_ssim(pair: Pair) -> Value:
    if pair.reference.dtype != np.uint8:
        return refused("skimage_default_ssim_pillow_l needs 8-bit pixels, as Pillow's convert does")
    if pair.mode == "L":
        return _ssim(pair)
    weights = np.array([19595, 38470, 7471], np.uint32)
    planes = [((side.astype(np.uint32) @ weights + 0x8000) >> 16).astype(np.uint8) for side in pair.sides]
    return Value(_plane_ssim(planes[0], planes[1], data_range=255.0))


def _plane_ssim(reference: Array, candidate: Array, *, data_range: float) -> float:
    rows, columns = (length - _SIDE + 1 for length in reference.shape)
    total = 0.0
    for start in range(0, rows, _STRIP_ROWS):
        strip = slice(start, start + _STRIP_ROWS + _SIDE - 1)
        similarity = _similarity(reference[strip], candidate[strip], data_range=data_range)
        total += float(np.sum(similarity, dtype=np.float64))
    return total / float(rows * columns)


def _similarity(reference: Array, candidate: Array, *, data_range: float) -> Array:
    kept = np.float32 if reference.dtype == np.float32 else np.float64
    x, y = reference.astype(kept), candidate.astype(kept)
    mean_x, mean_y, square_x, square_y, product = (_box(plane) for plane in (x, y, x * x, y * y, x * y))
    sample = _SIDE**2 / (_SIDE**2 - 1)
    variances = sample * (square_x - mean_x * mean_x) + sample * (square_y - mean_y * mean_y)
    covariance = sample * (product - mean_x * mean_y)
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    upper = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    result: Array = upper / ((mean_x**2 + mean_y**2 + c1) * (variances + c2))
    return result


def _box(plane: Array) -> Array:
    """Mean of every 7x7 window inside; summed in float64 along each axis and stored in the plane's type between."""
    for axis in (0, 1):
        count = plane.shape[axis] - _SIDE + 1
        total = np.zeros([count if index == axis else length for index, length in enumerate(plane.shape)])
        for offset in range(_SIDE):
            total += np.take(plane, range(offset, offset + count), axis=axis)
        plane = (total / _SIDE).astype(plane.dtype)
    return plane
