"""Measure the room between good and bad for the bounds of the cases that run the example server.

    python tests/e2e/accuracy/measure_server_room.py

On one machine the server gives the bits of the pipeline that it serves, so repetition says nothing about how far two
correct servers may differ. This script lets the denoiser err by one part in a million, as other kernels do, and
compares with faults that a server really has. Everything runs in Diffusers, in about a minute on one core. It prints
a table for each case; the readings are in their READMEs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from PIL import Image

from paritygate.manifest.case import Case
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries
from paritygate.manifest.suite import items

CASES = ("tiny-digits-t2i-server", "tiny-digits-it2i-server", "tiny-video-t2v-server")
JITTER = 1e-6
JITTERS = 4
_NOT_ARGUMENTS = {"seed", "initial_latents", "latent_shape", "inputs", "fps"}

Pixels = list[Any]
#: Arguments of a call -> arguments of the faulty one; None where the case has no such argument.
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def change(name: str, by: Callable[[Any], Any]) -> Change:
    """Another value of one argument."""
    return lambda given: {**given, name: by(given[name])} if name in given else None


CHANGES: Mapping[str, Change] = {
    "guidance 0.1 more": change("guidance_scale", lambda value: value + 0.1),
    "one step less": change("num_inference_steps", lambda value: value - 1),
    "negative prompt lost": change("negative_prompt", lambda _value: None),
    "strength 0.8 for 0.75": change("strength", lambda _value: 0.8),
    "padded to 64 tokens": change("max_sequence_length", lambda _value: 64),
}


def main() -> None:
    """Print every table."""
    torch.set_num_threads(1)
    diffusers.logging.disable_progress_bar()
    project = find_project(Path(__file__).parent)
    cases = load_cases(project, load_registries(project)).cases
    for case in (case for case in cases if case.id in CASES):
        print(f"\n{case.id}")
        pipeline = _load(case, project.root)
        usual = _generate(pipeline, case, project.root)
        for name, made in _variants(pipeline, case, project.root, usual):
            print(f"| {name} | {_words(usual, made)} |", flush=True)


def _load(case: Case, root: Path) -> Any:
    kind = getattr(diffusers, case.reference.spec["pipeline"])
    pipeline = kind.from_pretrained(root / case.model.path, dtype=torch.float32, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _variants(pipeline: Any, case: Case, root: Path, usual: Pixels) -> Iterator[tuple[str, Pixels]]:
    yield "repeated", _generate(pipeline, case, root)
    for seed in range(JITTERS):
        with _jitter(pipeline, seed):
            yield f"denoiser errs by 1e-6, {seed}", _generate(pipeline, case, root)
    for name, changed in CHANGES.items():
        if changed({**_request(case)}) is not None:
            yield name, _generate(pipeline, case, root, changed)
    scheduler = pipeline.scheduler
    pipeline.scheduler = type(scheduler).from_config(scheduler.config, timestep_spacing="trailing")
    yield "trailing spacing", _generate(pipeline, case, root)
    pipeline.scheduler = scheduler
    yield "floor for round", [np.floor(each * 255) / 255 for each in usual]


def _request(case: Case) -> dict[str, Any]:
    return dict(items(case)[0].request)


def _generate(pipeline: Any, case: Case, root: Path, changed: Change = lambda given: given) -> Pixels:
    """Pixels of every item, floats in [0, 1]."""
    images = [Image.open(root / media.path).convert("RGB") for media in case.inputs]
    found = []
    for item in items(case):
        given = {name: value for name, value in item.request.items() if name not in _NOT_ARGUMENTS}
        if images:
            given = {name: value for name, value in given.items() if name not in ("width", "height")}
            given["image"] = images[0]
        generator = torch.Generator("cpu").manual_seed(item.request["seed"])
        result = pipeline(**(changed(given) or given), generator=generator, output_type="np")
        found.append(result.frames[0] if hasattr(result, "frames") else result.images[0])
    return found


@contextlib.contextmanager
def _jitter(pipeline: Any, seed: int) -> Iterator[None]:
    draw = torch.Generator("cpu").manual_seed(seed)

    def hook(_module: Any, _args: Any, output: Any) -> Any:
        first = output[0]
        return (first * (1 + JITTER * torch.randn(first.shape, generator=draw)),)

    denoiser = pipeline.components.get("unet") or pipeline.components["transformer"]
    handle = denoiser.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _words(usual: Pixels, made: Pixels) -> str:
    """PSNR in dB, worst and median over images or frames, and levels: the largest difference, the largest mean."""
    psnr, most, mean = [], 0.0, 0.0
    for left, right in zip(usual, made, strict=True):
        for a, b in zip(*(x if x.ndim == 4 else x[None] for x in (left, right)), strict=True):
            difference = np.abs(np.rint(a * 255.0) - np.rint(b * 255.0))
            square = float(np.mean(difference**2))
            psnr.append(10 * np.log10(255**2 / square) if square else np.inf)
            most, mean = max(most, float(difference.max())), max(mean, float(difference.mean()))
    return f"{min(psnr):.1f} | {np.median(psnr):.1f} | {most:.0f} | {mean:.4f}"


if __name__ == "__main__":
    main()
