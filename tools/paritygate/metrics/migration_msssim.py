"""Multi-scale SSIM as ``pytorch_msssim.ms_ssim`` computes it with its defaults.

Five scales, each half the one before. A side of odd length is padded with a line of zeros before it is halved, so
that a dark line runs along the top or the left of the smaller scale: such pictures score differently from the same
ones cropped to even sides. Blind to what plain SSIM is blind to, and more forgiving of noise.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.migration_pair import Pair
from paritygate.metrics.values import Value, refused

_Doubles = NDArray[np.float64]

NAMES = ("pytorch_msssim_ms_ssim",)

_RADIUS = 5
_SHORTEST = 161
_EXPONENTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
_STRIP_ROWS = 64
_WEIGHTS = np.exp(-0.5 * (np.arange(-_RADIUS, _RADIUS + 1) / 1.5) ** 2)
_WEIGHTS /= _WEIGHTS.sum()


def measure(names: Iterable[str], pair: Pair) -> dict[str, Value]:
    """The named metrics of a pair whose ``problem`` is empty."""
    return {name: _ms_ssim(pair) for name in names}


def _ms_ssim(pair: Pair) -> Value:
    if pair.shortest < _SHORTEST:
        return refused(f"pytorch_msssim_ms_ssim needs sides of {_SHORTEST} pixels or more")
    per_channel = [
        _plane_ms_ssim(*(side[..., channel].astype(np.float64) for side in pair.sides), data_range=pair.data_range)
        for channel in range(pair.reference.shape[2])
    ]
    return Value(sum(per_channel) / len(per_channel))


def _plane_ms_ssim(x: _Doubles, y: _Doubles, *, data_range: float) -> float:
    result = 1.0
    for exponent in _EXPONENTS[:-1]:
        result *= max(_means(x, y, data_range=data_range)[1], 0.0) ** exponent
        x, y = _half(x), _half(y)
    return float(result * max(_means(x, y, data_range=data_range)[0], 0.0) ** _EXPONENTS[-1])


def _means(x: _Doubles, y: _Doubles, *, data_range: float) -> tuple[float, float]:
    """Mean similarity of one scale, and mean of its contrast and structure part alone."""
    rows, columns = (length - 2 * _RADIUS for length in x.shape)
    similarity = contrast = 0.0
    for start in range(0, rows, _STRIP_ROWS):
        strip = slice(start, start + _STRIP_ROWS + 2 * _RADIUS)
        a, b = x[strip], y[strip]
        mean_a, mean_b, square_a, square_b, product = (_blur(plane) for plane in (a, b, a * a, b * b, a * b))
        c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
        squares = mean_a * mean_a + mean_b * mean_b
        structure = (2 * (product - mean_a * mean_b) + c2) / (square_a + square_b - squares + c2)
        contrast += float(structure.sum())
        similarity += float((structure * (2 * mean_a * mean_b + c1) / (squares + c1)).sum())
    return similarity / (rows * columns), contrast / (rows * columns)


def _blur(plane: _Doubles) -> _Doubles:
    rows, columns = (length - 2 * _RADIUS for length in plane.shape)
    down: _Doubles = np.zeros((rows, plane.shape[1]))
    for offset, weight in enumerate(_WEIGHTS):
        down += plane[offset : offset + rows] * weight
    across: _Doubles = np.zeros((rows, columns))
    for offset, weight in enumerate(_WEIGHTS):
        across += down[:, offset : offset + columns] * weight
    return across


def _half(plane: _Doubles) -> _Doubles:
    """Means of 2x2 pixels; a zero line goes before an odd side, as the peer's padding does."""
    rows, columns = plane.shape
    plane = np.pad(plane, ((rows % 2, 0), (columns % 2, 0)))
    result: _Doubles = (plane[0::2, 0::2] + plane[1::2, 0::2] + plane[0::2, 1::2] + plane[1::2, 1::2]) / 4
    return result
