"""Conditioning media reach the pipeline as they are declared, or not at all."""

import msgspec
import numpy as np
import pytest
from PIL import Image

from paritygate.errors import LegError
from paritygate.media.paths import read_contained

STRENGTH = {"strength": 0.5, "num_inference_steps": 4}


@pytest.fixture
def edit_job(picture_job):
    """A job that redraws a picture."""

    def make(*inputs, pipeline="StableDiffusionImg2ImgPipeline", request=None, **rest):
        return picture_job(pipeline=pipeline, inputs=tuple(inputs), request={**STRENGTH, **(request or {})}, **rest)

    return make


def test_a_picture_is_redrawn_as_the_pipeline_alone_would_and_its_path_is_observed(run, edit_job, put_input, picture):
    import torch  # noqa: PLC0415 - a heavy import
    from diffusers import StableDiffusionImg2ImgPipeline  # noqa: PLC0415 - a heavy import

    job = edit_job(put_input("image", picture))
    ran = run(job)
    bare = StableDiffusionImg2ImgPipeline.from_pretrained(job.model_dir, dtype=torch.float32)
    bare.set_progress_bar_config(disable=True)
    prompt, generator = job.items[0].request["prompt"], torch.Generator("cpu").manual_seed(0)
    given = {"image": Image.fromarray(picture), "generator": generator, "guidance_scale": 3.0, **STRENGTH}
    expected = bare(prompt, output_type="np", **given).images[0]
    assert np.array_equal(ran.image(), expected)
    assert ran.settings["config.strength"] == 0.5
    assert (ran.settings["config.width"], ran.settings["config.height"]) == (32, 32)
    assert ran.settings["dtype.vae.encoder"] == "float32"
    assert ran.effective.environment["inputs"] == [
        {"role": "image", "path": "input.png", "argument": "image", "notes": []}
    ]


def test_the_conditioning_is_digested_after_preprocessing(run, edit_job, put_input, picture):
    first = run(edit_job(put_input("image", picture))).settings["conditioning.vae"]
    other = picture.copy()
    other[5, 5, 0] ^= 1
    digests = {}
    for name, pixels in {"same.png": picture, "other.png": other}.items():
        digests[name] = run(edit_job(put_input("image", pixels, name))).settings["conditioning.vae"]
    assert digests["same.png"] == first
    assert digests["other.png"] != first


def test_a_mask_is_grey_and_a_picture_under_it_is_filled(run, edit_job, put_input, picture):
    mask = np.zeros((32, 32), np.uint8)
    mask[8:24, 8:24] = 255
    inputs = [put_input("image", picture), put_input("mask", np.repeat(mask[..., None], 3, axis=-1), "mask.png")]
    ran = run(edit_job(*inputs, pipeline="StableDiffusionInpaintPipeline", request={"strength": 1.0}))
    assert [fact["argument"] for fact in ran.effective.environment["inputs"]] == ["image", "mask_image"]
    assert ran.image().shape == (32, 32, 3)


def test_the_first_frame_of_a_clip_is_the_image_of_its_pipeline(
    run, clip_job, put_input, picture, tmp_path, monkeypatch
):
    import diffusers  # noqa: PLC0415 - a heavy import
    import torch  # noqa: PLC0415 - a heavy import
    from diffusers.pipelines.wan import pipeline_wan_i2v  # noqa: PLC0415 - a heavy import

    # Its pipeline cleans prompts with ftfy and does not ask whether that is installed.
    monkeypatch.setattr(pipeline_wan_i2v, "ftfy", type("ftfy", (), {"fix_text": str}), raising=False)
    base = diffusers.WanPipeline.from_pretrained(clip_job().model_dir, dtype=torch.float32)
    torch.manual_seed(0)
    transformer = diffusers.WanTransformer3DModel.from_config({**base.transformer.config, "in_channels": 36})
    parts = {name: part for name, part in base.components.items() if name not in ("transformer", "transformer_2")}
    diffusers.WanImageToVideoPipeline(
        **parts, transformer=transformer, image_encoder=None, image_processor=None
    ).save_pretrained(tmp_path / "i2v")

    wanted = {"pipeline": "WanImageToVideoPipeline", "model": tmp_path / "i2v"}
    first = run(clip_job(inputs=(put_input("first_frame", picture),), **wanted))
    assert np.load(first.media("video")).shape == (5, 32, 32, 3)
    assert first.settings["conditioning.vae"].startswith("sha256:")
    both = (put_input("first_frame", picture), put_input("last_frame", picture[::-1], "last.png"))
    assert run(clip_job(inputs=both, **wanted)).settings["conditioning.vae"] != first.settings["conditioning.vae"]


def test_several_pictures_stay_in_order_and_turned_ones_are_upright(runner, picture_job, put_input, picture):
    class Edits:
        def __call__(self, image, prompt):
            """Like the pipelines that take several pictures."""

    exif = Image.Exif()
    exif[0x0112] = 6
    inputs = (
        put_input("image", picture[:16]),
        put_input("image", picture[:, :8], "turned.jpg", exif=exif, quality=100, subsampling=0),
        put_input("image", picture[..., 0], "grey.png"),
    )
    given, facts = runner.load_inputs(picture_job(inputs=inputs), Edits())
    assert [image.size for image in given["image"]] == [(32, 16), (32, 8), (32, 32)]
    assert {image.mode for image in given["image"]} == {"RGB"}
    assert np.array_equal(np.asarray(given["image"][0]), picture[:16])
    assert any("EXIF" in note for note in facts[1]["notes"])


def test_a_layered_output_gets_its_picture_with_alpha(runner, picture_job, put_input, picture):
    class Layered:
        def __call__(self, image):
            """Like the pipelines that take RGBA."""

    clear = np.dstack([picture, np.full((32, 32), 7, np.uint8)])
    job = picture_job(inputs=(put_input("image", clear),))
    output = msgspec.structs.replace(job.output, mode="RGBA", alpha="straight", layers=2)
    given, _ = runner.load_inputs(msgspec.structs.replace(job, output=output), Layered())
    assert np.array_equal(np.asarray(given["image"]), clear)


def test_a_sound_at_the_rate_of_the_pipeline_is_handed_over_and_another_rate_is_refused(
    runner, picture_job, put_input, tmp_path
):
    import soundfile  # noqa: PLC0415 - a heavy import

    class Sounds:
        vae = type("Vae", (), {"config": type("Config", (), {"sampling_rate": 16000})})

        def __call__(self, audio):
            """Like the pipelines that continue a sound."""

    wave = np.linspace(-0.5, 0.5, 64, dtype=np.float32).reshape(32, 2)
    for rate in (16000, 48000):
        soundfile.write(tmp_path / f"{rate}.wav", wave, rate, subtype="FLOAT")
    good, bad = (put_input("audio", (tmp_path / f"{rate}.wav").read_bytes(), f"{rate}.wav") for rate in (16000, 48000))
    given, _ = runner.load_inputs(picture_job(inputs=(good,)), Sounds())
    assert np.array_equal(given["audio"].numpy(), wave.T[None])
    with pytest.raises(LegError, match="48000 Hz, the pipeline works at 16000"):
        runner.load_inputs(picture_job(inputs=(bad,)), Sounds())


@pytest.mark.parametrize(
    ("role", "pipeline", "words"),
    [
        ("image", "StableDiffusionPipeline", "takes no input of the role 'image' .input.png.; it takes no inputs"),
        ("mask", "StableDiffusionImg2ImgPipeline", "the role 'mask'.*inputs of the role first_frame, image, source"),
        ("audio", "StableDiffusionImg2ImgPipeline", "takes no input of the role 'audio'"),
    ],
)
def test_an_input_that_a_class_does_not_take_is_refused_with_the_ones_that_it_takes(
    run, edit_job, put_input, picture, role, pipeline, words
):
    with pytest.raises(LegError, match=words):
        run(edit_job(put_input(role, picture), pipeline=pipeline, request={"strength": ...}))


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (np.zeros((32, 32, 4), np.uint8), "is transparent, and the pipeline would see what lies under it"),
        (np.zeros((32, 32), np.uint16), "has 16 bits a value"),
        (b"no picture at all", "input.png"),
        (np.zeros((32, 48, 3), np.uint8), "request.width is 32.*which has 48"),
    ],
)
def test_a_file_that_would_have_to_be_changed_is_refused(run, edit_job, put_input, pixels, words):
    with pytest.raises(LegError, match=words):
        run(edit_job(put_input("image", pixels)))


def test_a_file_that_is_not_the_one_of_the_manifest_or_lies_elsewhere_is_refused(run, edit_job, put_input, picture):
    good = put_input("image", picture)
    with pytest.raises(LegError, match=r"input\.png has the sha256 [0-9a-f]{64}, the manifest says 0000"):
        run(edit_job(msgspec.structs.replace(good, sha256="0" * 64)))
    with pytest.raises(LegError, match="not a plain relative path"):
        run(edit_job(msgspec.structs.replace(good, path="../input.png")))


def test_inputs_and_several_items_in_one_call_are_refused(run, edit_job, put_input, picture):
    with pytest.raises(LegError, match="batch_size is 2"):
        run(edit_job(put_input("image", picture), items=2, batch_size=2))


def test_an_opaque_alpha_channel_is_no_obstacle(run, edit_job, put_input, picture):
    opaque = np.dstack([picture, np.full((32, 32), 255, np.uint8)])
    plain = run(edit_job(put_input("image", picture)))
    ran = run(edit_job(put_input("image", opaque, "opaque.png")))
    assert np.array_equal(ran.image(), plain.image())
    assert read_contained(ran.folder, ran.items[0].images[0].path)


def test_shared_latents_and_seeds_that_cannot_reach_the_model_are_refused(
    run, runner, edit_job, put_input, picture, tmp_path
):
    np.save(tmp_path / "latents.npy", np.zeros((1, 4, 8, 8), np.float32))
    job = edit_job(put_input("image", picture), latents=str(tmp_path / "latents.npy"))
    with pytest.raises(LegError, match="StableDiffusionImg2ImgPipeline takes no latents") as caught:
        run(job)
    assert "seeded" in caught.value.hint

    class Unseeded:
        def __call__(self, prompt):
            """Like the pipelines that draw nothing."""

    with pytest.raises(LegError, match=r"takes no generator, so request\.seed would change nothing"):
        runner.starting_noise(Unseeded(), job, job.items, {}, None)
