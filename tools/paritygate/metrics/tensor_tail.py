"""The exact percentile of a stream of numbers, from its largest few, in one pass and bounded memory.

The nearest rank needs only the largest hundredth. What lies above a threshold is kept; whenever the buffer is full the
threshold rises to the lowest value that can still matter, so memory stays bounded and the result exact. A first
threshold from a sample only saves work. One that was too high is seen at the end, and the pass is made again.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics.tensor_view import View

#: Below this many elements a sample saves nothing.
_SAMPLE_FROM = 4_000_000
_SAMPLE_BLOCKS, _SAMPLE_LENGTH = 512, 2048
#: Share of the sample above the first threshold; a quarter more than the hundredth that is needed.
_SAMPLE_ABOVE = 0.0125
#: Size of the sample that narrows down a partition, and four standard deviations of a rank in it.
_SORTED, _SLACK = 40_000, 400


class Tail:
    """The largest values of a stream of ``size`` of them. Safe to use from many threads."""

    def __init__(self, size: int, *, threshold: float = -1.0) -> None:
        self.needed = size - -(-99 * size // 100) + 1
        self.threshold = threshold
        self._buffer = np.empty(2 * self.needed + (1 << 17))
        self._filled = 0
        self._lock = threading.Lock()

    def add(self, values: NDArray[np.float64]) -> None:
        """Take in values; those at or below ``threshold`` may be left out."""
        with self._lock:
            while values.size:
                taken = values[: self._buffer.size - self._filled]
                self._buffer[self._filled : self._filled + taken.size] = taken
                self._filled += taken.size
                values = values[taken.size :]
                if self._filled == self._buffer.size:
                    self._compact()

    def percentile_99(self) -> float | None:
        """The nearest-rank 99th percentile, or None when the threshold was too high to know."""
        if self._filled < self.needed:
            return None
        return _nth_largest(self._buffer[: self._filled], self.needed)

    def _compact(self) -> None:
        at = self._filled - self.needed
        self._buffer.partition(at)
        self.threshold = float(self._buffer[at])
        self._buffer[: self.needed] = self._buffer[at:]
        self._filled = self.needed


def _nth_largest(values: NDArray[np.float64], nth: int) -> float:
    """The nth largest, counted from 1; reorders the values."""
    if values.size > _SORTED:
        # Looking only between two values around it that a sample gives is six times as fast as a partition.
        sample = np.sort(values[:: values.size // _SORTED])
        middle = int(sample.size * (1 - nth / values.size))
        low, high = sample[max(0, middle - _SLACK)], sample[min(sample.size - 1, middle + _SLACK)]
        between = values[(values >= low) & (values <= high)]
        left = nth - int(np.count_nonzero(values > high))
        if 0 < left <= between.size:
            values, nth = between, left
    at = values.size - nth
    values.partition(at)
    return float(values[at])


def first_threshold(view: View) -> float:
    """A value below the 99th percentile of the absolute errors, most likely; -1.0 where it is not worth a sample."""
    size = view.reference.size
    if view.mask is not None or size < _SAMPLE_FROM:
        return -1.0
    # Evenly spread but jittered: a period in the data must not meet a period in the sample. The seed is fixed, so
    # that the same files always take the same path.
    jitter = np.random.default_rng(0).random(_SAMPLE_BLOCKS)
    starts = ((np.arange(_SAMPLE_BLOCKS) + jitter) * ((size - _SAMPLE_LENGTH) / _SAMPLE_BLOCKS)).astype(np.int64)
    errors = np.empty((_SAMPLE_BLOCKS, _SAMPLE_LENGTH))
    for row, start in zip(errors, starts, strict=True):
        block = slice(int(start), int(start) + _SAMPLE_LENGTH)
        reference, candidate = view.wide(view.reference[block]), view.wide(view.candidate[block])
        np.subtract(candidate, reference, out=row, dtype=np.float64)
    flat = np.abs(errors, out=errors).reshape(-1)
    at = int(flat.size * (1 - _SAMPLE_ABOVE))
    flat.partition(at)
    return float(np.nextafter(flat[at], -1.0))  # values that tie with it are kept
