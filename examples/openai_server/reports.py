"""What ``/v1/effective`` tells: settings, schedule, token ids and digests, as they were observed."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Mapping
from typing import Any

import diffusers
import torch
import transformers

from openai_server.observe import Observation, attention_backend, digest, flags, noise_levels, token_rows

#: Requests that are remembered; later ones are served and not reported.
_MOST_REQUESTS = 4096


class Reports:
    """Collects from the thread that generates, tells any thread.

    Settings and schedule are those of the first request with an id; the first use of an id counts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: dict[str, Any] = {}
        self._schedule: dict[str, Any] = {"timesteps": None, "sigmas": None}
        self._token_ids: dict[str, list[list[int]]] = {}
        self._latents: dict[str, str] = {}

    def add(self, request_id: str, pipeline: Any, seen: Observation, *, size: Mapping[str, int]) -> None:
        """Take in one call.

        Args:
            request_id: what the client calls it.
            pipeline: as it is after the call.
            seen: the call.
            size: height, width and frames of what came out.
        """
        with self._lock:
            if request_id in self._token_ids or len(self._token_ids) >= _MOST_REQUESTS:
                return
            self._token_ids[request_id] = token_rows(seen)
            if seen.latents is not None:
                self._latents[request_id] = digest(seen.latents)
            if not self._settings:
                self._settings = _settings(pipeline, seen, size)
                levels = noise_levels(pipeline.scheduler, seen.timesteps)
                self._schedule = {"timesteps": seen.timesteps, "sigmas": levels}

    def told(self) -> dict[str, Any]:
        """Everything so far, as JSON data."""
        with self._lock:
            return {
                "schema_version": 1,
                "settings": dict(self._settings),
                "token_ids": dict(self._token_ids),
                **self._schedule,
                "initial_latents": dict(self._latents),
                "features": {},
                "environment": {
                    "python": sys.version.split()[0],
                    "versions": {library.__name__: library.__version__ for library in (diffusers, torch, transformers)},
                },
            }


def _settings(pipeline: Any, seen: Observation, size: Mapping[str, int]) -> dict[str, Any]:
    scheduler = pipeline.scheduler
    config: dict[str, Any] = {
        **size,
        **seen.arguments,
        "guidance_scale": pipeline.guidance_scale,
        "num_inference_steps": scheduler.num_inference_steps,
        "scheduler.class": type(scheduler).__name__,
        **{f"scheduler.{key}": value for key, value in scheduler.config.items() if not key.startswith("_")},
    }
    config["negative_prompt"] = config.get("negative_prompt") or ""
    if hasattr(pipeline, "_guidance_scale_2"):
        config["guidance_scale_2"] = pipeline._guidance_scale_2
    if (factor := getattr(pipeline.vae.config, "scaling_factor", None)) is not None:
        config["vae.scaling_factor"] = factor
    denoiser = pipeline.components.get("unet") or pipeline.components["transformer"]
    changed = [f"{name}: {seen.flags[name]} -> {value}" for name, value in flags().items() if value != seen.flags[name]]
    return {
        "attention_backend": attention_backend(denoiser),
        "batch_size": 1,
        "device": str(pipeline.device),
        "threads": torch.get_num_threads(),
        **{
            f"casts.{name}": ", ".join(sorted(found - seen.dtypes.get(name, set()))) or "none"
            for name, found in sorted(seen.layers.items())
        },
        **{f"conditioning.{name}": f"sha256:{found.hexdigest()}" for name, found in seen.encoded.items()},
        **{f"config.{name}": _scalar(value) for name, value in sorted(config.items())},
        **{f"dtype.{name}": ", ".join(sorted(found)) or None for name, found in sorted(seen.dtypes.items())},
        **{f"flags.{name}": value for name, value in seen.flags.items()},
        "flags_changed": ", ".join(changed) or "none",
    }


def _scalar(value: Any) -> str | int | float | bool | None:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return json.dumps(value, default=str, sort_keys=True)
