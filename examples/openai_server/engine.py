"""The loaded pipeline: one request in, 8-bit pixels out, and what took effect on the way."""

from __future__ import annotations

import inspect
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import diffusers
import torch
from PIL import Image

from openai_server.fields import size_of
from openai_server.media import to_levels
from openai_server.observe import Observation, observed
from openai_server.refusal import Refusal
from openai_server.reports import Reports

#: Pipeline class in model_index.json -> what it makes.
KINDS = {"StableDiffusionPipeline": "image", "WanPipeline": "video"}
_MOST_PIXELS = 2048 * 2048
#: Fields that a call takes under their own names, where it takes them at all.
_DIRECT = ("negative_prompt", "num_inference_steps", "guidance_scale", "strength", "num_frames", "max_sequence_length")


class Stopped(Exception):  # noqa: N818 - nobody waits for it any more
    """A generation was given up because the server ends, or its client has gone."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One generation, checked: arguments of the call, and what belongs to the answer.

    ``given_up`` is set when nobody waits for it.
    """

    pipeline: Any
    arguments: Mapping[str, Any]
    seed: int
    request_id: str | None
    given_up: threading.Event = field(default_factory=threading.Event)


class Engine:
    """Loads a folder, checks requests against it (any thread) and generates (one thread at a time).

    ``kind`` is ``image`` or ``video``.
    """

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Load everything in float32 with PyTorch's own attention, from local files only.

        Raises:
            OSError, ValueError: when there is no such pipeline, or it is of a class that is not served.
        """
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
        name = index.get("_class_name")
        if name not in KINDS:
            raise ValueError(f"its class is {name}; served are {', '.join(KINDS)}")
        self.kind, self.threads = KINDS[name], threads
        self.use_threads()
        self._pipeline = getattr(diffusers, name).from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        self._pipeline.set_progress_bar_config(disable=True)
        self._editor: Any = None
        if self.kind == "image":
            components = {**self._pipeline.components, "requires_safety_checker": False}
            self._editor = diffusers.StableDiffusionImg2ImgPipeline(**components)
            self._editor.set_progress_bar_config(disable=True)
        self.reports = Reports()
        self._stop = threading.Event()

    def use_threads(self) -> None:
        """Hold the calling thread to the number of threads: PyTorch counts them for each."""
        torch.set_num_threads(self.threads)

    def stop(self) -> None:
        """Give up what is being generated."""
        self._stop.set()

    def task(self, fields: Mapping[str, Any], *, request_id: str | None, image: Image.Image | None = None) -> Task:
        """Check the fields of a request against the pipeline.

        Raises:
            Refusal: for what the pipeline would resize, round or not take.
        """
        pipeline = self._pipeline if image is None else self._editor
        arguments: dict[str, Any] = {"prompt": fields["prompt"]}
        arguments |= {name: fields[name] for name in _DIRECT if name in fields}
        if image is not None:
            self._check_size(image.size)
            if "size" in fields and size_of(fields["size"]) != image.size:
                raise Refusal(f"size is {fields['size']}, the image is {image.width}x{image.height}", param="size")
            arguments["image"] = image
        elif "size" in fields:
            size = size_of(fields["size"])
            self._check_size(size)
            arguments |= dict(zip(("width", "height"), size, strict=True))
        if (fields.get("num_frames", 1) - 1) % 4:
            raise Refusal("num_frames is not a multiple of four plus one", param="num_frames")
        if fields.get("n", 1) > 1:
            arguments["num_images_per_prompt"] = fields["n"]
        accepted = inspect.signature(type(pipeline).__call__).parameters
        if image is not None:
            steps, strength = (
                arguments.get(name, accepted[name].default) for name in ("num_inference_steps", "strength")
            )
            if int(steps * strength) < 1:
                raise Refusal(f"strength {strength:g} of {steps} steps leaves none", param="strength")
        if unknown := [name for name in arguments if name not in accepted]:
            raise Refusal(f"{type(pipeline).__name__} takes no {unknown[0]}", param=unknown[0])
        return Task(
            pipeline=pipeline,
            arguments=arguments,
            seed=fields.get("seed", secrets.randbelow(2**31)),
            request_id=request_id,
        )

    def generate(self, task: Task, on_progress: Callable[[float], None] = lambda _share: None) -> Any:
        """Uint8: ``(count, height, width, 3)`` of images, ``(frames, height, width, 3)`` of a clip.

        Raises:
            Stopped: when the server is asked to end meanwhile, or the task is given up.
        """

        def on_step(number: int) -> None:
            if self._stop.is_set() or task.given_up.is_set():
                raise Stopped
            on_progress((number - 1) / len(task.pipeline.scheduler.timesteps))

        generator = torch.Generator("cpu").manual_seed(task.seed)
        with observed(task.pipeline, on_step) as seen:
            made = task.pipeline(**task.arguments, generator=generator, output_type="np")
        pixels = made.images if self.kind == "image" else made.frames[0]
        self._report(task, seen, pixels.shape)
        return to_levels(pixels)

    def _report(self, task: Task, seen: Observation, shape: tuple[int, ...]) -> None:
        if task.request_id is not None:
            size = {"height": shape[1], "width": shape[2]} | ({"num_frames": shape[0]} if self.kind == "video" else {})
            self.reports.add(task.request_id, task.pipeline, seen, size=size)

    def _check_size(self, size: tuple[int, int]) -> None:
        """Refuse a size that the pipeline would round or that is out of bounds."""
        pipeline = self._pipeline
        if self.kind == "image":
            step = pipeline.vae_scale_factor
        else:
            step = pipeline.vae_scale_factor_spatial * pipeline.transformer.config.patch_size[1]
        if any(side % step for side in size) or size[0] * size[1] > _MOST_PIXELS:
            message = f"{size[0]}x{size[1]} is not served: sides are multiples of {step}, at most {_MOST_PIXELS} pixels"
            raise Refusal(message, param="size")
