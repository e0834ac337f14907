"""Image metrics: two arrays in, one number out. Not for files, suites or bounds.

Every function takes ``reference`` and ``candidate`` of one shape ``(height, width, channels)`` and one dtype
(uint8, float32 or float64) and a declared ``data_range``: 255 for uint8, the format's own range for floats, never
the range of the data. Arithmetic is float64 (integers stay exact). Nothing is broadcast, resized, clipped or
rounded: arrays that do not fit, values outside the range and values that are not finite raise ``MetricError``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MetricError

Array = NDArray[Any]
_Floats = NDArray[np.float64]

_DTYPES = ("uint8", "float32", "float64")
_RADIUS = 5
_SIGMA = 1.5
_K1, _K2 = 0.01, 0.03
_WEIGHTS = np.exp(-0.5 * (np.arange(-_RADIUS, _RADIUS + 1) / _SIGMA) ** 2)
_WEIGHTS /= _WEIGHTS.sum()
_PAIRS = tuple((offset, 2 * _RADIUS - offset, float(_WEIGHTS[offset])) for offset in range(_RADIUS))
_STRIP_ROWS = 32


def ssim(reference: Array, candidate: Array, *, data_range: float) -> float:
    """Structural similarity of Wang et al. 2004, mean over 1 or 3 channels, in [-1, 1]; 1.0 for equal inputs.

    Gaussian 11x11 with sigma 1.5, K1 0.01, K2 0.03, biased variances, windows wholly inside the image. Blind to
    the five-pixel border, to brightness shifts of flat areas, and to small local damage in a large image.

    Raises:
        MetricError: also for sides shorter than 11 pixels and for 2 or 4 channels (alpha is not a colour).
    """
    _check(reference, candidate, data_range)
    height, width, channels = reference.shape
    side = 2 * _RADIUS + 1
    if min(height, width) < side:
        raise MetricError(f"ssim is not applicable: the image is {width}x{height}, its window is {side}x{side} pixels")
    if channels not in (1, 3):
        raise MetricError(f"ssim is defined here over 1 or 3 colour channels, not {channels}")
    losses = [
        _ssim_loss(reference[..., channel], candidate[..., channel], data_range=data_range)
        for channel in range(channels)
    ]
    return 1.0 - sum(losses) / len(losses)


def psnr_db(reference: Array, candidate: Array, *, data_range: float) -> float:
    """Peak signal-to-noise ratio in dB, at least 0; infinity for equal inputs.

    Blind to where the error is; a small bias, as truncation for rounding gives, costs little.
    """
    error = _difference(reference, candidate, data_range)
    mean_square = float(np.mean(np.square(error)))
    if mean_square == 0.0:
        return math.inf
    return 20.0 * math.log10(data_range) - 10.0 * math.log10(mean_square)


def abs_diff_mean(reference: Array, candidate: Array, *, data_range: float) -> float:
    """Mean absolute difference as a share of the data range, in [0, 1]. Blind to local damage and to sign."""
    return float(np.mean(np.abs(_difference(reference, candidate, data_range)))) / data_range


def abs_diff_p99(reference: Array, candidate: Array, *, data_range: float) -> float:
    """99th percentile of the absolute difference as a share of the data range, in [0, 1].

    Nearest rank: the smallest difference that at least 99 % of the values do not exceed. An interpolated
    percentile would change when an image is tiled. Blind to damage below one value in a hundred.
    """
    error = np.abs(_difference(reference, candidate, data_range)).ravel()
    rank = (99 * error.size + 99) // 100
    return float(np.partition(error, rank - 1)[rank - 1]) / data_range


def abs_diff_max(reference: Array, candidate: Array, *, data_range: float) -> float:
    """Largest absolute difference as a share of the data range, in [0, 1]. One pixel decides."""
    return float(np.max(np.abs(_difference(reference, candidate, data_range)))) / data_range


#: metric name -> function; sorted, and the same names as ``specs.SPECS``.
METRICS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "abs_diff_max": abs_diff_max,
        "abs_diff_mean": abs_diff_mean,
        "abs_diff_p99": abs_diff_p99,
        "psnr_db": psnr_db,
        "ssim": ssim,
    }
)


def _difference(reference: Array, candidate: Array, data_range: float) -> _Floats:
    _check(reference, candidate, data_range)
    # uint8 would wrap (10 - 12 = 254), and float32 squares lose digits.
    return reference.astype(np.float64) - candidate.astype(np.float64)


def _check(reference: Array, candidate: Array, data_range: float) -> None:
    for side, array in (("reference", reference), ("candidate", candidate)):
        if not isinstance(array, np.ndarray):
            raise MetricError(f"the {side} is a {type(array).__name__}, expected a numpy array")
        if array.dtype.name not in _DTYPES:
            raise MetricError(f"the {side} has dtype {array.dtype.name}, expected {', '.join(_DTYPES)}")
        if array.ndim != 3 or array.size == 0:
            raise MetricError(f"the {side} has shape {array.shape}, expected a non-empty (height, width, channels)")
    if reference.shape != candidate.shape:
        raise MetricError(f"shapes differ: reference {reference.shape}, candidate {candidate.shape}")
    if reference.dtype != candidate.dtype:
        raise MetricError(f"dtypes differ: reference {reference.dtype.name}, candidate {candidate.dtype.name}")
    for side, array in (("reference", reference), ("candidate", candidate)):
        _check_range(array, data_range, side=side)


def _check_range(array: Array, data_range: float, *, side: str) -> None:
    if not (math.isfinite(data_range) and data_range > 0):
        raise MetricError(f"the data range is {data_range}, expected a positive number")
    if array.dtype == np.uint8 and data_range != 255:
        raise MetricError(f"uint8 pixels have the data range 255, not {data_range}")
    low, high = float(np.min(array)), float(np.max(array))  # both propagate NaN
    if not (math.isfinite(low) and math.isfinite(high)):
        bad = ~np.isfinite(array)
        first = tuple(int(index) for index in np.argwhere(bad)[0])
        raise MetricError(f"the {side} holds {int(bad.sum())} values that are not finite, the first at {first}")
    if low < 0 or high > data_range:
        raise MetricError(f"the {side} spans [{low:g}, {high:g}], outside the declared range [0, {data_range:g}]")


def _ssim_loss(reference: Array, candidate: Array, *, data_range: float) -> float:
    """Mean of 1 - SSIM over one channel, strip by strip, so that the intermediate planes stay in the cache."""
    rows, columns = reference.shape[0] - 2 * _RADIUS, reference.shape[1] - 2 * _RADIUS
    total = 0.0
    for start in range(0, rows, _STRIP_ROWS):
        strip = slice(start, min(start + _STRIP_ROWS, rows) + 2 * _RADIUS)
        x, y = reference[strip].astype(np.float64), candidate[strip].astype(np.float64)
        total += float(np.sum(_ssim_loss_map(x, y, data_range)))
    return total / float(rows * columns)


def _ssim_loss_map(x: _Floats, y: _Floats, data_range: float) -> _Floats:
    """1 - SSIM of every window.

    Wang's formula in sum and difference of the two images: four blurs instead of five, and a difference of zero
    gives a loss of exactly zero, where variances taken as E[x^2] - mean^2 would leave rounding noise.
    """
    total, difference = x + y - data_range, x - y
    mean_total, mean_difference = _blur(total), _blur(difference)
    variance_total = _blur(total * total) - mean_total**2
    squared = mean_difference**2
    variance_difference = _blur(difference * difference) - squared
    luminance = squared / (((mean_total + data_range) ** 2 + squared) / 2 + (_K1 * data_range) ** 2)
    contrast = variance_difference / ((variance_total + variance_difference) / 2 + (_K2 * data_range) ** 2)
    loss: _Floats = luminance + contrast - luminance * contrast
    return loss


def _blur(plane: _Floats) -> _Floats:
    """``(height, width)`` -> ``(height - 10, width - 10)``: separable Gaussian, windows wholly inside."""
    height, width = plane.shape[0] - 2 * _RADIUS, plane.shape[1] - 2 * _RADIUS
    down: _Floats = _WEIGHTS[_RADIUS] * plane[_RADIUS : _RADIUS + height]
    for near, far, weight in _PAIRS:  # the kernel is symmetric: add the pair, multiply once
        down += weight * (plane[near : near + height] + plane[far : far + height])
    across: _Floats = _WEIGHTS[_RADIUS] * down[:, _RADIUS : _RADIUS + width]
    for near, far, weight in _PAIRS:
        across += weight * (down[:, near : near + width] + down[:, far : far + width])
    return across
