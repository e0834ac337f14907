"""Counts of how far stored levels lie apart, with NumPy: what the kernel counts, to the last digit.

Bytes are counted two at a time, and added up eight at a time in lanes of 16 bits of 64-bit words: one at a time would
cost more than SSIM does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.image_kernel import Counts, LevelCounts
from paritygate.metrics.pixels import Array
from paritygate.metrics.tiles import CELL, Floats, cell_count

_STRIP_VALUES = 1 << 18
#: Most rows of bytes whose sum a lane of 16 bits holds, a multiple of CELL.
_LANE_ROWS = 256
_PAIRS_FROM = 1 << 14
_EVEN = np.uint64(0x00FF00FF00FF00FF)
_BYTE = np.uint64(8)

_Bytes = NDArray[np.uint8]
_Lanes = NDArray[np.uint64]


def counted(reference: Array, candidate: Array, *, bins: int, last: bool) -> LevelCounts:
    """Count differences of uint8 or uint16 images; ``last``: those of the last channel too."""
    height, _width, channels = reference.shape
    values, pixels, alpha = (np.zeros(bins, np.int64) for _ in range(3))
    signed, cells = np.zeros(channels, np.int64), []
    count, strip = (_count_bytes, _ByteStrip) if reference.dtype == np.uint8 else (_count_words, _WordStrip)
    rows = min(_LANE_ROWS, max(CELL, _STRIP_VALUES // reference[0].size // CELL * CELL))
    work = strip(rows, reference.shape[1], channels)
    for top in range(0, height, rows):
        apart = work.subtract(reference[top : top + rows], candidate[top : top + rows])
        values += count(apart, bins)
        pixels += count(largest(apart), bins)
        if last:
            alpha += count(np.ascontiguousarray(apart[..., -1]), bins)
        signed += work.signed()
        cells.append(work.cell_sums())
    for counts, share in ((values, channels), (pixels, 1), (alpha, 1)):
        counts[0] -= counts.sum() - height * reference.shape[1] * share  # the padding, which differs nowhere
    return LevelCounts(
        values, pixels, alpha if last else alpha[:0], signed, np.concatenate(cells)[: cell_count(height)]
    )


def cell_sums(apart: Array) -> Floats:
    """``(cells down, cells across)``: the values of ``(height, width, channels)`` added up in each cell."""
    height, width, channels = apart.shape
    flat = apart.reshape(height, -1)
    if height % CELL == 0:  # three times as fast as reduceat
        down = flat.reshape(-1, CELL, flat.shape[1]).sum(axis=1, dtype=np.float64)
    else:
        down = np.add.reduceat(flat, range(0, height, CELL), axis=0, dtype=np.float64)
    sums: Floats = np.add.reduceat(down, range(0, width * channels, CELL * channels), axis=1)
    return sums


class _WordStrip:
    """Differences of some rows of uint16 images."""

    def __init__(self, _rows: int, _width: int, _channels: int) -> None:
        self._apart: Array = np.zeros(0)
        self._signed: Counts = np.zeros(0, np.int64)

    def subtract(self, x: Array, y: Array) -> Array:
        self._apart = np.maximum(x, y) - np.minimum(x, y)
        self._signed = y.sum(axis=(0, 1), dtype=np.int64) - x.sum(axis=(0, 1), dtype=np.int64)
        return self._apart

    def signed(self) -> Counts:
        return self._signed

    def cell_sums(self) -> Floats:
        return cell_sums(self._apart)


class _ByteStrip:
    """Differences of some rows of uint8 images, padded with zeros to whole cells."""

    def __init__(self, rows: int, width: int, channels: int) -> None:
        self._channels, self._used = channels, width * channels
        self._size = (cell_count(width) * CELL, channels)
        self._apart, self._above = np.zeros((2, rows, cell_count(width) * CELL * channels), np.uint8)

    def subtract(self, x: Array, y: Array) -> Array:
        rows = len(x)
        self._apart[rows:] = self._above[rows:] = 0
        x, y = x.reshape(rows, -1), y.reshape(rows, -1)
        apart, lower = self._apart[:rows, : self._used], np.minimum(x, y)
        np.subtract(y, lower, out=self._above[:rows, : self._used])
        np.subtract(np.maximum(x, y, out=apart), lower, out=apart)
        return self._apart.reshape(-1, *self._size)

    def signed(self) -> Counts:
        """What is above less what is below: below is what is apart and not above."""
        above, apart = (self._channel_sums(_lanes(part)) for part in (self._above, self._apart))
        return 2 * above - apart

    def cell_sums(self) -> Floats:
        even, odd = _lanes(self._apart)
        halves = (even.view("<u2") + odd.view("<u2")).reshape(len(even), -1, CELL * self._channels // 2)
        sums: Floats = halves.sum(axis=2, dtype=np.float64)
        return sums

    def _channel_sums(self, lanes: tuple[_Lanes, _Lanes]) -> Counts:
        columns = np.stack([part.sum(axis=0).view("<u2") for part in lanes], axis=1)
        sums: Counts = columns.reshape(-1, self._channels).sum(axis=0, dtype=np.int64)
        return sums


def _lanes(part: _Bytes) -> tuple[_Lanes, _Lanes]:
    """Sums of eight rows, of the even and of the odd bytes, four to a word."""
    words = part.view("<u8").reshape(-1, CELL, part.shape[1] // 8)
    return (words & _EVEN).sum(axis=1), ((words >> _BYTE) & _EVEN).sum(axis=1)


def largest(apart: Array) -> Array:
    """The largest value of each pixel, by way of neighbours in memory: every third byte alone is six times slower."""
    channels, flat = apart.shape[2], apart.ravel()
    size = flat.size - channels + 1
    largest = flat[:size]
    for channel in range(1, channels):
        largest = np.maximum(largest, flat[channel : channel + size])
    return np.ascontiguousarray(largest[::channels])


def _count_words(values: Array, bins: int) -> Counts:
    return np.bincount(values.ravel(), minlength=bins)


def _count_bytes(values: Array, bins: int) -> Counts:
    flat = values.ravel()
    if flat.size < _PAIRS_FROM:
        return np.bincount(flat, minlength=bins)
    pairs = np.bincount(flat.view("<u2"), minlength=bins * bins).reshape(bins, bins)
    both: Counts = pairs.sum(axis=0) + pairs.sum(axis=1)
    return both
