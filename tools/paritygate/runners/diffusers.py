"""The ``diffusers`` runner: a pipeline class of Diffusers on a local snapshot, with everything it did observed.

``clip_skip`` is passed like any other argument: with transformers 5 the pipeline itself breaks on it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paritygate.manifest.case import Item
from paritygate.runners.diffusers_call import call_arguments, starting_noise
from paritygate.runners.diffusers_inputs import load_inputs
from paritygate.runners.diffusers_load import load
from paritygate.runners.diffusers_names import denoisers, refused
from paritygate.runners.diffusers_outputs import check_encoding, made_of, store
from paritygate.runners.diffusers_settings import (
    device_of,
    report_features,
    report_flags,
    report_items,
    report_settings,
)
from paritygate.runners.job import Job, Writer
from paritygate.runners.observe import Observer, attention_backend, is_compiled
from paritygate.runners.observe_environment import libraries, numeric_flags
from paritygate.runners.observe_work import WorkCounter


def run(job: Job, writer: Writer) -> None:
    """Answer the suite with the pipeline, ``batch_size`` items a call.

    Raises:
        LegError: for a class, scheduler, argument, input or backend that does not exist or does not run here, or an
            output of another kind than declared.
    """
    torch.set_num_threads(int(job.spec.get("threads") or 1))
    check_encoding(job)
    pipeline, weights = load(job)
    inputs, facts = load_inputs(job, pipeline)
    for name, value in {"inputs": facts, "libraries": libraries(Path(job.root)), "weights": weights}.items():
        if value:
            writer.environment(name, value)
    observer, work = Observer(pipeline), WorkCounter(_cached(pipeline, job))
    latents = None if job.latents is None else np.load(job.latents, allow_pickle=False)
    flags = numeric_flags(device_of(pipeline))
    backends: dict[str, None] = {}
    for start, group in _groups(job):
        given = None if latents is None else torch.from_numpy(latents[start : start + len(group)].copy())
        arguments = call_arguments(pipeline, job, group, inputs)
        noise = starting_noise(pipeline, job, group, arguments, given)
        with observer.watch() as seen, work.watch():
            result = pipeline(**arguments, **inputs, **noise, **_output_type(pipeline))
        made = made_of(result, job, pipeline)
        scheduler = getattr(pipeline, "scheduler", None)
        report_items(group, seen, scheduler=scheduler, given=given, handed=noise.get("latents"), writer=writer)
        if start == 0:
            report_settings(pipeline, arguments, made, seen, writer=writer)
            writer.setting("batch_size", len(group))
        backends[attention_backend(pipeline)] = None
        store(job, group, made, writer)
    if len(backends) > 1:
        writer.setting("attention_backend", ", then ".join(backends))
    for name, found in observer.dtypes.items():
        writer.setting(f"dtype.{name}", found)
    for name, others in observer.casts.items():
        writer.setting(f"casts.{name}", others)
    report_flags(flags, numeric_flags(device_of(pipeline)), writer)
    report_features(pipeline, job, work, writer)


def _cached(pipeline: Any, job: Job) -> dict[str, Any]:
    """The denoisers whose work is counted: those that a cache may spare some, unless they are compiled."""
    chosen = denoisers(pipeline) if job.spec.get("cache") else {}
    return {name: denoiser for name, denoiser in chosen.items() if not is_compiled(denoiser)}


def _groups(job: Job) -> list[tuple[int, tuple[Item, ...]]]:
    """The items of each call, with the number of the first."""
    size = int(job.spec.get("batch_size") or 1)
    if size > 1 and job.inputs:
        raise refused(f"batch_size is {size}, and pipelines do not agree on what inputs mean for several prompts")
    return [(start, job.items[start : start + size]) for start in range(0, len(job.items), size)]


def _output_type(pipeline: Any) -> dict[str, str]:
    """Arrays before any rounding, where the pipeline gives a choice."""
    return {"output_type": "np"} if "output_type" in inspect.signature(type(pipeline).__call__).parameters else {}
