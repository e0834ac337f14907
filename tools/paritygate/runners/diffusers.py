"""The ``diffusers`` runner: a pipeline class of Diffusers on a local snapshot, with everything it did observed.

``clip_skip`` is passed like any other argument: with transformers 5 the pipeline itself breaks on it.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from paritygate.manifest.case import Item
from paritygate.runners.diffusers_call import call_arguments, starting_noise
from paritygate.runners.diffusers_inputs import load_inputs
from paritygate.runners.diffusers_load import load
from paritygate.runners.diffusers_names import refused
from paritygate.runners.diffusers_outputs import made_of, store
from paritygate.runners.diffusers_settings import report_items, report_settings
from paritygate.runners.job import Job, Writer
from paritygate.runners.observe import Observer


def run(job: Job, writer: Writer) -> None:
    """Answer the suite with the pipeline, ``batch_size`` items a call.

    Raises:
        LegError: for a class, scheduler, argument, input or backend that does not exist or does not run here, or an
            output of another kind than declared.
    """
    torch.set_num_threads(int(job.spec.get("threads") or 1))
    pipeline = load(job)
    inputs, facts = load_inputs(job, pipeline)
    if facts:
        writer.environment("inputs", facts)
    observer = Observer(pipeline)
    latents = None if job.latents is None else np.load(job.latents, allow_pickle=False)
    for start, group in _groups(job):
        given = None if latents is None else torch.from_numpy(latents[start : start + len(group)].copy())
        arguments = call_arguments(pipeline, job, group, inputs)
        noise = starting_noise(pipeline, job, group, arguments, given)
        with observer.watch() as seen:
            result = pipeline(**arguments, **inputs, **noise, **_output_type(pipeline))
        made = made_of(result, job, pipeline)
        scheduler = getattr(pipeline, "scheduler", None)
        report_items(group, seen, scheduler=scheduler, given=given, handed=noise.get("latents"), writer=writer)
        if start == 0:
            report_settings(pipeline, arguments, made, writer=writer)
            writer.setting("batch_size", len(group))
        store(job, group, made, writer)
    for name, found in sorted(observer.dtypes.items()):
        writer.setting(f"dtype.{name}", ", ".join(sorted(found)) or None)


def _groups(job: Job) -> list[tuple[int, tuple[Item, ...]]]:
    """The items of each call, with the number of the first."""
    size = int(job.spec.get("batch_size") or 1)
    if size > 1 and job.inputs:
        raise refused(f"batch_size is {size}, and pipelines do not agree on what inputs mean for several prompts")
    return [(start, job.items[start : start + size]) for start in range(0, len(job.items), size)]


def _output_type(pipeline: Any) -> dict[str, str]:
    """Arrays before any rounding, where the pipeline gives a choice."""
    return {"output_type": "np"} if "output_type" in inspect.signature(type(pipeline).__call__).parameters else {}
