"""The tiny video model sees its prompt: random weights must not make a case blind to what it asks."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests/e2e/accuracy/tiny_video/model"
BUILDER = ROOT / "tools/build_tiny_video.py"
#: Another prompt must move the picture this many times as much as bfloat16 does.
MARGIN = 5.0


def clip(model: Path, *, dtype: Any, prompt: str = "a red ball moves left") -> np.ndarray:
    torch.set_num_threads(1)
    pipeline = diffusers.WanPipeline.from_pretrained(model, dtype=dtype, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    call = {"height": 64, "width": 64, "num_frames": 9, "num_inference_steps": 10, "guidance_scale": 5.0}
    call["max_sequence_length"] = 32  # the 512 of Wan would drown a short prompt in padding
    generator = torch.Generator("cpu").manual_seed(0)
    frames = pipeline(prompt, negative_prompt="a dog", generator=generator, output_type="np", **call).frames[0]
    return np.asarray(frames, np.float64)


def prompt_over_noise(model: Path) -> float:
    """How much another prompt moves the picture, in units of what bfloat16 does; repeating moves nothing."""
    usual = clip(model, dtype=torch.float32)
    assert np.array_equal(clip(model, dtype=torch.float32), usual)
    other = clip(model, dtype=torch.float32, prompt="a blue cat moves right")
    rounded = clip(model, dtype=torch.bfloat16)
    return float(np.abs(other - usual).mean() / np.abs(rounded - usual).mean())


def test_another_prompt_counts_far_more_than_the_noise_of_bfloat16() -> None:
    assert prompt_over_noise(MODEL) >= MARGIN


def test_weights_as_pytorch_draws_them_are_blind_to_the_prompt(tmp_path: Path) -> None:
    runpy.run_path(str(BUILDER))["build"](redraw=False).save_pretrained(tmp_path)
    assert prompt_over_noise(tmp_path) < MARGIN


def test_the_builder_writes_the_shipped_weights(tmp_path: Path) -> None:
    built = runpy.run_path(str(BUILDER))["build"]()
    shipped = diffusers.WanPipeline.from_pretrained(MODEL, dtype=torch.float32, local_files_only=True)
    for name in ("text_encoder", "transformer", "vae"):
        wanted, found = getattr(shipped, name).state_dict(), getattr(built, name).state_dict()
        assert wanted.keys() == found.keys()
        assert all(torch.equal(wanted[key], found[key]) for key in wanted)
