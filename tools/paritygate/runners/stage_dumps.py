"""Stage dumps beside imported outputs: ``stages/index.json`` and the files of values that it lists."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
import numpy as np

from paritygate.errors import ArtifactError, MediaError
from paritygate.manifest.case import Item
from paritygate.media.paths import contained, read_contained
from paritygate.media.tensors import RAW_BITS, UNNAMED, Tensor, read_tensors
from paritygate.records.codec import loads
from paritygate.records.model import EFFECTIVE_NAME, Effective, Real
from paritygate.runners.effective import MAX_STEPS
from paritygate.runners.writer import latents_digest

STAGES_FOLDER = "stages"
INDEX_NAME = "index.json"
_ENDINGS = (".bin", ".npy", ".safetensors")
_MAX_TOKENS = 1 << 20

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Length = Annotated[int, msgspec.Meta(ge=1)]


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One dump: values of a named stage of one request (``item``; a suite of one needs none), at one step or at all.

    ``file`` lies below ``stages/``; in a ``.safetensors`` file the values are those named like the stage, or the only
    ones. ``.bin`` holds them raw, little-endian, in C order.
    """

    name: _Name
    file: _Name
    dtype: str
    shape: tuple[_Length, ...]
    item: str | None = None
    step: Annotated[int, msgspec.Meta(ge=0)] | None = None


def read_stages(folder: Path, effective: Effective, *, items: Sequence[Item]) -> Effective:
    """The effective settings, completed by what the dumps show of the exact items; every dump is checked.

    Args:
        folder: the import, verified against its list of digests.
        effective: what ``effective.json`` says.
        items: the suite.

    Raises:
        MediaError: when a dump is not of its listed dtype, shape and size, or contradicts ``effective.json``.
        ValueError: when its values cannot be what its stage is.
    """
    if not os.path.lexists(folder / STAGES_FOLDER):
        return effective
    source = f"{STAGES_FOLDER}/{INDEX_NAME}"
    try:
        stages = loads(read_contained(folder, source), list[Stage], source=source)
    except ArtifactError as error:
        raise MediaError(error.message, kind="format") from error
    seen: set[tuple[str, str | None, int | None]] = set()
    for stage in stages:
        label = f"{source}: {stage.name!r}"
        if (key := (stage.name, stage.item, stage.step)) in seen:
            raise MediaError(f"{label} is listed twice for one item and step", kind="format")
        seen.add(key)
        tensor = _tensor(folder, stage, label)
        if stage.name in _OF_ITEM:
            effective = _OF_ITEM[stage.name](effective, tensor, _item(stage, items, label))
        elif stage.name in _OF_SCHEDULE:
            effective = _OF_SCHEDULE[stage.name](effective, tensor)
    listed = sorted({stage.name for stage in stages})
    return msgspec.structs.replace(effective, environment={**effective.environment, "stages": listed})


def _tensor(folder: Path, stage: Stage, label: str) -> Tensor:
    """The values of one dump, mapped."""
    ending = PurePosixPath(stage.file).suffix
    if ending not in _ENDINGS:
        raise MediaError(f"{label}: {stage.file!r} ends in none of {', '.join(_ENDINGS)}", kind="format")
    path = contained(folder / STAGES_FOLDER, stage.file)
    if ending == ".safetensors":
        tensors = read_tensors(path)
        tensor = tensors.get(stage.name) or (next(iter(tensors.values())) if len(tensors) == 1 else None)
        if tensor is None:
            raise MediaError(f"{label}: {stage.file} holds {len(tensors)} tensors, none of that name", kind="format")
    else:
        shape = stage.shape if ending == ".bin" else None
        tensor = read_tensors(path, dtype=stage.dtype, shape=shape)[UNNAMED]
    if (tensor.dtype, tensor.shape) != (stage.dtype, stage.shape):
        found = f"{tensor.dtype} {list(tensor.shape)}"
        raise MediaError(
            f"{label}: {stage.file} holds {found}, listed is {stage.dtype} {list(stage.shape)}", kind="size"
        )
    return tensor


def _item(stage: Stage, items: Sequence[Item], label: str) -> str:
    """The request that a dump belongs to."""
    ids = [item.id for item in items]
    if stage.item is None and len(ids) == 1:
        return ids[0]
    if stage.item not in ids:
        what = f"the item {stage.item!r}" if stage.item else "no item"
        raise MediaError(f"{label} names {what}, the suite has {', '.join(ids[:5])}", kind="format")
    return stage.item


def _token_ids(effective: Effective, tensor: Tensor, item: str) -> Effective:
    if tensor.array.dtype.kind not in "iu" or tensor.array.ndim > 2 or tensor.array.size > _MAX_TOKENS:
        raise ValueError(f"stage token_ids is {tensor.dtype} {tensor.shape}; expected integers (prompts, tokens)")
    rows = np.atleast_2d(tensor.array).tolist()
    _agree(effective.token_ids.get(item), rows, f"token_ids of item {item}")
    return msgspec.structs.replace(effective, token_ids={**effective.token_ids, item: rows})


def _initial_latents(effective: Effective, tensor: Tensor, item: str) -> Effective:
    digest = latents_digest(tensor.array)
    _agree(effective.initial_latents.get(item), digest, f"initial_latents of item {item}")
    return msgspec.structs.replace(effective, initial_latents={**effective.initial_latents, item: digest})


def _timesteps(effective: Effective, tensor: Tensor) -> Effective:
    steps = [int(step) if float(step).is_integer() else step for step in _numbers("timesteps", tensor)]
    _agree(effective.timesteps, steps, "timesteps")
    return msgspec.structs.replace(effective, timesteps=steps)


def _sigmas(effective: Effective, tensor: Tensor) -> Effective:
    sigmas = [Real(sigma) for sigma in _numbers("sigmas", tensor)]
    _agree(effective.sigmas, sigmas, "sigmas")
    return msgspec.structs.replace(effective, sigmas=sigmas)


def _numbers(name: str, tensor: Tensor) -> list[Any]:
    array = tensor.array
    is_number = array.dtype.kind in "iuf" and tensor.dtype not in RAW_BITS
    if not is_number or array.ndim != 1 or array.size > MAX_STEPS or not np.isfinite(array).all():
        text = f"expected one axis of at most {MAX_STEPS} finite numbers"
        raise ValueError(f"stage {name} is {tensor.dtype} {tensor.shape}; {text}")
    numbers: list[Any] = array.tolist()
    return numbers


def _agree(stated: object, dumped: object, what: str) -> None:
    if stated not in (None, dumped):
        raise MediaError(f"{STAGES_FOLDER}/ and {EFFECTIVE_NAME} contradict each other about {what}", kind="format")


#: The exact items that differ between requests, and those of which a run has one.
_OF_ITEM: Mapping[str, Callable[[Effective, Tensor, str], Effective]] = MappingProxyType(
    {"initial_latents": _initial_latents, "token_ids": _token_ids}
)
_OF_SCHEDULE: Mapping[str, Callable[[Effective, Tensor], Effective]] = MappingProxyType(
    {"sigmas": _sigmas, "timesteps": _timesteps}
)
