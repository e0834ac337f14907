"""What NumPy computes of one chunk of two tensors: a row of totals in double precision."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.tensor_formats import Array, bit_distance, ordered_bits
from paritygate.metrics.tensor_tail import Tail
from paritygate.metrics.tensor_view import Chunk, View


class Column(IntEnum):
    """The totals of a row; ``native/tensor.c`` writes the same order up to ``ULPS_OVER_ONE``.

    r and c are the values, e = c - r. Of maxima the largest row counts, of everything else the sum.
    """

    R = 0
    E = 1
    ABS_E = 2
    RR = 3
    CC = 4
    EE = 5
    RC = 6
    MAX_ERROR = 7
    MAX_REFERENCE = 8
    MISMATCHES = 9
    ULPS = 10
    MAX_ULPS = 11
    ULPS_OVER_ONE = 12
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


#: Of these rows a value that is not finite says that one went in, or that a square left the range of float64.
VALUES = [Column.RR, Column.CC]


class Scratch:
    """The arrays that one thread reuses for every chunk: fresh memory costs more than the arithmetic."""

    def __init__(self, length: int) -> None:
        self.reference, self.candidate, self.error, self.absolute = np.empty((4, length))
        self.ones = np.ones(length)
        self.flags = np.empty(length, np.bool_)
        self.bits, self.spare = np.empty((2, length), np.int32)


def fill_row(
    row: NDArray[np.float64], chunk: Chunk, view: View, scratch: Scratch, *, tail: Tail | None, ulps: bool
) -> None:
    """Write the totals of a chunk into its row, and its largest errors into the tail."""
    size = chunk.reference.size
    flags = scratch.flags[:size]
    wide = view.wide(chunk.reference), view.wide(chunk.candidate)
    row[Column.MISMATCHES] = np.count_nonzero(np.not_equal(*wide, out=flags))
    if ulps:
        first, second = (
            ordered_bits(stored, values, view.format)
            for stored, values in zip((chunk.reference, chunk.candidate), wide, strict=True)
        )
        distance = bit_distance(first, second, scratch.bits[:size], scratch.spare[:size])
        one = view.format.ulp
        row[Column.MAX_ULPS] = distance.max() / one
        row[Column.ULPS_OVER_ONE] = np.count_nonzero(np.greater(distance, one, out=flags))
        # As float64 every partial sum is exact.
        np.copyto(scratch.absolute[:size], distance)
        row[Column.ULPS] = scratch.absolute[:size].sum() / one
    if view.format.kind != "boolean":
        _sums(row, wide, scratch, size)
        _feed(tail, scratch.absolute[:size], flags, float(row[Column.MAX_ERROR]))


def _sums(row: NDArray[np.float64], wide: tuple[Array, Array], scratch: Scratch, size: int) -> None:
    r, c, e, absolute = (
        array[:size] for array in (scratch.reference, scratch.candidate, scratch.error, scratch.absolute)
    )
    np.copyto(r, wide[0])
    np.copyto(c, wide[1])
    np.subtract(c, r, out=e)
    np.abs(e, out=absolute)
    ones = scratch.ones[:size]
    row[: Column.MISMATCHES] = (
        np.dot(r, ones),
        np.dot(e, ones),
        np.dot(absolute, ones),
        np.dot(r, r),
        np.dot(c, c),
        np.dot(e, e),
        np.dot(r, c),
        absolute.max(),
        max(float(wide[0].max()), -float(wide[0].min())),
    )


def _feed(tail: Tail | None, absolute: NDArray[np.float64], flags: NDArray[np.bool_], highest: float) -> None:
    if tail is not None and highest > tail.threshold:
        np.greater(absolute, tail.threshold, out=flags)
        tail.add(absolute[flags])
