"""One pass over two tensors: every total, maximum, count and place that a tensor metric needs.

Each chunk gives one row of totals in double precision; the rows are added without rounding at the end, so neither the
number of threads nor their order changes a digit.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics import tensor_kernel
from paritygate.metrics.blas import one_thread
from paritygate.metrics.tensor_ahead import Ahead, pages_read
from paritygate.metrics.tensor_chunk import Column, Scratch, fill_row
from paritygate.metrics.tensor_formats import EXACT_INTEGER, Array
from paritygate.metrics.tensor_tail import Tail, first_threshold
from paritygate.metrics.tensor_view import Chunk, View

#: Elements of a chunk: small enough for the processor's cache, large enough that Python's share stays small.
NUMPY_CHUNK, KERNEL_CHUNK = 1 << 16, 1 << 17
#: How many of the worst, or of the first, places are kept.
PLACES = 10


@dataclass(frozen=True, order=True)
class Place:
    """One element: its flat position and the values there. Sorts by ``rank``, then by position."""

    rank: float
    position: int
    reference: Any = field(compare=False)
    candidate: Any = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a pass computes beyond sums, maxima and counts: the percentile, bit distances."""

    tail: bool
    ulps: bool


@dataclass
class Places:
    """The places that one thread found."""

    worst: list[Place] = field(default_factory=list)
    mismatches: list[Place] = field(default_factory=list)
    bad_reference: list[Place] = field(default_factory=list)
    bad_candidate: list[Place] = field(default_factory=list)

    def best_of(self, name: str, others: list[Places]) -> list[Place]:
        """The first of the places of that name among these and others."""
        return sorted(place for places in (self, *others) for place in getattr(places, name))[:PLACES]


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What a pass found. Sums and maxima mean nothing while ``non_finite`` elements were among the values."""

    size: int
    sums: dict[Column, float]
    places: Places
    percentile_99: float | None

    def __getitem__(self, column: Column) -> float:
        return self.sums[column]

    @property
    def non_finite(self) -> bool:
        """Whether a NaN or an infinity was seen on either side."""
        return bool(self[Column.BAD_REFERENCE] or self[Column.BAD_CANDIDATE])


def totals(view: View, plan: Plan, *, threads: int) -> Totals:
    """Go over both tensors once; a second time when the sample misjudged the percentile."""
    use_kernel = tensor_kernel.takes(view)
    length = KERNEL_CHUNK if use_kernel else NUMPY_CHUNK
    count = -(-view.reference.size // length)
    rows = np.zeros((count, len(Column)))
    pages_before = pages_read()
    tail = Tail(view.size, threshold=first_threshold(view)) if plan.tail else None

    def work(chunks: range) -> Places:
        places, scratch = Places(), Scratch(min(length, view.reference.size))
        ahead = Ahead(view, pages_before=pages_before)
        for index in chunks:
            ahead.reach(index * length)
            chunk = view.chunk(index * length, min((index + 1) * length, view.reference.size))
            if chunk.reference.size:
                row = rows[index]
                if use_kernel:
                    tensor_kernel.fill_row(row, chunk, view, scratch, tail=tail, ulps=plan.ulps)
                else:
                    fill_row(row, chunk, view, scratch, tail=tail, ulps=plan.ulps)
                _look(row, chunk, view, places)
        return places

    workers = max(1, min(threads, count))
    parts = [range(count * worker // workers, count * (worker + 1) // workers) for worker in range(workers)]
    with one_thread(), np.errstate(all="ignore"):
        found = _each(work, parts)
        bad = rows[:, [Column.BAD_REFERENCE, Column.BAD_CANDIDATE]].any()
        percentile = tail.percentile_99() if tail is not None and not bad else None
        if tail is not None and percentile is None and not bad:
            percentile = _second_try(view)
    first, *others = found
    merged = Places(*(first.best_of(name, others) for name in Places.__dataclass_fields__))
    return Totals(size=view.size, sums=_added(rows), places=merged, percentile_99=percentile)


def _each(work: Any, parts: list[range]) -> list[Places]:
    if len(parts) == 1:
        return [work(parts[0])]
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(work, parts))


def _added(rows: NDArray[np.float64]) -> dict[Column, float]:
    added = {}
    for column in Column:
        values = rows[:, column]
        finite = np.isfinite(values).all()
        added[column] = float(values.max()) if column.is_maximum else math.fsum(values) if finite else math.nan
    return added


def _second_try(view: View) -> float | None:
    tail = Tail(view.size)
    scratch = Scratch(NUMPY_CHUNK)
    row = np.zeros(len(Column))
    for chunk in view.chunks(NUMPY_CHUNK):
        fill_row(row, chunk, view, scratch, tail=tail, ulps=False)
    return tail.percentile_99()


def _look(row: NDArray[np.float64], chunk: Chunk, view: View, places: Places) -> None:
    """Count what is not finite or too large, and remember places, in the few chunks where there is something to see."""
    # A NaN or an infinity is in one of the squares; so is a finite float64 whose square is beyond the range.
    if view.format.kind == "float" and not math.isfinite(row[Column.RR] + row[Column.EE]):
        _count_non_finite(row, chunk, view, places)
    if view.format.may_exceed_float64:
        for side in (chunk.reference, chunk.candidate):
            row[Column.INEXACT] += np.count_nonzero(side > EXACT_INTEGER)
            if side.dtype.kind == "i":
                row[Column.INEXACT] += np.count_nonzero(side < -EXACT_INTEGER)
    if row[Column.MISMATCHES] and len(places.mismatches) < PLACES:
        reference, candidate = view.wide(chunk.reference), view.wide(chunk.candidate)
        _remember(places.mismatches, np.flatnonzero(reference != candidate), chunk, view)
    if row[Column.MAX_ERROR] > _cutoff(places):
        _remember_worst(places, chunk, view)


def _count_non_finite(row: NDArray[np.float64], chunk: Chunk, view: View, places: Places) -> None:
    for side, column, known in (
        (chunk.reference, Column.BAD_REFERENCE, places.bad_reference),
        (chunk.candidate, Column.BAD_CANDIDATE, places.bad_candidate),
    ):
        wide = view.wide(side)
        bad = np.flatnonzero(~np.isfinite(wide))
        row[column] = bad.size
        row[column.nan] = np.count_nonzero(np.isnan(wide[bad]))
        _remember(known, bad, chunk, view)


def _place(offset: int, rank: float, chunk: Chunk, view: View) -> Place:
    here = slice(offset, offset + 1)
    values = (view.wide(side[here])[0].item() for side in (chunk.reference, chunk.candidate))
    return Place(rank, chunk.position(offset), *values)


def _remember(known: list[Place], offsets: Array, chunk: Chunk, view: View) -> None:
    known.extend(_place(int(offset), 0.0, chunk, view) for offset in offsets[: PLACES - len(known)])


def _remember_worst(places: Places, chunk: Chunk, view: View) -> None:
    reference, candidate = view.wide(chunk.reference), view.wide(chunk.candidate)
    errors: Array = np.abs(np.subtract(candidate, reference, dtype=np.float64))
    offsets = np.flatnonzero(errors > _cutoff(places))
    if offsets.size > PLACES:
        errors = errors[offsets]
        limit = np.partition(errors, -PLACES)[-PLACES]
        # The places above the limit are fewer than ten; of those on it, the first ones.
        above, on = offsets[errors > limit], offsets[errors == limit]
        offsets = np.concatenate([above, on[:PLACES]])
    for offset in offsets:
        place = _place(int(offset), 0.0, chunk, view)
        error = abs(float(place.candidate) - float(place.reference))
        places.worst.append(Place(-error, place.position, place.reference, place.candidate))
    places.worst = sorted(places.worst)[:PLACES]


def _cutoff(places: Places) -> float:
    """What an error must exceed to be among the worst so far."""
    return -places.worst[-1].rank if len(places.worst) == PLACES else 0.0
