"""Two legs that are not what they claim to be: the checklist, or the exact layer, names the field at fault."""

import numpy as np
import pytest

from paritygate.compare.checklist import checklist

TRAILING = {"class": "DDIMScheduler", "config": {"timestep_spacing": "trailing"}}
ANCESTRAL = {"class": "EulerAncestralDiscreteScheduler"}
FLIP = """
def prepare(pipeline, job):
    import torch
    torch.set_float32_matmul_precision("medium")
"""
RESIZE = """
def prepare(pipeline, job):
    resize = pipeline.image_processor.preprocess
    pipeline.image_processor.preprocess = lambda image, **rest: resize(image.resize((32, 32), 0), **rest)
"""


def faults(reference, candidate) -> set[str]:
    rows = checklist(reference.effective, candidate.effective, ())
    return {row.field for row in rows if row.verdict == "undeclared"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, set()),
        ({"dtype": "bfloat16"}, {"dtype.text_encoder", "dtype.unet", "dtype.vae"}),
        ({"scheduler": TRAILING}, {"config.scheduler.timestep_spacing"}),
        ({"steps": 3}, {"config.num_inference_steps"}),
        ({"request": {"guidance_scale": 3.5}}, {"config.guidance_scale"}),
        ({"request": {"negative_prompt": "grey"}}, {"config.negative_prompt"}),
        ({"items": 2, "batch_size": 2}, {"batch_size"}),
    ],
)
def test_a_setting_of_one_side_only_is_named(run, picture_job, changes, named):
    assert faults(run(picture_job()), run(picture_job(**changes))) == named


def test_a_switch_of_the_process_is_named(run, picture_job, tmp_path):
    import torch  # noqa: PLC0415 - a heavy import

    (tmp_path / "flip.py").write_text(FLIP)
    plain = run(picture_job())
    try:
        flipped = run(picture_job(adapter=str(tmp_path / "flip.py")))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert faults(plain, flipped) == {"flags.float32_matmul_precision"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"attention_backend": "_native_math"}, "attention_backend"),
        ({"dtype": {"vae": "bfloat16", "default": "float32"}}, "dtype.vae"),
        ({"request": {"num_frames": 9}}, "config.num_frames"),
    ],
)
def test_a_setting_of_one_clip_only_is_named(run, clip_job, changes, named):
    assert faults(run(clip_job()), run(clip_job(**changes))) == {named}


def test_another_way_to_resize_the_picture_is_named(run, picture_job, put_input, tmp_path):
    (tmp_path / "resize.py").write_text(RESIZE)
    smooth = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    rest = {"pipeline": "StableDiffusionImg2ImgPipeline", "inputs": (put_input("image", smooth),),
            "request": {"strength": 0.6, "num_inference_steps": 4, "width": 64, "height": 64}}  # fmt: skip
    plain = run(picture_job(**rest))
    other = run(picture_job(adapter=str(tmp_path / "resize.py"), **rest))
    assert "conditioning.vae" in faults(plain, other)


def test_another_seed_shows_in_the_initial_latents_of_every_item(run, picture_job):
    one, other = (run(picture_job(items=2, request={"seed": seed})) for seed in (0, 7))
    assert one.effective.initial_latents.keys() == other.effective.initial_latents.keys()
    assert not set(one.effective.initial_latents.values()) & set(other.effective.initial_latents.values())


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_noise_that_a_sampler_draws_is_told_of_with_the_generator_that_it_comes_from(run, picture_job, tmp_path):
    assert "noise.sampler" not in run(picture_job()).settings
    seeded = run(picture_job(scheduler=ANCESTRAL))
    assert seeded.settings["noise.sampler"] == "cpu"
    (tmp_path / "unseeded.py").write_text(
        "def prepare(pipeline, job):\n    pipeline.prepare_extra_step_kwargs = lambda generator, eta: {}\n"
    )
    unseeded = run(picture_job(scheduler=ANCESTRAL, adapter=str(tmp_path / "unseeded.py")))
    assert faults(seeded, unseeded) == {"noise.sampler"}
    assert unseeded.settings["noise.sampler"] == "unseeded"


def test_a_shift_that_is_applied_twice_shows_in_the_noise_levels(run, clip_job):
    once, twice = run(clip_job(request={"flow_shift": 3.0})), run(clip_job(request={"flow_shift": 9.0}))
    assert faults(once, twice) == {"config.scheduler.flow_shift"}
    assert once.effective.sigmas != twice.effective.sigmas
