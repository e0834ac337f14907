"""The ``diffusers`` runner: a pipeline class of Diffusers on a local snapshot, with everything it did observed.

``clip_skip`` is passed like any other argument: with transformers 5 the pipeline itself breaks on it.
"""

from __future__ import annotations

import difflib
import inspect
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch

from paritygate.errors import LegError
from paritygate.manifest.case import Item
from paritygate.runners.job import Job, Writer
from paritygate.runners.observe import Observation, Observer, attention_backend, noise_levels, token_rows
from paritygate.runners.python import load_file

#: Request keys that speak to the harness, not to a pipeline. Sorted.
_HARNESS_KEYS = frozenset({"initial_latents", "inputs", "latent_shape", "seed"})
#: Request keys that may differ between the items of one batch.
_PER_ITEM_KEYS = ("prompt", "negative_prompt")
#: Arguments whose defaults are reported as well.
_REPORTED = ("guidance_scale", "negative_prompt", "num_inference_steps")


def run(job: Job, writer: Writer) -> None:
    """Answer the suite with the pipeline, ``batch_size`` items a call.

    Raises:
        LegError: for a class, scheduler, argument or backend that does not exist, or an output this version cannot
            store.
    """
    if job.output.kind != "images" or job.inputs:
        raise _refused(f"output.kind {job.output.kind} with {len(job.inputs)} inputs cannot run in this version")
    torch.set_num_threads(int(job.spec.get("threads") or 1))
    pipeline = load(job)
    observer = Observer(pipeline)
    latents = None if job.latents is None else np.load(job.latents, allow_pickle=False)
    size = int(job.spec.get("batch_size") or 1)
    for start in range(0, len(job.items), size):
        group = job.items[start : start + size]
        given = None if latents is None else torch.from_numpy(latents[start : start + len(group)].copy())
        arguments = call_arguments(pipeline, job, group)
        noise = _noise(job, group, given)
        with observer.watch() as seen:
            images = pipeline(**arguments, **noise, output_type="np").images
        _report_items(
            group, seen, scheduler=pipeline.scheduler, given=given, handed=noise.get("latents"), writer=writer
        )
        if start == 0:
            _report_settings(pipeline, arguments, images, writer=writer)
            writer.setting("batch_size", len(group))
        _store(group, images, writer)
    for name, found in sorted(observer.dtypes.items()):
        writer.setting(f"dtype.{name}", ", ".join(sorted(found)) or None)


def load(job: Job) -> Any:
    """The pipeline of a job, ready to be called.

    Raises:
        LegError: naming what does not exist and the nearest name that does.
    """
    kind = _class(str(job.spec["pipeline"]), diffusers.DiffusionPipeline)
    options = {} if job.spec.get("dtype") is None else {"dtype": _dtypes(job.spec["dtype"])}
    pipeline = kind.from_pretrained(job.model_dir, local_files_only=True, **options)
    if (scheduler := job.spec.get("scheduler")) is not None:
        pipeline.scheduler = _scheduler(scheduler, pipeline.scheduler.config)
    pipeline = pipeline.to(str(job.spec.get("device") or job.device))
    pipeline.set_progress_bar_config(disable=True)
    if (backend := job.spec.get("attention_backend")) is not None:
        _set_backend(pipeline, str(backend))
    if job.adapter is not None:
        load_file(Path(job.adapter)).prepare(pipeline, job)
    return pipeline


def call_arguments(pipeline: Any, job: Job, group: tuple[Item, ...]) -> dict[str, Any]:
    """The arguments of one call for a group of items, checked against the pipeline's signature.

    Raises:
        LegError: for an argument that the pipeline does not take, or one that differs within a batch.
    """
    arguments: dict[str, Any] = {}
    for key in dict.fromkeys(key for item in group for key in item.request if key not in _HARNESS_KEYS):
        values = [item.request.get(key) for item in group]
        if key in _PER_ITEM_KEYS and len(group) > 1:
            if any(value is not None for value in values):
                arguments[key] = [value or "" for value in values]
        elif any(value != values[0] for value in values):
            raise _refused(f"request.{key} differs between the items of one batch: {values}")
        else:
            arguments[key] = values[0]
    arguments.update(job.spec.get("call") or {})
    accepted = [name for name in inspect.signature(type(pipeline).__call__).parameters if name != "self"]
    for key in arguments:
        if key not in accepted:
            message = f"{type(pipeline).__name__} takes no argument {key!r}{_near(key, accepted)}"
            raise _refused(f"{message}; it takes: {', '.join(accepted)}")
    return arguments


def _noise(job: Job, group: tuple[Item, ...], given: torch.Tensor | None) -> dict[str, Any]:
    """A fresh CPU generator per item, so that no item depends on another, and the shared latents where given."""
    seeds = [int(item.request["seed"]) for item in group if "seed" in item.request]
    generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
    found: dict[str, Any] = {}
    if generators:
        found["generator"] = generators if len(group) > 1 else generators[0]
    if given is not None:
        dtypes = _dtypes(job.spec.get("dtype") or "float32")
        if isinstance(dtypes, Mapping):
            dtypes = next(
                (dtypes[name] for name in ("transformer", "unet", "default") if name in dtypes), torch.float32
            )
        found["latents"] = given.to(dtype=dtypes)
    return found


def _report_items(
    group: tuple[Item, ...],
    seen: Observation,
    *,
    scheduler: Any,
    given: torch.Tensor | None,
    handed: torch.Tensor | None,
    writer: Writer,
) -> None:
    """Report tokens, latents and schedule; ``handed`` is ``given`` as the pipeline took it, in its own dtype."""
    first = seen.first_latents
    for index, item in enumerate(group):
        if rows := token_rows(seen, index, batch=len(group)):
            writer.token_ids(item.id, rows)
        if first is not None:
            each = len(first) // len(group)
            entered = first[index * each : (index + 1) * each]
            noise = entered
            if given is not None and handed is not None and _is_scaled(entered, handed[index : index + 1], scheduler):
                noise = given[index : index + 1]
            writer.initial_latents(item.id, (noise[0] if each == 1 else noise).to("cpu", torch.float32).numpy())
    writer.schedule(timesteps=list(seen.timesteps), sigmas=noise_levels(scheduler, seen.timesteps))


def _is_scaled(entered: torch.Tensor, handed: torch.Tensor, scheduler: Any) -> bool:
    """Whether what entered the first step is exactly what was handed in, times ``init_noise_sigma``.

    Then the float32 tensor behind it is what the leg started from: its rounding to half precision is part of the
    precision under test, not other noise.
    """
    sigma = torch.as_tensor(getattr(scheduler, "init_noise_sigma", 1.0)).to(entered.device)
    injected = handed.to(entered.device)
    if injected.shape != entered.shape:
        return False
    scaled = ((injected * sigma).to(entered.dtype), injected.to(entered.dtype) * sigma)
    return any(torch.equal(candidate, entered) for candidate in scaled)


def _report_settings(pipeline: Any, arguments: dict[str, Any], images: Any, *, writer: Writer) -> None:
    """What took effect for the whole run, under the names that any implementation can report."""
    parameters = inspect.signature(type(pipeline).__call__).parameters
    config = {name: parameters[name].default for name in _REPORTED if name in parameters} | arguments
    config.pop("prompt", None)
    if "negative_prompt" in config:
        texts = config.pop("negative_prompt")
        distinct = {text or "" for text in (texts if isinstance(texts, list) else [texts])}
        # With several, the token ids tell them apart; no single setting could.
        config |= {"negative_prompt": distinct.pop()} if len(distinct) == 1 else {}
    # Observed values stand above requested ones.
    config["height"], config["width"] = (int(size) for size in images.shape[1:3])
    for name, owner in (("guidance_scale", pipeline), ("num_inference_steps", pipeline.scheduler)):
        if name in config and getattr(owner, name, None) is not None:
            config[name] = getattr(owner, name)
    scheduler = {key: value for key, value in pipeline.scheduler.config.items() if not key.startswith("_")}
    config |= {f"scheduler.{key}": value for key, value in scheduler.items()}
    config["scheduler.class"] = type(pipeline.scheduler).__name__
    if (factor := getattr(getattr(getattr(pipeline, "vae", None), "config", None), "scaling_factor", None)) is not None:
        config["vae.scaling_factor"] = factor
    settings = {
        "attention_backend": attention_backend(pipeline) or None,
        "device": str(pipeline.device),
        "threads": torch.get_num_threads(),
        **{f"config.{name}": _scalar(value) for name, value in sorted(config.items())},
    }
    for name, value in settings.items():
        writer.setting(name, value)
    writer.environment("pipeline", type(pipeline).__name__)


def _store(group: tuple[Item, ...], images: Any, writer: Writer) -> None:
    """Store ``(batch, height, width, channels)`` float32 in [0, 1]: the images of an item lie side by side."""
    each, rest = divmod(len(images), len(group))
    if rest:
        raise _refused(f"the pipeline gave {len(images)} images for {len(group)} items")
    for number, item in enumerate(group):
        for index in range(each):
            writer.image(item.id, images[number * each + index], index=index)


def _class(name: str, base: type) -> Any:
    """A class of Diffusers by its name.

    Raises:
        LegError: when there is none, or it is of another kind.
    """
    found = getattr(diffusers, name, None) if name in dir(diffusers) else None
    if isinstance(found, type) and issubclass(found, base):
        return found
    suffix = "Pipeline" if base is diffusers.DiffusionPipeline else "Scheduler"
    near = _near(name, [known for known in dir(diffusers) if known.endswith(suffix)])
    raise _refused(f"diffusers {diffusers.__version__} has no {suffix.lower()} {name!r}{near}")


def _scheduler(wanted: Mapping[str, Any], config: Any) -> Any:
    kind = _class(str(wanted["class"]), diffusers.SchedulerMixin)
    overrides = wanted.get("config") or {}
    accepted = list(inspect.signature(kind.__init__).parameters)
    for key in overrides:  # from_config would drop an unknown key with no more than a warning
        if key not in accepted:
            raise _refused(f"{kind.__name__} has no setting {key!r}{_near(key, accepted)}")
    return kind.from_config(config, **overrides)


def _set_backend(pipeline: Any, backend: str) -> None:
    """Choose an attention backend for the denoiser, and refuse to go on with another one.

    Raises:
        LegError: when the backend is unknown, or the layers use another.
    """
    denoiser: Any = getattr(pipeline, "transformer", None) or getattr(pipeline, "unet", None)
    if hasattr(denoiser, "set_attention_backend"):
        try:
            denoiser.set_attention_backend(backend)
        except (ValueError, RuntimeError, ImportError) as error:
            raise _refused(f"attention_backend {backend!r}: {error}") from error
    if (found := attention_backend(pipeline)) != backend:
        raise _refused(f"attention_backend {backend!r} was asked for, the layers use {found!r}")


def _dtypes(spec: str | Mapping[str, str]) -> Any:
    if isinstance(spec, str):
        return getattr(torch, spec)
    return {name: getattr(torch, dtype) for name, dtype in spec.items()}


def _scalar(value: Any) -> str | int | float | bool | None:
    """A setting as a JSON scalar; ``lambda_min_clipped`` of some schedulers is minus infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return json.dumps(value, default=str, sort_keys=True)


def _near(name: str, known: list[str]) -> str:
    found = difflib.get_close_matches(name, known, n=3)
    return f"; nearest: {', '.join(found)}" if found else ""


def _refused(message: str) -> LegError:
    return LegError(message, kind="crash")
