"""What took effect in a ``diffusers`` leg, reported under the names that any implementation can use."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers

from paritygate.manifest.case import Item
from paritygate.records.model import AS_CALLED
from paritygate.runners.diffusers_features import compiled_graphs, lora_facts
from paritygate.runners.diffusers_names import refused
from paritygate.runners.diffusers_outputs import Made
from paritygate.runners.job import Job, Writer
from paritygate.runners.observe import Observation, attention_backend, token_rows
from paritygate.runners.observe_environment import changed_flags
from paritygate.runners.observe_steps import noise_levels
from paritygate.runners.observe_work import WorkCounter

#: Arguments whose defaults are reported as well.
_REPORTED = (
    "audio_guidance_scale",
    "guidance_scale",
    "guidance_scale_2",
    "image_guidance_scale",
    "negative_prompt",
    "num_inference_steps",
    "strength",
    "true_cfg_scale",
)
#: So many tokens of a text show that it was encoded; the last may be cut off.
_BEGINNING = 8


def report_items(
    group: Sequence[Item],
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
            if given is not None and handed is not None and is_scaled(entered, handed[index : index + 1], scheduler):
                noise = given[index : index + 1]
            writer.initial_latents(item.id, (noise[0] if each == 1 else noise).to("cpu", torch.float32).numpy())
    if seen.timesteps:
        writer.schedule(timesteps=list(seen.timesteps), sigmas=noise_levels(scheduler, seen.timesteps))


def is_scaled(entered: torch.Tensor, handed: torch.Tensor, scheduler: Any) -> bool:
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


def report_settings(
    pipeline: Any, arguments: Mapping[str, Any], made: Made, seen: Observation, *, writer: Writer
) -> None:
    """What took effect for the whole run, and which settings only repeat the call, since nothing shows them."""
    config, called = _config(pipeline, arguments, made, seen)
    settings = {
        "attention_backend": attention_backend(pipeline) or None,
        "device": device_of(pipeline),
        "threads": torch.get_num_threads(),
        **{f"conditioning.{name}": f"sha256:{digest.hexdigest()}" for name, digest in seen.conditioning.items()},
        **{f"config.{name}": _scalar(value) for name, value in sorted(config.items())},
    }
    if seen.sampler_noise:
        settings["noise.sampler"] = ", ".join(sorted(seen.sampler_noise))
    for name, value in settings.items():
        writer.setting(name, value)
    writer.environment("pipeline", type(pipeline).__name__)
    if called:
        writer.environment(AS_CALLED, [f"config.{name}" for name in called])


def device_of(pipeline: Any) -> str:
    """Where a pipeline computes: with offload, its weights are elsewhere between the calls."""
    return str(getattr(pipeline, "_execution_device", pipeline.device))


def report_flags(before: Mapping[str, Any], after: Mapping[str, Any], writer: Writer) -> None:
    """The numeric switches of the process before the first call, and those that the calls left changed."""
    for name, value in before.items():
        writer.setting(f"flags.{name}", value)
    writer.setting("flags_changed", changed_flags(before, after))


def report_features(pipeline: Any, job: Job, work: WorkCounter, writer: Writer) -> None:
    """What the leg switched on, as it ran, with the evidence.

    Raises:
        LegError: ``kind="backend"`` when nothing was compiled that should have been.
    """
    spec = job.spec
    if spec.get("offload"):
        writer.setting("offload", str(spec["offload"]))
    for number, (sha256, layers, factors) in enumerate(lora_facts(pipeline, job)):
        writer.setting(f"lora.{number}", f"{sha256} times {factors}")
        writer.feature(job.feature or "lora", **{f"lora_{number}_layers": layers})
    if cache := spec.get("cache"):
        writer.setting("cache", json.dumps(cache, sort_keys=True))
        compiled = {"uncounted": "the denoiser is compiled, and what a cache skips in it cannot be seen"}
        writer.feature(job.feature or "cache", **(work.counters or compiled))
    if spec.get("compile"):
        graphs, reused = compiled_graphs()
        if not graphs:
            raise refused("compile: torch.compile made no graph of any part that ran", kind="backend")
        writer.setting("compile", json.dumps(spec["compile"], sort_keys=True))
        writer.feature(job.feature or "compile", compiled_graphs=graphs)
        writer.environment("compile", {"graphs": graphs, "from_an_earlier_run": reused})


def _config(
    pipeline: Any, arguments: Mapping[str, Any], made: Made, seen: Observation
) -> tuple[dict[str, Any], list[str]]:
    """Call arguments and configuration as they took effect, and the names of those that only repeat the call.

    Observed values stand above requested ones.
    """
    parameters = inspect.signature(type(pipeline).__call__).parameters
    called = {name: parameters[name].default for name in _REPORTED if name in parameters} | dict(arguments)
    called.pop("prompt", None)
    if "negative_prompt" in called:
        texts = called.pop("negative_prompt")
        distinct = {text or "" for text in (texts if isinstance(texts, list) else [texts])}
        # With several, the token ids tell them apart; no single setting could.
        called |= {"negative_prompt": distinct.pop()} if len(distinct) == 1 else {}
    observed = _observed(pipeline, called) | made.size
    if "negative_prompt" in called and _is_encoded(pipeline, called["negative_prompt"], seen):
        observed["negative_prompt"] = called["negative_prompt"]
    return called | observed, sorted(called.keys() - observed.keys())


def _observed(pipeline: Any, called: Mapping[str, Any]) -> dict[str, Any]:
    """What the pipeline and its parts hold after a call, of arguments that it keeps and of its configuration."""
    scheduler = getattr(pipeline, "scheduler", None)
    owners = {name: pipeline for name in called if isinstance(getattr(type(pipeline), name, None), property)}
    owners |= {"num_inference_steps": scheduler} if "num_inference_steps" in called else {}
    held = {name: getattr(owner, name, None) for name, owner in owners.items()}
    config = {name: value for name, value in held.items() if value is not None}
    if scheduler is not None:
        facts = {key: value for key, value in scheduler.config.items() if not key.startswith("_")}
        config |= {f"scheduler.{key}": value for key, value in facts.items()}
        config["scheduler.class"] = type(scheduler).__name__
    if (factor := getattr(getattr(getattr(pipeline, "vae", None), "config", None), "scaling_factor", None)) is not None:
        config["vae.scaling_factor"] = factor
    if (ratio := getattr(pipeline.config, "boundary_ratio", None)) is not None:
        config["boundary_ratio"] = ratio
    return config


def _is_encoded(pipeline: Any, text: str, seen: Observation) -> bool:
    """Whether the first tokens of a text reached a text encoder; a pipeline that does not guide drops them."""
    tokenizer = getattr(pipeline, "tokenizer", None)
    if not text or not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        return not text
    begin = tokenizer(text, add_special_tokens=False)["input_ids"][:_BEGINNING]
    rows = (row for calls in seen.token_calls.values() for call in calls for row in call)
    return any(row[at : at + len(begin)] == begin for row in rows for at in range(len(row)))


def _scalar(value: Any) -> str | int | float | bool | None:
    """A setting as a JSON scalar; ``lambda_min_clipped`` of some schedulers is minus infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return json.dumps(value, default=str, sort_keys=True)
