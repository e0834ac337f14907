"""SSIM and PSNR as FFmpeg's ``ssim`` and ``psnr`` filters compute them on 8-bit planes.

Its SSIM takes sums over 8x8 pixels every 4 pixels, in integers, with sample covariance, and with a constant C1 that
is 64 times too small: a dark picture reads 0.904 where the standard gives 0.966. The figure of all planes is weighted
by their sizes, so that it is another one for RGB and for YUV.

Three routes from RGB pixels: ``gbrp`` is what the filters do with two PNG files, R, G and B as they are; ``yuv420p``
is what they do after FFmpeg has converted RGB to that format, and ``y`` its luma alone, which all YUV formats share.
A decoder's own YUV planes are another matter: they were rounded to RGB and back before they come here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.migration_pair import Pair
from paritygate.metrics.migration_swscale import Plane, chroma, luma
from paritygate.metrics.values import Value, refused

_Integers = NDArray[np.int32]

_SHORTEST = 8
_C1 = int(0.01 * 0.01 * 255 * 255 * 64 + 0.5)
_C2 = int(0.03 * 0.03 * 255 * 255 * 64 * 63 + 0.5)
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
    figures: dict[tuple[str, str], float] = {}
    planes: dict[str, tuple[Plane, Plane]] = {}
    found: dict[str, Value] = {}
    for name in names:
        kind, letters = _TABLE[name]
        if problem := _problem(pair, kind, letters):
            found[name] = refused(f"{name} {problem}")
            continue
        for letter in letters:
            if letter not in planes:
                planes[letter] = (_plane(pair.reference, letter), _plane(pair.candidate, letter))
            if (kind, letter) not in figures:
                figures[kind, letter] = _FIGURES[kind](*planes[letter])
        found[name] = _weighed(
            kind,
            {letter: figures[kind, letter] for letter in letters},
            {letter: planes[letter][0].size for letter in letters},
        )
    return found


def _problem(pair: Pair, kind: str, letters: str) -> str:
    height, width = pair.reference.shape[:2]
    if pair.reference.dtype != np.uint8 or pair.mode != "RGB":
        return "needs 8-bit RGB pixels"
    if letters == "yuv" and (height % 2 or width % 2 or pair.shortest < 2 * _SHORTEST):
        return f"needs even sides of {2 * _SHORTEST} pixels or more"
    if kind == "ssim" and pair.shortest < _SHORTEST:
        return f"needs sides of {_SHORTEST} pixels or more"
    return ""


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


def _plane(pixels: Plane, name: str) -> Plane:
    if name in "rgb":
        return pixels[..., "rgb".index(name)]
    return luma(pixels) if name == "y" else chroma(pixels, name)
