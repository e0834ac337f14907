"""Jobs of the ``diffusers`` runner on the tiny pipelines of this repository, run in this process."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from PIL import Image

from paritygate.manifest.case import InputMedia, Item, Output
from paritygate.records.codec import loads
from paritygate.records.model import Effective, OutputItem
from paritygate.runners.job import Job, Outputs
from paritygate.runners.writer import LegWriter

ACCURACY = Path(__file__).resolve().parents[2] / "accuracy"
DIGITS = ACCURACY / "tiny_digits" / "model"
VIDEO = ACCURACY / "tiny_video" / "model"
PROMPTS = ("a red three on a white background", "a blue seven", "a handwritten nine")
CLIPS = ("a red ball moves left", "a blue cat moves right")


class Ran(NamedTuple):
    """What a leg left: its effective settings, its outputs, and its folder."""

    effective: Effective
    items: tuple[OutputItem, ...]
    folder: Path

    @property
    def settings(self) -> dict:
        return self.effective.settings

    def image(self, number: int = 0, index: int = 0) -> np.ndarray:
        return np.load(self.folder / self.items[number].images[index].float_path)

    def media(self, role: str, number: int = 0) -> Path:
        return next(self.folder / media.path for media in self.items[number].media if media.role == role)


@pytest.fixture(scope="session")
def runner():
    """The runner's module; PyTorch and Diffusers load here, once."""
    from paritygate.runners import diffusers  # noqa: PLC0415 - takes seconds, so not while tests are collected

    return diffusers


@pytest.fixture(autouse=True)
def own_attention_backend(monkeypatch, runner):
    """Choosing an attention backend for one model changes the default of the process, and a leg is one process."""
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry  # noqa: PLC0415 - a heavy import

    monkeypatch.setattr(_AttentionBackendRegistry, "_active_backend", _AttentionBackendRegistry._active_backend)


@pytest.fixture
def make_job(tmp_path):
    """Builds a job of one class on one folder of weights, with changes of the spec."""

    def make(model, pipeline, request, *, prompts, items, output, adapter=None, **rest) -> Job:
        shared = {key: value for key, value in request.items() if value is not ...}
        fields = {key: rest.pop(key) for key in ("inputs", "latents", "feature", "device") if key in rest}
        fields = {"inputs": (), "latents": None, "feature": None, "device": "cpu", **fields}
        return Job(
            case="c", leg="reference", runner="diffusers", root=str(tmp_path), folder=str(tmp_path),
            directory=str(tmp_path / "leg"), adapter=adapter, model_id="m", model_revision="r", model_dir=str(model),
            spec={"pipeline": pipeline, "dtype": "float32", **rest}, output=output,
            items=tuple(Item(id=f"{i:04d}", request={"prompt": prompts[i], "seed": i, **shared}) for i in range(items)),
            **fields,
        )  # fmt: skip

    return make


@pytest.fixture
def picture_job(make_job):
    """A job that draws digits, 32x32."""

    def make(*, items=1, steps=2, request=None, pipeline="StableDiffusionPipeline", model=DIGITS, **rest) -> Job:
        shared = {"num_inference_steps": steps, "guidance_scale": 3.0, "width": 32, "height": 32, **(request or {})}
        output = rest.pop("output", None) or Output(kind="images", width=32, height=32)
        return make_job(model, pipeline, shared, prompts=PROMPTS, items=items, output=output, **rest)

    return make


@pytest.fixture
def clip_job(make_job):
    """A job that makes clips of 5 frames, 32x32, at 8 frames a second."""

    def make(*, items=1, steps=2, request=None, pipeline="WanPipeline", model=VIDEO, **rest) -> Job:
        shared = {
            "num_inference_steps": steps, "guidance_scale": 5.0, "width": 32, "height": 32, "num_frames": 5, "fps": 8,
            "negative_prompt": "", **(request or {}),
        }  # fmt: skip
        declared = {"kind": "video", "width": 32, "height": 32, "frames": 5, "fps": 8, **rest.pop("output", {})}
        output = Output(**declared)
        # 16 tokens instead of the 512 of Wan: the text encoder's share of the time.
        call = {"max_sequence_length": 16, **rest.pop("call", {})}
        return make_job(model, pipeline, shared, prompts=CLIPS, items=items, output=output, call=call, **rest)

    return make


@pytest.fixture
def run(runner):
    """Runs a job in a folder of its own and reads what it left."""
    number = itertools.count()

    def run(job: Job) -> Ran:
        folder = Path(f"{job.directory}-{next(number)}")
        folder.mkdir()
        job = msgspec.structs.replace(job, directory=str(folder))
        writer = LegWriter(job)
        runner.run(job, writer)
        writer.finish(complete=True)
        outputs = loads((folder / "outputs.json").read_text(), Outputs)
        return Ran(loads((folder / "effective.json").read_text(), Effective), outputs.items, folder)

    return run


@pytest.fixture
def put_input(tmp_path):
    """Writes a conditioning file and says it as a manifest would."""

    def put(role: str, pixels: np.ndarray | bytes, name: str = "input.png", **options) -> InputMedia:
        path = tmp_path / name
        if isinstance(pixels, bytes):
            path.write_bytes(pixels)
        else:
            Image.fromarray(pixels).save(path, **options)
        return InputMedia(role=role, path=name, sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    return put


@pytest.fixture
def picture():
    """A picture whose every corner differs, ``(32, 32, 3)`` uint8."""
    rows, columns = np.mgrid[0:32, 0:32]
    return np.stack([rows * 7, columns * 7, (rows + columns) * 4], axis=-1).astype(np.uint8)
