"""Video metrics: pairs of frames in, one number for each frame or transition out. Not for files, suites or bounds.

Frames stream: a pair is measured and forgotten, so memory does not grow with the clip but for the numbers themselves.
Nothing is trimmed: clips of different length have no values at all.
"""

from __future__ import annotations

import collections
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from paritygate.errors import MetricError
from paritygate.metrics import image
from paritygate.metrics.pixels import Array, check_mode, check_pair
from paritygate.metrics.specs.image import IMAGE
from paritygate.metrics.specs.migration import MIGRATION
from paritygate.metrics.specs.perceptual import PERCEPTUAL
from paritygate.metrics.specs.video import VIDEO
from paritygate.metrics.values import Value, refused

Pair = tuple[Array, Array]
_Measure = Callable[..., dict[str, Value]]

# Module of ``metrics`` -> its names; what is measured on each frame by itself.
_BY_FRAME = {
    "image": frozenset(spec.name for spec in IMAGE),
    "migration": frozenset(spec.name for spec in MIGRATION),
    "perceptual": frozenset(spec.name for spec in PERCEPTUAL),
}
_BY_TRANSITION = frozenset(spec.name for spec in VIDEO)
# dtype of frames -> what holds a difference of two differences exactly, and what holds the sum of one strip of them.
_WIDER = {
    "uint8": (np.int16, np.int32),
    "uint16": (np.int32, np.int64),
    "float32": (np.float64, np.float64),
    "float64": (np.float64, np.float64),
}
_STRIP = 1 << 16  # elements whose intermediate arrays stay in the cache


def pairs(reference: Iterable[Array], candidate: Iterable[Array]) -> Iterator[Pair]:
    """Frames of two clips side by side, to the end of both.

    Args:
        reference: frames in order.
        candidate: frames in order.

    Raises:
        MetricError: after the last common frame, when one clip goes on. The longer one is read to its end, so that
            the message names both counts.
    """
    sides = (iter(reference), iter(candidate))
    count = 0
    while True:
        frames = (next(sides[0], None), next(sides[1], None))
        if frames[0] is None or frames[1] is None:
            break
        yield frames[0], frames[1]
        count += 1
        del frames  # not held while the next ones are decoded
    left = [(frame is not None) + sum(1 for _ in side) for frame, side in zip(frames, sides, strict=True)]
    if left[0] != left[1]:
        raise MetricError(
            f"frame counts differ: the reference has {count + left[0]} frames, the candidate {count + left[1]} "
            "(counted by decoding both to the end)"
        )


def measure(
    names: Iterable[str], frame_pairs: Iterable[Pair], *, data_range: float, mode: str, threads: int = 1
) -> dict[str, tuple[Value, ...]]:
    """Every named metric of every pair of frames, in order.

    Args:
        names: of ``specs.image``, ``specs.migration``, ``specs.perceptual`` and ``specs.video``.
        frame_pairs: frames ``(height, width, channels)`` of reference and candidate, from ``pairs``; taken one by
            one in the calling thread.
        data_range: as in ``image.measure``.
        mode: as in ``image.measure``.
        threads: threads that compute, beside the calling one that takes the pairs; 1 computes in the calling one.

    Returns:
        name -> one value for each frame, from frame ``first_frame(name)`` on. Values of transitions name the later
        frame in their detail; a clip of one frame has one refused value for each of them.

    Raises:
        MetricError: for no frames, an unknown name, and frames that do not fit, which are named by index; whatever
            ``frame_pairs`` raises passes through. There are then no values at all.
    """
    wanted = tuple(dict.fromkeys(names))
    job = functools.partial(_frame, _by_module(wanted), data_range=data_range, mode=mode)
    found: dict[str, list[Value]] = {name: [] for name in wanted}
    frames = 0
    for values in _in_order(job, _with_previous(frame_pairs), threads=threads):
        frames += 1
        for name, value in values.items():
            found[name].append(value)
    if not frames:
        raise MetricError("there are no frames to measure")
    one = refused("a clip of one frame has no transition")
    return {name: tuple(values) or (one,) for name, values in found.items()}


def first_frame(name: str) -> int:
    """The index of the frame that the first value of this metric belongs to: 1 for a metric of transitions."""
    return int(name in _BY_TRANSITION)


def default_names(mode: str) -> tuple[str, ...]:
    """What is measured on a clip when nobody asks for other names, sorted."""
    return tuple(sorted((*image.default_names(mode), *(spec.name for spec in VIDEO if spec.default))))


def temporal_error(before: Pair, after: Pair, *, data_range: float) -> float:
    """Mean |change of the candidate - change of the reference| from one frame to the next, share of the data range.

    In [0, 2]; 0.0 when both change alike, whatever the constant error. Integers are exact.

    Args:
        before: reference and candidate at frame i - 1.
        after: reference and candidate at frame i, of the same shape and dtype.
        data_range: as in ``image.measure``.

    Raises:
        MetricError: when the frames do not fit each other, or hold values outside the range or not finite.
    """
    for pair in (before, after, (before[0], after[0])):
        check_pair(*pair, data_range=data_range)
    work, total_type = _WIDER[after[0].dtype.name]
    flat = [np.ascontiguousarray(frame).reshape(-1) for frame in (*after, *before)]
    ours, theirs = np.empty((2, min(_STRIP, flat[0].size)), work)
    total = 0.0
    for start in range(0, flat[0].size, _STRIP):
        reference, candidate, reference_before, candidate_before = (side[start : start + _STRIP] for side in flat)
        change, other = ours[: reference.size], theirs[: reference.size]
        np.subtract(candidate, candidate_before, out=change, dtype=work)
        np.subtract(reference, reference_before, out=other, dtype=work)
        np.subtract(change, other, out=change)
        np.abs(change, out=change)
        total += float(change.sum(dtype=total_type))
    return total / flat[0].size / data_range


def _by_module(wanted: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Which module measures which names, without those that nobody wants."""
    tables = {**_BY_FRAME, "video": _BY_TRANSITION}
    unknown = [name for name in wanted if not any(name in names for names in tables.values())]
    if unknown:
        raise MetricError(f"no video metric has the name {', '.join(unknown)}")
    chosen = {module: tuple(name for name in wanted if name in names) for module, names in tables.items()}
    return tuple((module, some) for module, some in chosen.items() if some)


def _frame(
    chosen: tuple[tuple[str, tuple[str, ...]], ...],
    item: tuple[int, Pair | None, Pair],
    *,
    data_range: float,
    mode: str,
) -> dict[str, Value]:
    """All values of one frame, and of the transition to it."""
    index, before, pair = item
    values: dict[str, Value] = {}
    try:
        check_pair(*pair, data_range=data_range)
        check_mode(pair[0], mode=mode)
        for module, names in chosen:
            if module != "video":
                measure_pair: _Measure = importlib.import_module(f"paritygate.metrics.{module}").measure
                values |= measure_pair(names, *pair, data_range=data_range, mode=mode)
            elif before is not None:
                number = temporal_error(before, pair, data_range=data_range)
                values |= {name: Value(number, {"frame": index}) for name in names}
    except MetricError as error:
        raise MetricError(f"frame {index}: {error.message}", hint=error.hint) from error
    return values


def _with_previous(frame_pairs: Iterable[Pair]) -> Iterator[tuple[int, Pair | None, Pair]]:
    before: Pair | None = None
    for index, pair in enumerate(frame_pairs):
        yield index, before, pair
        before = pair


def _in_order(
    job: Callable[[tuple[int, Pair | None, Pair]], dict[str, Value]],
    items: Iterable[tuple[int, Pair | None, Pair]],
    *,
    threads: int,
) -> Iterator[dict[str, Value]]:
    """The results in the order of the items; only a few items are taken ahead of the oldest unfinished one."""
    if threads < 1:
        raise MetricError(f"{threads} threads cannot measure, expected at least 1")
    if threads == 1:
        yield from map(job, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="paritygate-video") as pool:
        waiting: collections.deque[Future[dict[str, Value]]] = collections.deque()
        try:
            for item in items:
                waiting.append(pool.submit(job, item))
                del item
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
