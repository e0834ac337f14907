"""One pair of sets of named tensors of a request: the same names, dtypes and shapes, then the metrics on each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.compare.checklist import listing
from paritygate.compare.measure import Values, wanted_metrics
from paritygate.compare.place import Place, Refused, Side, verified_file
from paritygate.errors import MetricError
from paritygate.manifest.case import Measurement
from paritygate.media.tensors import Tensor, read_tensors
from paritygate.metrics import tensor
from paritygate.metrics.values import Value, refused
from paritygate.metrics.widen import FLOATS, widened
from paritygate.records.model import Finding

#: Tensors are looked through in pieces of so many elements.
_PIECE = 1 << 20


def compare_tensors(
    place: Place, measurements: tuple[Measurement, ...], into: Values | None
) -> tuple[list[Finding], bool]:
    """Findings about one pair of sets of tensors, and whether all their values are equal, bit by bit.

    Args:
        place: which pair.
        measurements: what the case measures.
        into: where the numbers go, keyed ``<item>/<index>/<tensor name>``; None to check only.
    """
    sides, findings = place.load(lambda side: _load(side, place))
    if findings:
        return findings, False
    reference, candidate = sides
    try:
        _check_same(reference, candidate, place.item)
    except Refused as refusal:
        return [place.finding(refusal)], False
    equal = True
    for name, left in reference.items():
        right = candidate[name]
        equal = equal and _bits_equal(left.array, right.array)
        if into is not None:
            names = wanted_metrics(measurements, ("tensor",)).get("stored", ())
            into.add(f"{place.key}/{name}", _measured(names, left, right))
    return [], equal


def _measured(names: tuple[str, ...], reference: Tensor, candidate: Tensor) -> dict[str, Value]:
    """The metrics that are defined for this dtype; when none is, the reason for each: no tensor goes unmeasured."""
    dtype = reference.dtype
    defined = tuple(name for name in names if tensor.is_defined(name, reference.array, dtype=dtype)) or names
    try:
        return tensor.measure(defined, reference.array, candidate.array, dtype=dtype)
    except MetricError as error:
        return dict.fromkeys(defined, refused(error.message))


def _load(side: Side, place: Place) -> dict[str, Tensor]:
    media = side.media("tensors", place.index)
    tensors = read_tensors(verified_file(side, media, place.output))
    for entry in tensors.values():
        if count := _non_finite(entry):
            raise Refused("non-finite", f"tensor {entry.name!r:.80} holds {count} NaN or infinite values")
    if not any(_any_bit(entry.array) for entry in tensors.values()):
        raise Refused("degenerate", f"every value of every tensor in {media.path} is 0")
    return tensors


def _check_same(reference: dict[str, Tensor], candidate: dict[str, Tensor], item: str) -> None:
    """Refuse sets of tensors that differ in names, dtypes or shapes: nothing is broadcast or converted."""
    for leg, lacking in (
        ("candidate", reference.keys() - candidate.keys()),
        ("reference", candidate.keys() - reference.keys()),
    ):
        if lacking:
            raise Refused("tensor-names", f"item {item}: the {leg} leg lacks {listing(sorted(lacking))}")
    for name, left in reference.items():
        right = candidate[name]
        for what, pair in (("dtype", (left.dtype, right.dtype)), ("shape", (left.shape, right.shape))):
            if pair[0] != pair[1]:
                found = f"the reference has {what} {pair[0]}, the candidate {pair[1]}"
                raise Refused(f"tensor-{what}", f"item {item}, tensor {name!r:.80}: {found}")


def _non_finite(entry: Tensor) -> int:
    if entry.dtype not in FLOATS:
        return 0
    return sum(int((~np.isfinite(widened(piece, entry.dtype))).sum()) for piece in _pieces(entry.array))


def _any_bit(array: NDArray[Any]) -> bool:
    return any(bool(piece.any()) for piece in _pieces(array))


def _bits_equal(reference: NDArray[Any], candidate: NDArray[Any]) -> bool:
    pairs = zip(_pieces(reference), _pieces(candidate), strict=True)
    return all(left.tobytes() == right.tobytes() for left, right in pairs)


def _pieces(array: NDArray[Any]) -> list[NDArray[Any]]:
    flat = array.reshape(-1)
    return [flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE)]
