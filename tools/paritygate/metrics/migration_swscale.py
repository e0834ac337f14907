"""YUV 4:2:0 planes of RGB pixels as FFmpeg's libswscale converts them by default: BT.601, limited range, bicubic.

Equal to the bit to what it does on x86, whose vector code cuts each tap of the chroma filter to 16 bits. Its portable
code, on other processors, rounds once at the end: there about one chroma value in ten differs by 1.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.uint8]
_Integers = NDArray[np.int32]

#: Coefficients of R, G and B in 1/32768.
_LUMA = (8414, 16519, 3208)
_CHROMA = MappingProxyType({"u": (-4865, -9528, 14392), "v": (14392, -12061, -2332)})
#: The bicubic filter that halves the height, in 1/4096, and the row of its first tap relative to twice the output row.
_TAPS = (-58, -172, 492, 1786, 1786, 492, -172, -58)
_FIRST_TAP = -3


def luma(pixels: Plane) -> Plane:
    """Y of RGB pixels ``(height, width, 3)``, the same for every YUV format."""
    fine = (_mixed(pixels.astype(np.int32), _LUMA) + (32 << 14) + (1 << 8)) >> 9
    return ((fine + 32) >> 6).astype(np.uint8)


def chroma(pixels: Plane, name: str) -> Plane:
    """U or V (``name`` u or v) of RGB pixels ``(height, width, 3)``, half as high and wide; both sides even."""
    two = pixels[:, 0::2].astype(np.int32) + pixels[:, 1::2]
    fine = np.minimum(((_mixed(two, _CHROMA[name]) + (256 << 15) + (1 << 9)) >> 10) * 2, 32767)
    rows, weights = _vertical_filter(pixels.shape[0])
    result = np.full((rows.shape[0], fine.shape[1]), 7, np.int32)
    for tap in range(len(_TAPS)):
        result += (weights[:, tap, None] * fine[rows[:, tap]]) >> 16
    result >>= 3
    # The last line is left to the portable code on every processor.
    result[-1] = ((weights[-1][:, None] * fine[rows[-1]]).sum(axis=0) + (64 << 12)) >> 19
    return np.clip(result, 0, 255).astype(np.uint8)


def _vertical_filter(height: int) -> tuple[_Integers, _Integers]:
    """Source rows and weights ``(height / 2, taps)``; taps outside the picture are added to its first or last row."""
    rows = 2 * np.arange(height // 2, dtype=np.int32)[:, None] + np.arange(len(_TAPS), dtype=np.int32) + _FIRST_TAP
    weights = np.tile(np.array(_TAPS, np.int32), (height // 2, 1))
    for edge, outside in ((0, rows < 0), (height - 1, rows >= height)):
        weights += np.where(rows == edge, np.where(outside, weights, 0).sum(axis=1, keepdims=True), 0).astype(np.int32)
        weights[outside] = 0
    return np.clip(rows, 0, height - 1), weights


def _mixed(pixels: _Integers, weights: tuple[int, int, int]) -> _Integers:
    mixed: _Integers = pixels[..., 0] * weights[0] + pixels[..., 1] * weights[1] + pixels[..., 2] * weights[2]
    return mixed
