"""Conditioning media of a case -> the arguments that a pipeline takes them by."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from PIL import Image

from paritygate.errors import MediaError
from paritygate.manifest.case import InputMedia
from paritygate.media.audio import read_audio
from paritygate.media.image_files import read_image
from paritygate.runners.diffusers_names import declared_file, refused
from paritygate.runners.diffusers_outputs import sample_rate
from paritygate.runners.job import Job

#: Role of an input -> the arguments that may take it, the first that the pipeline has.
ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": ("audio", "src_audio"),
        "first_frame": ("image",),
        "image": ("image",),
        "last_frame": ("last_image",),
        "mask": ("mask_image",),
        "source": ("image",),
    }
)


def load_inputs(job: Job, pipeline: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The arguments that hold the conditioning media, and what was read from each file.

    Pictures are upright RGB of 8 bits, as ``diffusers.utils.load_image`` gives them, masks are grey; where the output
    is declared RGBA, pictures are RGBA. Several for one argument become a list, in the order of the manifest. Sound is
    ``(1, channels, samples)``.

    Raises:
        LegError: for a role that the pipeline does not take, or a file that is not what the manifest says or cannot
            be handed over without changing it.
    """
    accepted = inspect.signature(type(pipeline).__call__).parameters
    values: dict[str, list[Any]] = {}
    facts = []
    for media in job.inputs:
        argument = next((name for name in ARGUMENTS.get(media.role, ()) if name in accepted), None)
        if argument is None:
            raise _not_taken(media, type(pipeline).__name__, accepted)
        path = declared_file(job, media.path, media.sha256.removeprefix("sha256:"), key="request.inputs")
        try:
            value, notes = _read(path, media.role, pipeline, mode=job.output.mode)
        except MediaError as error:
            raise refused(f"request.inputs: {media.path}: {error}") from error
        values.setdefault(argument, []).append(value)
        facts.append({"role": media.role, "path": media.path, "argument": argument, "notes": notes})
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}, facts


def picture_size(inputs: Mapping[str, Any]) -> tuple[int, int] | None:
    """``(width, height)`` of the first picture that is handed over."""
    given = inputs.get("image")
    first = given[0] if isinstance(given, list) else given
    return first.size if isinstance(first, Image.Image) else None


def _not_taken(media: InputMedia, pipeline: str, accepted: Iterable[str]) -> Exception:
    taken = [role for role, names in ARGUMENTS.items() if any(name in accepted for name in names)]
    what = f"it takes inputs of the role {', '.join(taken)}" if taken else "it takes no inputs"
    return refused(f"{pipeline} takes no input of the role {media.role!r} ({media.path}); {what}")


def _read(path: Path, role: str, pipeline: Any, *, mode: str) -> tuple[Any, list[str]]:
    if role == "audio":
        return _sound(path, pipeline)
    file = read_image(path)
    if file.data_range != 255.0:
        raise refused(f"request.inputs: {path.name} has 16 bits a value; pipelines take 8", hint="convert it")
    image = Image.fromarray(np.squeeze(np.asarray(file.pixels, np.uint8), -1) if file.mode == "L" else file.pixels)
    if role == "mask":
        return image.convert("L"), list(file.notes)
    wanted = "RGBA" if mode == "RGBA" else "RGB"
    if wanted == "RGB" and file.mode in ("LA", "RGBA") and np.asarray(image.getchannel("A")).min() < 255:
        message = f"request.inputs: {path.name} is transparent, and the pipeline would see what lies under it"
        raise refused(message, hint="lay it on a colour, and update its sha256")
    return image.convert(wanted), list(file.notes)


def _sound(path: Path, pipeline: Any) -> tuple[torch.Tensor, list[str]]:
    sound = read_audio(path)
    if (rate := sample_rate(pipeline)) != sound.sample_rate_hz:
        raise refused(f"request.inputs: {path.name} has {sound.sample_rate_hz} Hz, the pipeline works at {rate}")
    return torch.from_numpy(sound.samples.T[None].astype(np.float32)), list(sound.notes)
