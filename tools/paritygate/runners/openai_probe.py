"""Effect probe: another value of a request key must change the output by more than a repetition does."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paritygate.errors import LegError, MediaError
from paritygate.manifest.case import Item
from paritygate.media.video import open_video
from paritygate.records.canonical import sha256_file
from paritygate.runners.job import Job, Writer
from paritygate.runners.openai_answers import Pixels
from paritygate.runners.openai_client import StatusError
from paritygate.runners.openai_requests import Plan, is_sent

#: What a request gave: its images, or its clip.
Result = list[Pixels] | Path

#: Probed where the request has them, when the leg does not say.
_DEFAULT = ("seed", "negative_prompt", "guidance_scale", "true_cfg_scale")
#: Request keys that lie between 0 and 1.
_SHARES = ("boundary_ratio", "eta", "guidance_rescale", "strength")
#: Request key -> the least step to another valid value, where it is not 1.
_STEPS: Mapping[str, float] = {"guidance_scale": 2, "height": 64, "num_frames": 4, "true_cfg_scale": 2, "width": 64}
#: A repetition that differs is noise, and noise that is drawn once more may well be a little larger.
_NOISE_FACTOR = 2
_LARGEST_SEED = 2**31 - 1
_OTHER_TEXT = "a red square on a white wall"


def fields(job: Job, found: Plan) -> tuple[str, ...]:
    """The request keys to probe.

    Raises:
        LegError: for a declared one that the first request does not send, or that has no other value.
    """
    request = job.items[0].request
    has = {key for key, value in request.items() if value is not None and is_sent(found, key, request)}
    declared = job.spec.get("probe")
    chosen = tuple(key for key in _DEFAULT if key in has) if declared is None else tuple(declared)
    for key in chosen:
        if key not in has:
            raise LegError(
                f"probe names {key!r}, which the request of item {job.items[0].id} does not send", kind="crash"
            )
        other(key, request[key])
    return chosen


def other(key: str, value: Any) -> Any:
    """Another valid value of a request key.

    Raises:
        LegError: for a list or a mapping.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return _OTHER_TEXT if key.startswith("negative_prompt") else f"{_OTHER_TEXT}, {value}"
    if not isinstance(value, (int, float)):
        raise LegError(f"probe names {key!r}, of which no other value is known", kind="crash")
    if key in _SHARES:
        return value / 2 or 0.5
    if key == "seed" and value >= _LARGEST_SEED:
        return value - 1
    return value + _STEPS.get(key, 1)


def probe(
    item: Item,
    first: Result,
    chosen: tuple[str, ...],
    again: Callable[[Mapping[str, Any], str], Result],
    writer: Writer,
) -> None:
    """Report for every chosen key whether another value of it changes the output of an item.

    Args:
        item: the one whose output is ``first``.
        first: what the item gave in the suite.
        chosen: as ``fields`` gives them; none for no probe.
        again: asks for a changed request, under an id of its own.
        writer: ``effect`` is called once for every key.

    Raises:
        LegError: when the server breaks. A request that it refuses shows no effect, and says why.
    """
    if not chosen:
        return
    try:
        noise, repeated = distance(first, again(item.request, f"{item.id}-repeat"))
    except StatusError as error:
        for key in chosen:
            writer.effect(key, exercised=False, detail=f"the repetition was refused: {error.message}")
        return
    for key in chosen:
        value = other(key, item.request[key])
        step = f"{_shown(item.request[key])} -> {_shown(value)}"
        try:
            change, changed = distance(first, again({**item.request, key: value}, f"{item.id}-probe-{key}"))
        except StatusError as error:
            writer.effect(key, exercised=False, detail=f"{step} was refused: {error.message}")
            continue
        detail = f"{step} changes {changed}; a repetition changes {repeated}"
        writer.effect(key, exercised=change > _NOISE_FACTOR * noise, detail=detail)


def distance(first: Result, second: Result) -> tuple[float, str]:
    """How far two results are apart, in levels of 255, and in words what of the first one changes.

    Infinity when they differ in size or number; files that cannot be decoded here differ by that or not at all.
    """
    if isinstance(first, Path) and isinstance(second, Path):
        try:
            return _said(_clips(first, second), "frames")
        except (MediaError, ModuleNotFoundError):
            same = sha256_file(first) == sha256_file(second)
            return (0.0, "no byte of the file") if same else (math.inf, "bytes of the file, which cannot be decoded")
    assert isinstance(first, list)
    assert isinstance(second, list)
    if len(first) != len(second):
        return _said(math.inf, "images")
    return _said(max(itertools.starmap(_levels, zip(first, second, strict=True))), "pixels")


def _clips(first: Path, second: Path) -> float:
    largest = 0.0
    with open_video(first) as one, open_video(second) as two:
        for left, right in itertools.zip_longest(one, two):
            if left is None or right is None:
                return math.inf
            largest = max(largest, _levels(left, right))
    return largest


def _levels(left: Any, right: Any) -> float:
    if left.shape != right.shape or left.dtype != right.dtype:
        return math.inf
    scale = 1 if left.dtype == np.uint8 else 255
    return float(np.abs(left.astype(np.float32) - right.astype(np.float32)).max()) * scale


def _said(levels: float, what: str) -> tuple[float, str]:
    return levels, f"{what} in size or number" if levels == math.inf else f"{what} by up to {levels:g} levels"


def _shown(value: Any) -> str:
    return repr(f"{value[:39]}…" if isinstance(value, str) and len(value) > 40 else value)
