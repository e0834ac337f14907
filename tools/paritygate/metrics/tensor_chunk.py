"""What NumPy computes of one chunk of two tensors: a row of totals in double precision."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.tensor_formats import Array, bit_distance, ordered_bits
from paritygate.metrics.tensor_tail import Tail
from paritygate.metrics.tensor_view import Chunk, View


class Column(IntEnum):
    """The totals of a row; ``native/tensor.c`` writes the same order up to ``MISMATCHES``.

    r and c are the values, e = c - r. Of maxima the largest row counts, of everything else the sum.
    """

    CC = 0
    RR = 1
    EE = 2
    RC = 3
    R = 4
    E = 5
    ABS_E = 6
    ULPS = 7
    MAX_ERROR = 8
    MAX_REFERENCE = 9
    MAX_ULPS = 10
    ULPS_OVER_ONE = 11
    MISMATCHES = 12
    BAD_REFERENCE = 13
    BAD_CANDIDATE = 14
    NAN_REFERENCE = 15
    NAN_CANDIDATE = 16
    INEXACT = 17

    @property
    def is_maximum(self) -> bool:
        """Whether rows are combined by the largest of them."""
        return self.name.startswith("MAX_")

    @property
    def nan(self) -> Column:
        """Of a count of what is not finite: the count of NaN among it."""
        return Column(self + 2)


#: Length of the pieces that sums are cut into: a product with a few ones is the fastest sum there is.
_PIECE = 256
_ONES = np.ones(_PIECE)
#: Rows of ``Scratch.wide`` in the order of the columns: squares of the first three, sums of the last four.
_C, _R, _E, _ABS_E, _ULPS = range(5)


class Scratch:
    """The arrays that one thread reuses for every chunk: fresh memory costs more than the arithmetic."""

    def __init__(self, length: int) -> None:
        self._flat = np.zeros(5 * length)
        self.kept = self._flat[:length]
        self.flags = np.empty(length, np.bool_)
        self.bits, self.spare = np.empty((2, length), np.int32)

    def wide(self, size: int) -> NDArray[np.float64]:
        """Five float64 rows without gaps."""
        return self._flat[: 5 * size].reshape(5, size)


def fill_row(
    row: NDArray[np.float64], chunk: Chunk, view: View, scratch: Scratch, *, tail: Tail | None, ulps: bool
) -> None:
    """Write the totals of a chunk into its row, and its largest errors into the tail."""
    size = chunk.reference.size
    flags, wide = scratch.flags[:size], scratch.wide(size)
    reference, candidate = view.wide(chunk.reference), view.wide(chunk.candidate)
    row[Column.MISMATCHES] = np.count_nonzero(np.not_equal(reference, candidate, out=flags))
    if view.format.kind == "boolean":
        return
    if ulps:
        first = ordered_bits(chunk.reference, reference, view.format)
        second = ordered_bits(chunk.candidate, candidate, view.format)
        distance = bit_distance(first, second, scratch.bits[:size], scratch.spare[:size])
        one = view.format.ulp
        row[Column.MAX_ULPS] = distance.max() / one
        row[Column.ULPS_OVER_ONE] = np.count_nonzero(np.greater(distance, one, out=flags))
        np.copyto(wide[_ULPS], distance)  # every partial sum is exact
    _sums(row, reference, candidate, wide)
    row[Column.ULPS] = row[Column.ULPS] / view.format.ulp if ulps else 0.0
    absolute = wide[_ABS_E]
    if tail is not None and row[Column.MAX_ERROR] > tail.threshold:
        tail.add(absolute[np.greater(absolute, tail.threshold, out=flags)])


def _sums(row: NDArray[np.float64], reference: Array, candidate: Array, wide: NDArray[np.float64]) -> None:
    c, r, e, absolute = wide[:_ULPS]
    np.copyto(c, candidate)
    np.copyto(r, reference)
    np.subtract(c, r, out=e)
    np.abs(e, out=absolute)
    row[Column.MAX_ERROR] = absolute.max()
    row[Column.MAX_REFERENCE] = max(float(reference.max()), -float(reference.min()))
    np.vecdot(wide[: _E + 1], wide[: _E + 1], out=row[: Column.RC])
    row[Column.RC] = np.dot(r, c)
    summed = wide[_R:]
    if summed.shape[1] % _PIECE == 0:
        summed = (summed.reshape(-1, _PIECE) @ _ONES).reshape(4, -1)
    np.add.reduce(summed, axis=1, out=row[Column.R : Column.MAX_ERROR])
