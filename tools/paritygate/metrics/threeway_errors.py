"""One pass over three arrays: the errors of two of them against the first, in float64, without a full-size copy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics import kernel
from paritygate.metrics.threeway_bins import KEYS, ROUNDING, SHIFT
from paritygate.metrics.widen import widened

LEGS = ("reference", "low", "target")
#: Values of one chunk, measured: few calls, and buffers that stay in the processor's cache.
CHUNK = 1 << 17

# OpenBLAS multiplies vectors of up to 10,000 values in the thread that asks.
_UNTHREADED = 1 << 13

_Floats = NDArray[np.float32] | NDArray[np.float64]
_Keys = NDArray[np.int64]
_Engine = Callable[[list[_Floats], _Keys], "Part"]


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What is known of some errors.

    ``squares`` is the sum of squared deviations from ``mean``, ``largest`` the largest magnitude.
    """

    count: int
    mean: float
    squares: float
    largest: float

    @property
    def energy(self) -> float:
        """The sum of squared errors."""
        return self.squares + self.count * self.mean * self.mean

    @property
    def variance(self) -> float:
        """The mean squared deviation of the errors from their mean (biased)."""
        return self.squares / self.count

    def merged(self, other: Moments) -> Moments:
        """The moments of both together (Chan, Golub, LeVeque 1979)."""
        count = self.count + other.count
        step = other.mean - self.mean
        return Moments(
            count=count,
            mean=self.mean + step * (other.count / count),
            squares=self.squares + other.squares + step * step * (self.count * (other.count / count)),
            largest=max(self.largest, other.largest),
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some values of an input: the ends and the sum of squares of the reference, and the errors of both legs."""

    smallest: float
    biggest: float
    squares: float
    low: Moments
    target: Moments

    def merged(self, other: Part) -> Part:
        """Both parts together."""
        return Part(
            smallest=min(self.smallest, other.smallest),
            biggest=max(self.biggest, other.biggest),
            squares=self.squares + other.squares,
            low=self.low.merged(other.low),
            target=self.target.merged(other.target),
        )


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What one pass finds in an input.

    ``keys`` is the number of errors of low and target by their key in ``threeway_bins``, ``(2, KEYS)``.
    ``non_finite`` says by leg how many values are not finite and the index of the first: nothing else means
    anything unless it is empty.
    """

    whole: Part
    keys: _Keys
    non_finite: dict[str, tuple[int, tuple[int, ...]]]


def measured(arrays: tuple[NDArray[Any], ...], dtypes: tuple[str, ...]) -> Pass:
    """The pass over reference, low and target: arrays of one shape with at least one value.

    Args:
        arrays: values, or the bits of bfloat16 and float8.
        dtypes: the dtype of each, a key of ``widen.FLOATS``.
    """
    reverse = all(array.flags.f_contiguous for array in arrays)
    if reverse:
        arrays = tuple(array.T for array in arrays)
    keys = np.zeros((2, KEYS), np.int64)
    found: dict[str, tuple[int, int]] = {}
    whole: Part | None = None
    part_of = _engine(dtypes)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for chunks in _chunks(arrays, dtypes):
            part = part_of(chunks, keys)
            if not (math.isfinite(part.low.mean) and math.isfinite(part.target.mean)):
                _count_non_finite(chunks, position=whole.low.count if whole else 0, into=found)
            whole = whole.merged(part) if whole else part
    assert whole is not None
    shape = arrays[0].shape
    non_finite = {leg: (count, _index(first, shape, reverse=reverse)) for leg, (count, first) in found.items()}
    return Pass(whole=whole, keys=keys, non_finite=non_finite)


def _chunks(arrays: tuple[NDArray[Any], ...], dtypes: tuple[str, ...]) -> Iterator[list[_Floats]]:
    """The same values of all arrays, ``(count,)`` each and side by side in memory, in C order."""
    # NumPy's type stubs misspell "contig".
    each: list[Any] = [["readonly", "aligned", "contig", "nbo"]] * len(arrays)
    for chunks in np.nditer(arrays, flags=["external_loop", "buffered"], op_flags=each, order="C", buffersize=CHUNK):
        yield [widened(chunk, dtype) for chunk, dtype in zip(chunks, dtypes, strict=True)]


def _index(position: int, shape: tuple[int, ...], *, reverse: bool) -> tuple[int, ...]:
    index = tuple(int(place) for place in np.unravel_index(position, shape))
    return index[::-1] if reverse else index


def _count_non_finite(chunks: list[_Floats], *, position: int, into: dict[str, tuple[int, int]]) -> None:
    for leg, chunk in zip(LEGS, chunks, strict=True):
        wrong = ~np.isfinite(chunk)
        if wrong.any():
            count, first = into.get(leg, (0, position + int(wrong.argmax())))
            into[leg] = (count + int(wrong.sum()), first)


def _engine(dtypes: tuple[str, ...]) -> _Engine:
    """What makes a part of chunks and adds the keys of their errors; a mean is not finite when a value is not."""
    library = kernel.library()
    return _numpy_engine() if library is None or "float64" in dtypes else _kernel_engine(library)


def _kernel_engine(library: ctypes.CDLL) -> _Engine:
    function = library.pg_threeway
    function.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_int64, *[ctypes.c_void_p] * 2]
    function.restype = None
    out = np.empty(9)

    def part_of(chunks: list[_Floats], keys: _Keys) -> Part:
        count = chunks[0].size
        function(*(chunk.ctypes.data for chunk in chunks), count, out.ctypes.data, keys.ctypes.data)
        smallest, biggest, square, *both = out.tolist()
        low, target = (
            Moments(count=count, mean=mean, squares=squares, largest=largest)
            for mean, squares, largest in (both[:3], both[3:])
        )
        return Part(smallest=smallest, biggest=biggest, squares=square, low=low, target=target)

    return part_of


def _numpy_engine() -> _Engine:
    # Memory that is taken anew for every chunk costs more than the arithmetic.
    exact_values, errors, floats, places = (np.empty(CHUNK, dtype) for dtype in ("f8", "f8", "f4", "p"))

    def part_of(chunks: list[_Floats], keys: _Keys) -> Part:
        count = chunks[0].size
        exact, error, rounded = exact_values[:count], errors[:count], floats[:count]
        exact[:] = chunks[0]
        found = []
        for leg, keys_of_leg in zip(chunks[1:], keys, strict=True):
            # Not one subtraction with a cast: that is twice as slow.
            error[:] = leg
            error -= exact
            rounded[:] = error
            np.add(keys_of_leg, _counted(rounded, places[:count]), out=keys_of_leg)
            found.append(_moments(error))
        ends = float(chunks[0].min()), float(chunks[0].max())
        return Part(smallest=ends[0], biggest=ends[1], squares=_squared(exact), low=found[0], target=found[1])

    return part_of


def _counted(errors: NDArray[np.float32], places: NDArray[np.intp]) -> _Keys:
    """How many errors have each key, ``(KEYS,)``; both arrays are used up."""
    bits = errors.view(np.uint32)
    bits += np.uint32(ROUNDING)
    bits >>= np.uint32(SHIFT)
    places[:] = bits
    return np.bincount(places, minlength=KEYS)


def _moments(error: NDArray[np.float64]) -> Moments:
    """The moments of errors; the array is used up."""
    largest = max(float(error.max()), -float(error.min()))
    mean, squares = float(error.mean()), _squared(error)
    if mean * mean * error.size * 1000 > squares:
        # Most of the squares come from the mean, and equal errors must give exactly 0.
        first = float(error[0])
        error -= first
        rest = float(error.mean())
        error -= rest
        return Moments(count=error.size, mean=first + rest, squares=_squared(error), largest=largest)
    return Moments(count=error.size, mean=mean, squares=squares - mean * mean * error.size, largest=largest)


def _squared(values: NDArray[np.float64]) -> float:
    """The sum of squares, by products that are too short for BLAS to start threads: a busy neighbour stops those."""
    pieces = (values[start : start + _UNTHREADED] for start in range(0, values.size, _UNTHREADED))
    return sum(float(np.dot(piece, piece)) for piece in pieces)
