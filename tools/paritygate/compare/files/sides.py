"""Both sides of a pair: described, and refused when they are not of one structure."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.compare.aggregate import aggregate, worst_index
from paritygate.compare.clips import FPS_TOLERANCE
from paritygate.compare.files.declared import Declared
from paritygate.compare.files.result import Series, Side
from paritygate.compare.pixels import degenerate
from paritygate.compare.place import Refused
from paritygate.errors import MediaError
from paritygate.media.levels import to_stored
from paritygate.metrics.specs import SPECS
from paritygate.metrics.values import Value
from paritygate.records.canonical import sha256_file
from paritygate.records.model import Real


@contextlib.contextmanager
def named(side: str) -> Iterator[None]:
    """Let what is refused inside say which side it is about.

    Raises:
        Refused: for every refusal inside.
    """
    try:
        yield
    except MediaError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise Refused(error.kind, f"the {side}: {error.message}{hint}") from error
    except Refused as error:
        raise Refused(error.code, f"the {side}: {error.message}") from error


def describe(path: Path, structure: Mapping[str, Any], *, representation: str, **more: Any) -> Side:
    """The facts of one side, with the digest of its file.

    Raises:
        MediaError: when it cannot be read.
    """
    try:
        is_folder = path.is_dir()
        size = sum(entry.stat().st_size for entry in path.iterdir()) if is_folder else path.stat().st_size
        digest = "" if is_folder else sha256_file(path)
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error
    return Side(
        path=str(path), bytes=size, sha256=digest, structure=dict(structure), representation=representation, **more
    )


def check_same(reference: Side, candidate: Side, declared: Declared) -> list[str]:
    """Notes about a pair whose sides may be compared.

    Raises:
        Refused: naming every fact of the structure that differs, with both values; and for different representations
            that nobody declared.
    """
    found = [
        f"{name}: the reference has {value}, the candidate {candidate.structure.get(name)}"
        for name, value in reference.structure.items()
        if not _equal(name, value, candidate.structure.get(name))
    ]
    if found:
        raise Refused("structure", "; ".join(found) + "; nothing is resized, cut, converted or resampled")
    notes = []
    if reference.representation != candidate.representation:
        both = f"the reference is {reference.representation}, the candidate {candidate.representation}"
        if declared.across is None:
            raise Refused(
                "representation",
                f"{both}: the difference would count as an error of the candidate "
                "(--across-representations REASON declares that this is meant)",
            )
        notes.append(f"{both}; declared: {declared.across}")
    elif reference.is_lossy:
        notes.append(f"both sides are lossy ({reference.representation}): what that costs is part of every number")
    notes += [f"both sides: {note}" for note in reference.notes if note in candidate.notes]
    for side, own, other in (("reference", reference, candidate), ("candidate", candidate, reference)):
        notes += [f"{side}: {note}" for note in own.notes if note not in other.notes]
    return notes


def without_picture(pixels: NDArray[Any], *, data_range: float) -> str:
    """Why an image shows nothing (all black, constant, nearly constant); empty when it does, or is not finite."""
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        return ""
    stored = pixels if pixels.dtype == np.uint8 else to_stored((pixels / data_range).astype(np.float32))
    return degenerate(stored)


def series(name: str, values: Mapping[str, Value]) -> Series:
    """One metric with all its values, and what people ask of many."""
    spec = SPECS[name]
    keys, numbers = list(values), [value.number for value in values.values()]
    worst = worst_index(numbers, direction=spec.direction)

    def of(how: str) -> Real:
        return Real(aggregate(numbers, how, direction=spec.direction))

    return Series(
        metric=name,
        version=spec.version,
        unit=spec.unit,
        direction=spec.direction,
        worst=Real(numbers[worst]),
        worst_key=keys[worst],
        mean=of("mean"),
        typical=of("median"),
        p01=of("p01"),
        p99=of("p99"),
        values={key: Real(value.number) for key, value in values.items()},
        detail=dict(values[keys[worst]].detail),
        problems={key: value.problem or "not a number" for key, value in values.items() if math.isnan(value.number)},
    )


def _equal(name: str, reference: Any, candidate: Any) -> bool:
    if name != "fps":
        return bool(reference == candidate)
    # What states no rate (a folder, an array) is told apart by its representation.
    if reference is None or candidate is None:
        return True
    return bool(abs(reference - candidate) <= FPS_TOLERANCE * reference)
