"""One pair of sounds, or of files of named tensors: held to one structure, measured whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paritygate.compare.checklist import counted, listing
from paritygate.compare.files.declared import Declared
from paritygate.compare.files.pairing import Pair
from paritygate.compare.files.result import Part, Side
from paritygate.compare.files.sides import check_same, describe, named, series
from paritygate.compare.place import Refused
from paritygate.errors import MetricError
from paritygate.media.tensors import Tensor, read_tensors
from paritygate.metrics import tensor
from paritygate.metrics.specs import default_metrics
from paritygate.metrics.values import Value

#: Always looked at on tensors, whatever is asked for: what decides whether there is anything to compare.
_ALWAYS = ("mismatch_count", "non_finite_candidate", "non_finite_reference")
_PIECE = 1 << 20


def compare_sounds(pair: Pair, declared: Declared) -> tuple[Part, list[str]]:
    """The sound of two files, measured, and notes on it.

    Raises:
        Refused: when a side cannot be read, is not finite or silent, and when the two are not of one structure.
    """
    from paritygate.compare.sounds import SILENT_SPAN  # noqa: PLC0415 - sound needs more than pictures do
    from paritygate.media.audio import read_audio  # noqa: PLC0415
    from paritygate.metrics import audio  # noqa: PLC0415

    sides: list[Side] = []
    sounds = []
    for name, path in (("reference", pair.reference), ("candidate", pair.candidate)):
        with named(name):
            sound = read_audio(path)
            structure = {
                "sample_rate_hz": sound.sample_rate_hz,
                "channels": sound.channels,
                "samples": len(sound.samples),
            }
            sides.append(describe(path, structure, representation=sound.sample_format, notes=sound.notes))
            finite = np.isfinite(sound.samples)
            if not finite.all():
                first = tuple(int(index) for index in np.argwhere(~finite)[0])
                raise Refused("non-finite", f"{int((~finite).sum())} values are not finite, the first at {first}")
            if float(np.max(np.ptp(sound.samples, axis=0))) < SILENT_SPAN:
                raise Refused("degenerate", "silent: no channel spans one step of 16 bits")
            sounds.append(sound)
    notes = check_same(sides[0], sides[1], declared)
    names = declared.names(default_metrics("audio"), kind="audio")
    left, right = (sound.samples for sound in sounds)
    try:
        found = audio.measure(names, left, right, sample_rate_hz=sounds[0].sample_rate_hz)
    except MetricError as error:
        raise Refused("not-measured", error.message) from error
    return Part(
        name=pair.name,
        kind="audio",
        keys="",
        reference=sides[0],
        candidate=sides[1],
        is_identical=bool(np.array_equal(left, right)),
        series=tuple(series(name, {"": value}) for name, value in found.items()),
    ), notes


def compare_tensors(pair: Pair, declared: Declared) -> tuple[Part, list[str], list[Refused]]:
    """Two files of tensors, measured name by name, notes on them, and what could not be compared of them.

    Raises:
        Refused: when a side cannot be read, holds nothing but zeros, or no tensor can be compared.
    """
    sides: list[Side] = []
    files: list[dict[str, Tensor]] = []
    for name, path in (("reference", pair.reference), ("candidate", pair.candidate)):
        with named(name):
            tensors = read_tensors(path, dtype=declared.dtype, shape=declared.shape)
            if not any(_any_bit(entry) for entry in tensors.values()):
                raise Refused("degenerate", "every value of every tensor is 0")
            sides.append(_described(path, tensors))
            files.append(tensors)
    refusals = _unequal(*files)
    values: dict[str, dict[str, Value]] = {}
    measured = 0
    for index, (key, left) in enumerate(files[0].items(), start=1):
        declared.watch(pair.name, index, len(files[0]))
        right = files[1].get(key)
        if right is None or (left.dtype, left.shape) != (right.dtype, right.shape):
            continue
        found = _one(left, right, declared)
        measured += 1
        refusals += _non_finite(key, found)
        for metric, value in found.items():
            values.setdefault(metric, {})[key if len(files[0]) > 1 else ""] = value
    if not measured:
        raise Refused("structure", "; ".join(refusal.message for refusal in refusals))
    wanted = set(declared.names(default_metrics("tensor"), kind="tensor"))
    identical = not refusals and all(value.number == 0 for value in values["mismatch_count"].values())
    return (
        Part(
            name=pair.name,
            kind="tensor",
            keys="tensor",
            reference=sides[0],
            candidate=sides[1],
            is_identical=identical,
            series=tuple(series(name, values[name]) for name in sorted(values.keys() & wanted)),
        ),
        [],
        refusals,
    )


def _one(left: Tensor, right: Tensor, declared: Declared) -> dict[str, Value]:
    wanted = declared.names(default_metrics("tensor"), kind="tensor")
    asked = [name for name in wanted if tensor.is_defined(name, left.array, dtype=left.dtype)]
    # A tensor for which nothing that was asked for is defined must say so, not vanish.
    always = [name for name in _ALWAYS if tensor.is_defined(name, left.array, dtype=left.dtype)]
    names = dict.fromkeys((*(asked or wanted), *always))
    try:
        return tensor.measure(names, left.array, right.array, dtype=left.dtype, threads=declared.threads)
    except MetricError as error:
        raise Refused("not-measured", f"tensor {left.name!r:.80}: {error.message}") from error


def _unequal(reference: dict[str, Tensor], candidate: dict[str, Tensor]) -> list[Refused]:
    found = []
    for side, names in (("candidate", reference.keys() - candidate), ("reference", candidate.keys() - reference)):
        if names:
            found.append(
                Refused("tensor-names", f"the {side} lacks {counted(len(names), 'tensor')}: {listing(sorted(names))}")
            )
    for name in reference.keys() & candidate.keys():
        for what in ("dtype", "shape"):
            pair = [getattr(side[name], what) for side in (reference, candidate)]
            if pair[0] != pair[1]:
                text = f"tensor {name!r:.80}: the reference has {what} {pair[0]}, the candidate {pair[1]}"
                found.append(Refused("structure", f"{text}; nothing is broadcast or converted"))
    return found


def _non_finite(key: str, found: dict[str, Value]) -> list[Refused]:
    refusals = []
    for side in ("reference", "candidate"):
        value = found.get(f"non_finite_{side}")
        if value is not None and value.number > 0:
            places = value.detail.get("first") or value.detail
            message = f"the {side}: tensor {key!r:.80} holds {value.number:g} NaN or infinite values ({places!s:.200})"
            refusals.append(Refused("non-finite", message))
    return refusals


def _described(path: Path, tensors: dict[str, Tensor]) -> Side:
    structure: dict[str, Any] = {
        "tensors": {name: f"{entry.dtype} {list(entry.shape)}" for name, entry in tensors.items()},
        "values": sum(entry.array.size for entry in tensors.values()),
    }
    return describe(path, structure, representation=path.suffix.lower().removeprefix("."))


def _any_bit(entry: Tensor) -> bool:
    flat = entry.array.reshape(-1)
    return any(bool(flat[start : start + _PIECE].any()) for start in range(0, flat.size, _PIECE))
