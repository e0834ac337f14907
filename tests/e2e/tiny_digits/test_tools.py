"""The scripts that made and measured tiny-digits: their data, the reading of colours, and a training of two steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from tiny_digits import data, score  # noqa: E402


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_training_and_held_out_digits_are_all_the_digits_and_stay_the_same() -> None:
    training, held_out = data.split()
    assert (len(training.images), len(held_out.images)) == (1437, 360)
    assert torch.equal(training.images, data.split()[0].images)
    seen = {image.numpy().tobytes() for image in training.images}
    # No picture of the test set is one of the training set.
    assert not any(image.numpy().tobytes() in seen for image in held_out.images)


def test_pictures_have_two_colours_and_the_declared_range(generator: torch.Generator) -> None:
    pictures = data.pictures(data.split()[0], 50, generator=generator)
    assert pictures.images.shape == (50, 3, 32, 32)
    assert pictures.images.min() >= -1
    assert pictures.images.max() <= 1
    assert (pictures.inks != pictures.papers).all()


def test_captions_name_what_the_picture_shows_or_nothing() -> None:
    random = np.random.default_rng(0)
    captions = {data.caption(random, digit=3, ink=2, paper=1, drop=0.0) for _ in range(300)}
    assert len(captions) == len(data.CAPTIONS)
    assert all("three" in caption for caption in captions)
    assert "a red three on white" in captions
    assert data.caption(random, digit=3, ink=2, paper=1, drop=1.0) == ""


def test_ink_paper_and_strokes_are_recovered_for_every_pair_of_colours(generator: torch.Generator) -> None:
    pairs = [(ink, paper) for ink in range(6) for paper in range(6) if ink != paper]
    inks, papers = torch.tensor(pairs).T
    digits = data.split()[0].images[:30]
    masks = data.strokes(digits, generator)
    images = score.to_unit(data.paint(masks, inks, papers, generator))
    found_inks, found_papers, found_masks = score.recover(images)
    assert found_inks.tolist() == inks.tolist()
    assert found_papers.tolist() == papers.tolist()
    assert np.abs(found_masks - masks[:, 0].numpy()).mean() < 0.05


def test_a_wrong_digit_ink_or_paper_lowers_its_own_share() -> None:
    wanted = score.requests(10)
    assert score.share(wanted, wanted) == score.Share(1.0, 1.0, 1.0, 1.0)
    wrong = wanted._replace(digits=(wanted.digits + 1) % 10, inks=np.where(np.arange(10) < 5, wanted.inks, -1))
    assert score.share(wrong, wanted) == score.Share(0.0, 0.5, 1.0, 0.0)


def test_a_hundred_requests_cover_every_digit_and_every_pair_of_colours() -> None:
    wanted = score.requests(100)
    assert set(wanted.digits) == set(range(10))
    assert len(set(zip(wanted.inks, wanted.papers, strict=True))) == 30


def test_two_steps_of_training_leave_a_complete_pipeline(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "train_tiny_digits.py"), "--out", str(tmp_path / "model")]
    command += ["--steps", "2", "--vae-steps", "2", "--pool", "64"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "denoiser: step 2 of 2" in done.stdout

    from safetensors import safe_open  # noqa: PLC0415 - a heavy import

    with safe_open(tmp_path / "model" / "text_encoder" / "model.safetensors", framework="np") as tensors:
        assert all(name.startswith("text_model.") for name in tensors.keys())  # noqa: SIM118 - not a mapping
    shipped = ROOT / "tests" / "e2e" / "accuracy" / "tiny_digits" / "model"
    for name in ("model_index.json", "scheduler/scheduler_config.json", "text_encoder/config.json"):
        # The recipe is the shipped one: what depends neither on training nor on library versions is equal.
        made, given = (json.loads((folder / name).read_text()) for folder in (tmp_path / "model", shipped))
        for config in (made, given):
            config.pop("_diffusers_version", None)
            config.pop("transformers_version", None)
        assert made == given, name


def test_the_shipped_model_is_small_and_the_one_that_the_cases_pin() -> None:
    from paritygate.manifest.loader import load_yaml  # noqa: PLC0415
    from paritygate.media.digests import tree_digest  # noqa: PLC0415

    folder = ROOT / "tests" / "e2e" / "accuracy" / "tiny_digits"
    files = [path for path in (folder / "model").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 8_000_000
    base = load_yaml(folder / "base.yaml", display="base.yaml", root=folder)
    assert base.data["model"]["revision"] == tree_digest(folder / "model")
