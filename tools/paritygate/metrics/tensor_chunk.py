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

    r and c are the values, e = c - r. Of maxima the largest row counts, of everything else the sum. The sums over c
    follow from those over r and e, and cost nothing.
    """

    RR = 0
    EE = 1
    RE = 2
    R = 3
    E = 4
    ABS_E = 5
    ULPS = 6
    MAX_ERROR = 7
    MAX_REFERENCE = 8
    MAX_ULPS = 9
    ULPS_OVER_ONE = 10
    MISMATCHES = 11
    BAD_REFERENCE = 12
    BAD_CANDIDATE = 13
    NAN_REFERENCE = 14
    NAN_CANDIDATE = 15
    INEXACT = 16

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


class Scratch:
    """The arrays that one thread reuses for every chunk: fresh memory costs more than the arithmetic."""

    def __init__(self, length: int) -> None:
        self._flat = np.empty(3 * length)
        self.kept = self._flat[:length]
        self.flags = np.empty(length, np.bool_)
        self.bits, self.spare = np.empty((2, length), np.int32)

    def wide(self, size: int) -> NDArray[np.float64]:
        """Three float64 rows without gaps."""
        return self._flat[: 3 * size].reshape(3, size)


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
        row[Column.ULPS] = np.add.reduce(distance, dtype=np.uint64) / one
    _sums(row, reference, candidate, wide)
    absolute = wide[2]
    if tail is not None and row[Column.MAX_ERROR] > tail.threshold:
        # Few are above it: their places are found sooner than a mask is applied.
        tail.add(absolute[np.flatnonzero(np.greater(absolute, tail.threshold, out=flags))])


def _sums(row: NDArray[np.float64], reference: Array, candidate: Array, wide: NDArray[np.float64]) -> None:
    r, e, absolute = wide
    np.copyto(r, reference)
    np.copyto(e, candidate)
    np.subtract(e, r, out=e)
    np.abs(e, out=absolute)
    row[Column.MAX_ERROR] = absolute.max()
    row[Column.MAX_REFERENCE] = max(float(reference.max()), -float(reference.min()))
    np.vecdot(wide[:2], wide[:2], out=row[: Column.RE])
    row[Column.RE] = np.dot(r, e)
    if r.size % _PIECE == 0:
        wide = (wide.reshape(-1, _PIECE) @ _ONES).reshape(3, -1)
    np.add.reduce(wide, axis=1, out=row[Column.R : Column.ULPS])
