"""SSIM and PSNR as FFmpeg's ``ssim`` and ``psnr`` filters compute them on 8-bit planes.

Its SSIM takes sums over 8x8 pixels every 4 pixels, in integers, with sample covariance, and with a constant C1 that
is 64 times too small: a dark picture reads 0.904 where the standard gives 0.966. The figure of all planes is weighted
by their sizes, so that it is another one for RGB and for YUV.

Three routes from RGB pixels. ``gbrp`` is what the filters do with two PNG files: R, G and B as they are. ``y`` is
the luma that libswscale gives for every YUV format: BT.601, limited range, to the bit. ``yuv420p`` adds chroma of
half size as the mean of 2x2 pixels, where libswscale filters bicubically: close to it, not equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.migration_pair import Pair
from paritygate.metrics.pixels import Array
from paritygate.metrics.values import Value, refused

Plane = NDArray[np.uint8]
_Integers = NDArray[np.int32]

_SHORTEST = 8
_C1 = int(0.01 * 0.01 * 255 * 255 * 64 + 0.5)
_C2 = int(0.03 * 0.03 * 255 * 255 * 64 * 63 + 0.5)
#: libswscale's integer coefficients of R, G and B, in 1/32768.
_LUMA = (8414, 16519, 3208)
_CHROMA = MappingProxyType({"u": (-4865, -9528, 14392), "v": (14392, -12061, -2332)})

#: Metric -> filter, and the planes whose figures it weighs together.
_TABLE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ffmpeg_psnr_gbrp_db": ("psnr", "rgb"),
        "ffmpeg_psnr_y_db": ("psnr", "y"),
        "ffmpeg_psnr_yuv420p_db": ("psnr", "yuv"),
        "ffmpeg_ssim_gbrp": ("ssim", "rgb"),
        "ffmpeg_ssim_y": ("ssim", "y"),
        "ffmpeg_ssim_yuv420p": ("ssim", "yuv"),
    }
)
NAMES = tuple(_TABLE)


def measure(names: Iterable[str], pair: Pair) -> dict[str, Value]:
    """The named metrics of a pair whose ``problem`` is empty; ``detail`` holds the figure of each plane."""
    wanted = tuple(names)
    if pair.reference.dtype != np.uint8 or pair.mode != "RGB":
        return {name: refused(f"{name} needs 8-bit RGB pixels") for name in wanted}
    needed = sorted({plane for name in wanted for plane in _TABLE[name][1]})
    planes = {name: tuple(_plane(side, name) for side in pair.sides) for name in needed}
    figures: dict[tuple[str, str], float] = {}
    found: dict[str, Value] = {}
    for name in wanted:
        kind, letters = _TABLE[name]
        chosen = {letter: planes[letter] for letter in letters}
        if kind == "ssim" and min(length for sides in chosen.values() for length in sides[0].shape) < _SHORTEST:
            found[name] = refused(f"{name} needs planes of {_SHORTEST} pixels or more on each side")
            continue
        for letter, (reference, candidate) in chosen.items():
            if (kind, letter) not in figures:
                figures[kind, letter] = _FIGURES[kind](reference, candidate)
        per_plane = {letter: figures[kind, letter] for letter in letters}
        found[name] = _weighed(kind, per_plane, {letter: sides[0].size for letter, sides in chosen.items()})
    return found


def plane_ssim(reference: Plane, candidate: Plane) -> float:
    """What the ``ssim`` filter gives for one 8-bit plane, at least 8 pixels on each side; 1.0 for equal planes."""
    x, y = reference.astype(np.int32), candidate.astype(np.int32)
    sum_x, sum_y, squares, product = (_window_sums(plane) for plane in (x, y, x * x + y * y, x * y))
    variances = squares * 64 - sum_x * sum_x - sum_y * sum_y
    covariance = product * 64 - sum_x * sum_y
    upper = (2 * sum_x * sum_y + _C1).astype(np.float32) * (2 * covariance + _C2).astype(np.float32)
    lower = (sum_x * sum_x + sum_y * sum_y + _C1).astype(np.float32) * (variances + _C2).astype(np.float32)
    return float(np.mean(upper / lower, dtype=np.float64))


def plane_mean_square_error(reference: Plane, candidate: Plane) -> float:
    """What the ``psnr`` filter calls ``mse`` of one 8-bit plane."""
    error = reference.astype(np.int32) - candidate.astype(np.int32)
    return float(np.sum(error * error, dtype=np.int64)) / error.size


_FIGURES: Mapping[str, Callable[[Plane, Plane], float]] = MappingProxyType(
    {"psnr": plane_mean_square_error, "ssim": plane_ssim}
)


def _weighed(kind: str, figures: Mapping[str, float], sizes: Mapping[str, int]) -> Value:
    mean = sum(figures[plane] * sizes[plane] for plane in figures) / sum(sizes.values())
    if kind == "ssim":
        return Value(mean, {"planes": dict(figures)})
    number = math.inf if mean == 0 else 10 * math.log10(255**2 / mean)
    return Value(number, {"mean_square_error": mean, "planes": dict(figures)})


def _window_sums(plane: _Integers) -> _Integers:
    """Sums over 8x8 pixels every 4 pixels; what does not fill a 4x4 cell at the right and the bottom is left out."""
    rows, columns = (length // 4 for length in plane.shape)
    cells: _Integers = plane[: rows * 4, : columns * 4].reshape(rows, 4, columns, 4).sum(axis=(1, 3), dtype=np.int32)
    sums: _Integers = cells[:-1, :-1] + cells[:-1, 1:] + cells[1:, :-1] + cells[1:, 1:]
    return sums


def _plane(pixels: Array, name: str) -> Plane:
    if name in "rgb":
        return pixels[..., "rgb".index(name)]
    if name == "y":
        fine = (_mixed(pixels.astype(np.int32), _LUMA) + (32 << 14) + (1 << 8)) >> 9
        return ((fine + 32) >> 6).astype(np.uint8)
    height, width = pixels.shape[:2]
    even = np.pad(pixels.astype(np.int32), ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    four = even[0::2, 0::2] + even[1::2, 0::2] + even[0::2, 1::2] + even[1::2, 1::2]
    return ((_mixed(four, _CHROMA[name]) + (257 << 16)) >> 17).astype(np.uint8)


def _mixed(pixels: _Integers, weights: tuple[int, int, int]) -> _Integers:
    mixed: _Integers = pixels[..., 0] * weights[0] + pixels[..., 1] * weights[1] + pixels[..., 2] * weights[2]
    return mixed
