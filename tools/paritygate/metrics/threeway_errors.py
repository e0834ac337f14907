"""One pass over three arrays: the errors of two legs against the third, in float64, without a full-size copy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.threeway_bins import KEYS, ROUNDING, SHIFT
from paritygate.metrics.widen import widened

LEGS = ("reference", "low", "target")

#: Values of one chunk: its float64 errors stay in the processor's cache.
CHUNK = 1 << 17

_Floats = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Errors:
    """The errors of one leg.

    ``squares`` is the sum of squared deviations from ``mean``, ``largest`` the largest magnitude, ``keys`` the number
    of errors by the key of ``threeway_bins``, ``(KEYS,)``.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    largest: float = 0.0
    keys: NDArray[np.int64] = field(default_factory=lambda: np.zeros(KEYS, np.int64))

    @property
    def l2(self) -> float:
        """The Euclidean norm of the errors."""
        return math.sqrt(self.squares + self.count * self.mean * self.mean)

    @property
    def rms(self) -> float:
        """The root of the mean square of the errors."""
        return self.l2 / math.sqrt(self.count)

    @property
    def std(self) -> float:
        """The standard deviation of the errors around their mean, over all values (biased)."""
        return math.sqrt(self.squares / self.count)

    def merged(self, other: Errors) -> Errors:
        """The errors of both (Chan, Golub, LeVeque 1979)."""
        count = self.count + other.count
        step = other.mean - self.mean
        return Errors(
            count=count,
            mean=self.mean + step * (other.count / count),
            squares=self.squares + other.squares + step * step * (self.count * (other.count / count)),
            largest=max(self.largest, other.largest),
            keys=self.keys + other.keys,
        )


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What one pass finds.

    ``smallest``, ``biggest`` and ``squares`` are the ends and the sum of squares of the reference, ``low`` and
    ``target`` the errors of the legs; ``non_finite`` says by leg how many values are not finite and the index of the
    first. Nothing else means anything unless that is empty.
    """

    smallest: float
    biggest: float
    squares: float
    low: Errors
    target: Errors
    non_finite: dict[str, tuple[int, tuple[int, ...]]]


def measured(arrays: tuple[NDArray[Any], ...], dtypes: tuple[str, ...]) -> Pass:
    """The pass over reference, low and target: arrays of one shape with at least one value.

    Args:
        arrays: values, or the bits of bfloat16 and float8.
        dtypes: the dtype of each, one of ``widen.FLOATS``.
    """
    reverse = all(array.flags.f_contiguous for array in arrays)
    if reverse:
        arrays = tuple(array.T for array in arrays)
    smallest, biggest, squares = math.inf, -math.inf, 0.0
    low, target = Errors(), Errors()
    non_finite: dict[str, tuple[int, int]] = {}
    position = 0
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for chunks in _chunks(arrays, dtypes):
            reference = chunks[0]
            found = [_errors(chunk, reference) for chunk in chunks[1:]]
            if not all(math.isfinite(errors.largest) for errors in found):
                _count_non_finite(chunks, position=position, into=non_finite)
            low, target = low.merged(found[0]), target.merged(found[1])
            smallest, biggest = min(smallest, float(reference.min())), max(biggest, float(reference.max()))
            wide = reference.astype(np.float64, copy=False)
            squares += float(np.dot(wide, wide))
            position += reference.size
    indices = {
        leg: (count, _index(first, arrays[0].shape, reverse=reverse)) for leg, (count, first) in non_finite.items()
    }
    return Pass(smallest=smallest, biggest=biggest, squares=squares, low=low, target=target, non_finite=indices)


def _index(position: int, shape: tuple[int, ...], *, reverse: bool) -> tuple[int, ...]:
    index = tuple(int(place) for place in np.unravel_index(position, shape))
    return index[::-1] if reverse else index


def _chunks(arrays: tuple[NDArray[Any], ...], dtypes: tuple[str, ...]) -> Iterator[list[_Floats]]:
    """The same values of all arrays, ``(count,)`` each, in C order."""
    iterator = np.nditer(
        arrays, flags=["external_loop", "buffered"], op_flags=[["readonly"]] * 3, order="C", buffersize=CHUNK
    )
    for chunks in iterator:
        yield [widened(chunk, dtype) for chunk, dtype in zip(chunks, dtypes, strict=True)]


def _errors(values: _Floats, reference: _Floats) -> Errors:
    error = np.subtract(values, reference, dtype=np.float64)
    largest = max(float(error.max()), -float(error.min()))
    # float64 holds every step of a float32 subtraction well enough that rounding twice is rounding once.
    bits = error.astype(np.float32).view(np.uint32)
    bits += np.uint32(ROUNDING)
    bits >>= np.uint32(SHIFT)
    keys = np.bincount(bits, minlength=KEYS)
    mean = float(error.mean())
    squares = float(np.dot(error, error))
    if mean * mean * error.size * 1000 > squares:
        # Most of the squares come from the mean, and equal errors must give exactly 0.
        first = float(error[0])
        error -= first
        mean = float(error.mean())
        error -= mean
        squares, mean = float(np.dot(error, error)), first + mean
    else:
        squares -= mean * mean * error.size
    return Errors(count=error.size, mean=mean, squares=squares, largest=largest, keys=keys)


def _count_non_finite(chunks: list[_Floats], *, position: int, into: dict[str, tuple[int, int]]) -> None:
    for leg, chunk in zip(LEGS, chunks, strict=True):
        wrong = ~np.isfinite(chunk)
        if wrong.any():
            count, first = into.get(leg, (0, position + int(wrong.argmax())))
            into[leg] = (count + int(wrong.sum()), first)
