"""Three files, or three folders, of tensors -> the inputs of a three-way comparison, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paritygate.compare.checklist import counted, listing
from paritygate.compare.files.kinds import kind_of
from paritygate.compare.files.pairing import names_below
from paritygate.errors import MediaError, UsageError
from paritygate.media.tensors import Tensor, read_tensors
from paritygate.metrics.threeway import Triple
from paritygate.metrics.widen import FLOATS
from paritygate.records.model import Finding

LEGS = ("FP32", "LOW", "TARGET")


@dataclass(frozen=True, kw_only=True)
class Threes:
    """Files that belong together, by name, and what does not; ``findings`` are failures."""

    files: dict[str, tuple[Path, Path, Path]]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def match_three(paths: Sequence[Path], *, ignore: Sequence[str] = ()) -> Threes:
    """Three files as one input, or the files of three folders by their path below the folder.

    Args:
        paths: exact reference, low-precision reference, target.
        ignore: patterns of files in folders to leave out.

    Raises:
        UsageError: when one does not exist, or some are folders and some are files.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
    folders = [path.is_dir() for path in paths]
    if not any(folders):
        fp32, low, target = paths
        return Threes(files={target.name: (fp32, low, target)}, findings=(), notes=_same(paths))
    if not all(folders):
        raise UsageError("some of the three are folders and some are files", hint="give three files or three folders")
    findings: list[Finding] = []
    notes: list[str] = []
    names: list[set[str]] = []
    for leg, path in zip(LEGS, paths, strict=True):
        found, left_out = names_below(path, ignore=ignore, findings=findings, side=leg)
        names.append(found)
        notes += [f"{leg}: {counted(len(part), what)} left out: {listing(part)}" for what, part in left_out if part]
    common = set.intersection(*names)
    for leg, present in zip(LEGS, names, strict=True):
        lacking = sorted(set.union(*names) - present)
        findings += [Finding(code="missing", message=f"{leg} has no {name!r}", item=name) for name in lacking]
    if not common and not findings:
        findings.append(Finding(code="nothing-compared", message="there are no files to compare"))
    fp32, low, target = paths
    files = {name: (fp32 / name, low / name, target / name) for name in sorted(common)}
    return Threes(files=files, findings=tuple(findings), notes=(*notes, *_same(paths)))


def read_three(
    threes: Threes, *, dtype: str | None, shape: tuple[int, ...] | None, findings: list[Finding]
) -> Iterator[Triple]:
    """The inputs one after another: one for each tensor name. What cannot be read or differs grows ``findings``.

    Integers and booleans have no precision to lose: they must be equal on all sides, and are no inputs of the rule.
    """
    for name, paths in threes.files.items():
        try:
            files = [_read(leg, path, dtype=dtype, shape=shape) for leg, path in zip(LEGS, paths, strict=True)]
        except MediaError as error:
            findings.append(Finding(code=error.kind, message=error.message, item=name))
            continue
        for leg, tensors in zip(LEGS, files, strict=True):
            lacking = sorted(set().union(*files) - tensors.keys())
            if lacking:
                findings.append(Finding(code="tensor-names", message=f"{leg} lacks {listing(lacking)}", item=name))
        common = [key for key in files[0] if key in files[1] and key in files[2]]
        for key in common:
            legs = [tensors[key] for tensors in files]
            if problem := _unequal(key, legs):
                findings.append(Finding(code="structure", message=problem, item=name))
            if problem or legs[0].dtype not in FLOATS:
                continue
            shown = f"{name}: {key}" if len(files[0]) > 1 else name
            yield Triple(name=shown, reference=legs[0], low=legs[1], target=legs[2])


def _unequal(key: str, legs: list[Tensor]) -> str:
    """Why these are no input of the rule; empty when they are, and for equal integers."""
    shapes = [tensor.shape for tensor in legs]
    if len(set(shapes)) > 1:
        told = ", ".join(f"{leg} {list(shape)}" for leg, shape in zip(LEGS, shapes, strict=True))
        return f"tensor {key!r:.80}: shapes differ: {told}"
    floats = [tensor.dtype in FLOATS for tensor in legs]
    if all(floats):
        return ""
    if any(floats) or len({tensor.dtype for tensor in legs}) > 1:
        told = ", ".join(f"{leg} {tensor.dtype}" for leg, tensor in zip(LEGS, legs, strict=True))
        return f"tensor {key!r:.80}: dtypes do not fit: {told}"
    equal = all(np.array_equal(legs[0].array, tensor.array) for tensor in legs[1:])
    return "" if equal else f"tensor {key!r:.80}: {legs[0].dtype} values differ, and they have no precision to lose"


def _read(leg: str, path: Path, *, dtype: str | None, shape: tuple[int, ...] | None) -> dict[str, Tensor]:
    try:
        # Refuses what is no regular file before a reader waits for it.
        kind_of(path, declared="tensor")
        return read_tensors(path, dtype=dtype, shape=shape)
    except MediaError as error:
        raise MediaError(f"{leg}: {error.message}", kind=error.kind, hint=error.hint) from error


def _same(paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(
        f"{LEGS[i]} and {LEGS[j]} are the same files: their comparison says nothing"
        for i in range(3)
        for j in range(i + 1, 3)
        if paths[i].samefile(paths[j])
    )
