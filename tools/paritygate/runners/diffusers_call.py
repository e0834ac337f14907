"""The arguments of one pipeline call: the request, checked against the signature, and the noise of each item."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from paritygate.manifest.case import Item
from paritygate.runners.diffusers_inputs import picture_size
from paritygate.runners.diffusers_load import load_dtype
from paritygate.runners.diffusers_names import near, refused
from paritygate.runners.job import Job

#: Request keys that speak to the harness, not to a pipeline. Sorted.
_HARNESS_KEYS = frozenset({"initial_latents", "inputs", "latent_shape", "seed"})
#: Request keys that a loaded pipeline holds in its configuration when its call does not take them.
_CONFIGURED_KEYS = frozenset({"boundary_ratio", "flow_shift"})
#: Request keys that may differ between the items of one batch.
_PER_ITEM_KEYS = ("prompt", "negative_prompt")
#: Request key -> the names that pipelines know it by, the first that the pipeline has.
_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "duration_s": ("audio_length_in_s", "audio_end_in_s", "audio_duration", "audio_duration_s", "duration"),
        "fps": ("fps", "frame_rate"),
        "frame_rate": ("frame_rate", "fps"),
        "num_frames": ("num_frames", "video_length", "frames"),
    }
)
#: Arguments that say how many outputs each prompt gives.
_COUNTS = ("num_images_per_prompt", "num_videos_per_prompt", "num_waveforms_per_prompt")
#: Arguments that the runner gives itself -> where their values come from.
_OWN: Mapping[str, str] = MappingProxyType(
    {
        "generator": "the seed of each item",
        "latents": "request.initial_latents",
        "output_type": "the runner, which keeps outputs unrounded",
        "prompt": "the request, which both legs answer",
        "return_dict": "the runner, which reads outputs by name",
    }
)
#: How ``prepare_latents`` of a pipeline casts latents that it is given to the dtype that it works in.
_CASTS_LATENTS = re.compile(r"latents\.to\([^)]*\bdtype\b")


def call_arguments(pipeline: Any, job: Job, group: Sequence[Item], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call for a group of items, checked against the pipeline's signature.

    Args:
        pipeline: as loaded.
        job: the leg's.
        group: items of one call.
        inputs: arguments that hold conditioning media; they are not part of the result.

    Raises:
        LegError: for an argument that the pipeline or its scheduler does not take, one that is not the leg's to give,
            or one that differs within a batch.
    """
    accepted = _accepted(pipeline)
    arguments: dict[str, Any] = {}
    for key, value in _shared(group).items():
        name = next((name for name in _ALIASES.get(key, ()) if name in accepted), key)
        if name not in accepted and _is_settled(key, value, job, inputs):
            continue
        if arguments.get(name, value) != value:
            raise refused(f"request.{key} is {value}, and the same request gives {name} as {arguments[name]}")
        arguments[name] = value
    if job.output.count > 1 and (count := next((name for name in _COUNTS if name in accepted), None)):
        arguments.setdefault(count, job.output.count)
    called = job.spec.get("call") or {}
    for key in (*called, *arguments):
        if key not in accepted:
            message = f"{type(pipeline).__name__} takes no argument {key!r}{near(key, accepted)}"
            raise refused(f"{message}; it takes: {', '.join(accepted)}")
        if key in inputs or (key in _OWN and (key in called or key != "prompt")):
            source = "request.inputs" if key in inputs else _OWN[key]
            raise refused(f"the argument {key!r} comes from {source}; leave it out of call and of request.extra")
    arguments.update(called)
    _check_eta(pipeline, arguments)
    return arguments


def _accepted(pipeline: Any) -> list[str]:
    """The names of the arguments of a pipeline's call; ``**kwargs`` is none."""
    parameters = inspect.signature(type(pipeline).__call__).parameters
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, parameter in parameters.items() if name != "self" and parameter.kind not in kinds]


def _check_eta(pipeline: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse an ``eta`` that pipelines take and keep from schedulers without one, in silence."""
    step = getattr(getattr(pipeline, "scheduler", None), "step", None)
    if arguments.get("eta") and step is not None and "eta" not in inspect.signature(step).parameters:
        name = type(pipeline.scheduler).__name__
        message = f"eta is {arguments['eta']}, and {name} takes none, so it would change nothing"
        raise refused(message, hint="leave eta out, or choose a scheduler that takes it, such as DDIMScheduler")


def starting_noise(
    pipeline: Any, job: Job, group: Sequence[Item], arguments: Mapping[str, Any], given: torch.Tensor | None
) -> dict[str, Any]:
    """A fresh CPU generator per item, so that no item depends on another, and the shared latents where given.

    Raises:
        LegError: for a seed or shared latents that the pipeline does not take, and for shared latents that several
            outputs of one item would start from.
    """
    accepted = inspect.signature(type(pipeline).__call__).parameters
    count = next((int(arguments[name]) for name in _COUNTS if arguments.get(name)), 1)
    seeds = [int(item.request["seed"]) for item in group if "seed" in item.request]
    generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
    found: dict[str, Any] = {}
    if generators:
        if "generator" not in accepted:
            raise refused(f"{type(pipeline).__name__} takes no generator, so request.seed would change nothing")
        # With several prompts, pipelines want a generator for each output: those of one item draw from one, in turn.
        found["generator"] = [each for each in generators for _ in range(count)] if len(group) > 1 else generators[0]
    if given is not None:
        if "latents" not in accepted:
            hint = "say request.initial_latents: seeded"
            raise refused(f"{type(pipeline).__name__} takes no latents, so the shared ones cannot reach it", hint=hint)
        if count > 1:
            raise refused(f"{count} outputs per item would start from the same shared latents, and be one output")
        found["latents"] = given.to(dtype=_latents_dtype(pipeline, job))
    return found


def _shared(group: Sequence[Item]) -> dict[str, Any]:
    """The requests of a group as one: lists where each item may have its own value."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for item in group for key in item.request if key not in _HARNESS_KEYS):
        values = [item.request.get(key) for item in group]
        if key in _PER_ITEM_KEYS and len(group) > 1:
            if any(value is not None for value in values):
                found[key] = [value or "" for value in values]
        elif any(value != values[0] for value in values):
            raise refused(f"request.{key} differs between the items of one batch: {values}")
        else:
            found[key] = values[0]
    return found


def _is_settled(key: str, value: Any, job: Job, inputs: Mapping[str, Any]) -> bool:
    """Whether a key that the call does not take is met without it."""
    if key in ("fps", "frame_rate"):
        return job.output.has_video  # the rate of the clip that is written
    if key in ("width", "height") and (size := picture_size(inputs)) is not None:
        found = dict(zip(("width", "height"), size, strict=True))[key]
        if found != value:
            message = f"request.{key} is {value}, and the pipeline takes its size from the picture, which has {found}"
            raise refused(message, hint="give it a picture of the size that is asked for")
        return True
    return key in _CONFIGURED_KEYS


def _latents_dtype(pipeline: Any, job: Job) -> torch.dtype:
    """The dtype to hand shared latents over in: float32 where the pipeline casts them itself, else the denoiser's.

    Some pipelines (Wan) keep latents in float32 whatever their weights are; others (Stable Diffusion) use what they
    get as it is, and their denoiser takes its own dtype only.
    """
    prepare = getattr(type(pipeline), "prepare_latents", None)
    if prepare is not None and _CASTS_LATENTS.search(inspect.getsource(prepare)):
        return torch.float32
    dtypes = load_dtype(job.spec.get("dtype") or "float32")
    if isinstance(dtypes, Mapping):
        names = ("transformer", "unet", "default")
        return next((dtypes[name] for name in names if name in dtypes), torch.float32)
    return dtypes
