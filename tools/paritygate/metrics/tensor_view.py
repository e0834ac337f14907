"""Two tensors as a row of chunks: checked, flat, in one order, with or without the positions that a mask leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paritygate.errors import MetricError
from paritygate.metrics.tensor_formats import Array, Format, format_of, stored, widen


@dataclass(frozen=True)
class Mask:
    """Which positions are looked at: those of the runs of ``width`` elements whose ``rows`` are ``wanted``."""

    rows: Array
    width: int
    wanted: bool

    @property
    def size(self) -> int:
        """How many elements are looked at."""
        kept = int(np.count_nonzero(self.rows))
        return (kept if self.wanted else self.rows.size - kept) * self.width

    def chunk(self, start: int, stop: int) -> Array:
        """Whether each element from ``start`` to ``stop`` is looked at."""
        first = start // self.width
        rows = self.rows[first : -(-stop // self.width)]
        kept = np.repeat(rows, self.width)[start - first * self.width : stop - first * self.width]
        return kept if self.wanted else ~kept


@dataclass(frozen=True)
class Chunk:
    """Stored values of both sides; ``positions`` are their flat positions when a mask took some out."""

    reference: Array
    candidate: Array
    start: int
    positions: Array | None = None

    def position(self, offset: int) -> int:
        """The flat position of the element at an offset of this chunk."""
        return self.start + offset if self.positions is None else int(self.positions[offset])


@dataclass(frozen=True, kw_only=True)
class View:
    """Both tensors, flat, in the order of ``shape``; ``turned`` when that is the reverse of the callers' axes."""

    reference: Array
    candidate: Array
    format: Format
    shape: tuple[int, ...]
    turned: bool
    mask: Mask | None

    @property
    def size(self) -> int:
        """How many elements are looked at."""
        return self.reference.size if self.mask is None else self.mask.size

    def chunk(self, start: int, stop: int) -> Chunk:
        """The elements looked at from ``start`` to ``stop``."""
        reference, candidate = self.reference[start:stop], self.candidate[start:stop]
        if self.mask is None:
            return Chunk(reference, candidate, start)
        kept = np.flatnonzero(self.mask.chunk(start, stop))
        return Chunk(reference[kept], candidate[kept], start, kept + start)

    def chunks(self, length: int) -> Iterator[Chunk]:
        """All of them in order, each of at most ``length`` elements, none empty."""
        for start in range(0, self.reference.size, length):
            chunk = self.chunk(start, min(start + length, self.reference.size))
            if chunk.reference.size:
                yield chunk

    def wide(self, values: Array) -> Array:
        """Stored values as NumPy computes with them."""
        return widen(values, self.format)

    def index(self, position: int) -> list[int]:
        """The callers' index of a flat position, an entry for each axis."""
        index = [int(axis) for axis in np.unravel_index(position, self.shape)]
        return index[::-1] if self.turned else index


def view_of(reference: Array, candidate: Array, *, dtype: str | None, mask: Array | None, padded: bool) -> View:
    """Check two tensors against each other and lay them out for ``View.chunks``.

    Args:
        reference: any shape, at least one element.
        candidate: the same shape and dtype.
        dtype: the format of both; None for the array's own.
        mask: booleans, True for a real position; the tensors' shape or the first axes of it.
        padded: look at the positions that are False in the mask, instead of those that are True.

    Raises:
        MetricError: shapes, dtypes or the mask do not fit, or a tensor is empty.
    """
    if reference.shape != candidate.shape:
        raise MetricError(f"shapes differ: {reference.shape} and {candidate.shape}; nothing is broadcast or cut")
    formats = format_of(reference, dtype), format_of(candidate, dtype)
    if formats[0] != formats[1]:
        raise MetricError(f"dtypes differ: {formats[0].name} and {formats[1].name}")
    if not reference.size:
        raise MetricError(f"a tensor of shape {reference.shape} has no element, and no metric")
    sides = (reference, candidate)
    turned = mask is None and all(side.flags.f_contiguous and not side.flags.c_contiguous for side in sides)
    # As plain arrays: each slice of a memmap costs as much as the arithmetic on it.
    flat = [stored(np.asarray(side.T if turned else side).reshape(-1), formats[0]) for side in sides]
    return View(
        reference=flat[0],
        candidate=flat[1],
        format=formats[0],
        shape=reference.shape[::-1] if turned else reference.shape,
        turned=turned,
        mask=None if mask is None else _mask(mask, reference.shape, wanted=not padded),
    )


def _mask(mask: Array, shape: tuple[int, ...], *, wanted: bool) -> Mask:
    if mask.dtype != np.bool_:
        raise MetricError(f"a mask is made of booleans, True for a real position, not of {mask.dtype.name}")
    if mask.shape != shape[: mask.ndim]:
        raise MetricError(
            f"a mask of shape {mask.shape} says nothing about the first axes of a tensor of shape {shape}"
        )
    width = 1
    for axis in shape[mask.ndim :]:
        width *= axis
    return Mask(mask.reshape(-1), width, wanted)
