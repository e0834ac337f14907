"""Manifest of a leg -> a loaded pipeline, ready to be called."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch

from paritygate.runners.diffusers_features import compile_components, enable_cache, load_lora, place
from paritygate.runners.diffusers_names import denoisers, near, refused
from paritygate.runners.job import Job
from paritygate.runners.observe import attention_backend
from paritygate.runners.observe_weights import audit, recorded_loading
from paritygate.runners.python import load_file

#: Settings of a scheduler that move its noise levels for the size of the output, by scheduler family.
_SHIFTS = ("flow_shift", "shift")


def load(job: Job) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The pipeline of a job, ready to be called, and what its weights look like, by component.

    Raises:
        LegError: naming what does not exist and the nearest name that does; ``kind="backend"`` for what does not run
            here, ``kind="weights"`` for weights that cannot be what the model needs.
    """
    kind = class_of(str(job.spec["pipeline"]), diffusers.DiffusionPipeline, "Pipeline")
    options = {} if job.spec.get("dtype") is None else {"dtype": load_dtype(job.spec["dtype"])}
    with recorded_loading() as loading:
        pipeline = kind.from_pretrained(job.model_dir, local_files_only=True, **options)
    _check_dtypes(job.spec.get("dtype"), pipeline.components)
    weights = audit(pipeline, loading)
    if (scheduler := job.spec.get("scheduler")) is not None:
        pipeline.scheduler = _scheduler(scheduler, pipeline.scheduler.config)
    _apply_request(pipeline, job)
    load_lora(pipeline, job)
    pipeline = place(pipeline, job)
    pipeline.set_progress_bar_config(disable=True)
    if (backend := job.spec.get("attention_backend")) is not None:
        _set_backend(pipeline, str(backend))
    if (cache := job.spec.get("cache")) is not None:
        enable_cache(pipeline, cache)
    compile_components(pipeline, job.spec.get("compile") or False)
    if job.adapter is not None:
        _prepare(pipeline, job)
    return pipeline, weights


def load_dtype(spec: str | Mapping[str, str]) -> Any:
    """``dtype`` of a leg as PyTorch has it, for all components or by component."""
    if isinstance(spec, str):
        return getattr(torch, spec)
    return {name: getattr(torch, dtype) for name, dtype in spec.items()}


def _check_dtypes(spec: str | Mapping[str, str] | None, components: Mapping[str, Any]) -> None:
    """Refuse a dtype for a component that is not there: Diffusers would load the one that is meant in float32."""
    for name in spec if isinstance(spec, Mapping) else ():
        if name not in components and name != "default":
            known = [*components, "default"]
            raise refused(f"dtype: the pipeline has no {name!r}{near(name, known)}; it has: {', '.join(known)}")


def class_of(name: str, base: type | tuple[type, ...], suffix: str) -> Any:
    """A class of Diffusers by its name; ``suffix`` is what the names of its kind end in.

    Raises:
        LegError: when there is none, or it is of another kind.
    """
    found = getattr(diffusers, name, None) if name in dir(diffusers) else None
    if isinstance(found, type) and issubclass(found, base):
        return found
    nearest = near(name, (known for known in dir(diffusers) if known.endswith(suffix)))
    raise refused(f"diffusers {diffusers.__version__} has no {suffix.lower()} {name!r}{nearest}")


def _scheduler(wanted: Mapping[str, Any], config: Any) -> Any:
    kind = class_of(str(wanted["class"]), diffusers.SchedulerMixin, "Scheduler")
    overrides = wanted.get("config") or {}
    accepted = list(inspect.signature(kind.__init__).parameters)
    for key in overrides:  # from_config would drop an unknown key with no more than a warning
        if key not in accepted:
            raise refused(f"{kind.__name__} has no setting {key!r}{near(key, accepted)}")
    return kind.from_config(config, **overrides)


def _apply_request(pipeline: Any, job: Job) -> None:
    """Set what a request asks for and this family of pipelines keeps in its configuration, not in its call."""
    request = job.items[0].request if job.items else {}
    accepted = inspect.signature(type(pipeline).__call__).parameters
    if (shift := request.get("flow_shift")) is not None and "flow_shift" not in accepted:
        scheduler = pipeline.scheduler
        name = next((name for name in _SHIFTS if name in scheduler.config), None)
        if name is None:
            raise refused(f"request.flow_shift: {type(scheduler).__name__} has none of {', '.join(_SHIFTS)}")
        declared = ((job.spec.get("scheduler") or {}).get("config") or {}).get(name, shift)
        if declared != shift:
            raise refused(f"request.flow_shift is {shift}, and scheduler.config.{name} of the leg is {declared}")
        pipeline.scheduler = type(scheduler).from_config(scheduler.config, **{name: shift})
    if (ratio := request.get("boundary_ratio")) is not None and "boundary_ratio" not in accepted:
        if "boundary_ratio" not in pipeline.config:
            raise refused(f"request.boundary_ratio: {type(pipeline).__name__} has no such setting")
        pipeline.register_to_config(boundary_ratio=ratio)


def _set_backend(pipeline: Any, backend: str) -> None:
    """Choose an attention backend for the denoisers, and refuse to go on with another one.

    Raises:
        LegError: ``kind="backend"`` when the backend is not there, or the layers use another.
    """
    for denoiser in denoisers(pipeline).values():
        if not hasattr(denoiser, "set_attention_backend"):
            continue
        try:
            denoiser.set_attention_backend(backend)
        except ValueError as error:
            raise refused(f"attention_backend {backend!r}: {error}") from error
        except (RuntimeError, ImportError) as error:
            raise refused(f"attention_backend {backend!r} is not there: {error}", kind="backend") from error
    if (found := attention_backend(pipeline)) != backend:
        message = f"attention_backend {backend!r} was asked for, the layers use {found!r}"
        raise refused(message, kind="backend", hint="name the backend that runs here, or declare the difference")


def _prepare(pipeline: Any, job: Job) -> None:
    prepare = getattr(load_file(Path(str(job.adapter))), "prepare", None)
    if not callable(prepare):
        raise refused(f"{job.adapter} defines no function 'prepare'", hint="define prepare(pipeline, job)")
    prepare(pipeline, job)
