"""Clips, sound and several images of an item, raw and encoded."""

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

from paritygate.errors import LegError, MissingExtraError
from paritygate.manifest.case import Output
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries
from paritygate.manifest.suite import items
from paritygate.media.levels import to_stored
from paritygate.media.video import open_video
from paritygate.runners.writer import latents_digest

from .conftest import ACCURACY

H264 = {"container": "mp4", "codec": "libx264", "pixel_format": "yuv420p"}
LOSSLESS = {"container": "mkv", "codec": "ffv1", "pixel_format": "bgr0"}
OLD_NUMPY_PROTOCOL = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def test_a_clip_is_what_the_pipeline_alone_makes_and_what_took_effect_is_observed(run, clip_job):
    import torch  # noqa: PLC0415 - a heavy import
    from diffusers import WanPipeline  # noqa: PLC0415 - a heavy import

    job = clip_job(items=2)
    ran = run(job)
    bare = WanPipeline.from_pretrained(job.model_dir, dtype=torch.float32)
    bare.set_progress_bar_config(disable=True)
    expected = bare(prompt=job.items[1].request["prompt"], negative_prompt="", width=32, height=32, num_frames=5,
                    num_inference_steps=2, guidance_scale=5.0, max_sequence_length=16, output_type="np",
                    generator=torch.Generator("cpu").manual_seed(1)).frames[0]  # fmt: skip
    clip = np.load(ran.media("video", 1))
    assert clip.dtype == np.float32
    assert np.array_equal(clip, expected)
    assert ran.items[1].media[0].fps == 8

    noise = torch.randn((1, 16, 2, 4, 4), generator=torch.Generator("cpu").manual_seed(1))
    assert ran.effective.initial_latents["0001"] == latents_digest(noise[0].numpy())
    assert len(ran.effective.timesteps) == len(ran.effective.sigmas) == 2
    assert [len(row) for row in ran.effective.token_ids["0000"]] == [16, 16]
    settings = ran.settings
    assert (settings["config.num_frames"], settings["config.height"], settings["config.width"]) == (5, 32, 32)
    assert {settings[f"dtype.{part}"] for part in ("text_encoder", "transformer", "vae")} == {"float32"}
    assert settings["config.scheduler.class"] == "UniPCMultistepScheduler"
    assert "dtype.vae.encoder" not in settings


def test_the_same_call_twice_gives_the_same_bits_in_any_order(run, clip_job, picture_job, tmp_path):
    for make in (clip_job, picture_job):
        job = make(items=2)
        same = (msgspec.structs.replace(job.items[1], id="0000"), msgspec.structs.replace(job.items[1], id="0001"))
        ran = run(msgspec.structs.replace(job, items=same))
        first, second = (
            np.load(ran.media("video", number)) if job.output.has_video else ran.image(number) for number in (0, 1)
        )
        assert np.array_equal(first, second)
        assert len(set(ran.effective.initial_latents.values())) == 1


def test_shared_latents_of_a_clip_reach_a_pipeline_of_half_precision_unrounded(run, clip_job, tmp_path):
    noise = np.random.default_rng(0).standard_normal((1, 16, 2, 4, 4), dtype=np.float32)
    np.save(tmp_path / "latents.npy", noise)
    ran = run(clip_job(latents=str(tmp_path / "latents.npy"), steps=1, dtype="bfloat16"))
    assert ran.effective.initial_latents["0000"] == latents_digest(noise[0])
    assert "bfloat16" in ran.settings["dtype.transformer"]


def test_an_encoded_clip_holds_the_rounded_frames_at_the_rate_that_was_asked_for(run, clip_job, tmp_path):
    raw = np.load(run(clip_job(items=2)).media("video", 1))
    job = clip_job(items=2, output={"representation": "encoded"}, encode=LOSSLESS, batch_size=2)
    ran = run(job)
    with open_video(ran.media("video", 1)) as clip:
        frames = np.stack(list(clip))
        assert (clip.facts.fps, clip.facts.codec) == (8, "ffv1")
    # A batch of two rounds differently than one clip alone, by at most one level.
    assert np.abs(frames.astype(int) - to_stored(raw)).max() <= 1
    assert sorted(path.name for path in ran.folder.iterdir()) == ["effective.json", "outputs", "outputs.json"]


@pytest.mark.parametrize(
    ("encode", "output", "words"),
    [
        (None, {}, "does not say how it encodes"),
        (LOSSLESS, {"kind": "audio", "sample_rate_hz": 16000, "channels": 1}, "encodes clips only"),
        ({**H264, "codec": "lib264"}, {}, "no encoder 'lib264'; nearest: libx264"),
        ({**H264, "pixel_format": "yuv42p"}, {}, "libx264 takes no 'yuv42p'; nearest: yuv42"),
        ({**H264, "container": "webm"}, {}, "libx264 in webm with yuv420p, 32x32 at 8 fps cannot be written"),
        (H264, {"kind": "video_audio", "sample_rate_hz": 16000, "channels": 1}, "encode.audio_codec is missing"),
    ],
)
def test_how_a_clip_is_encoded_is_tried_before_anything_is_loaded(run, clip_job, encode, output, words):
    job = clip_job(output={"representation": "encoded", **output}, encode=encode, model="/nowhere")
    with pytest.raises(LegError, match=words):
        run(job)


def test_without_the_video_library_the_error_says_what_to_install(run, clip_job, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.delitem(sys.modules, "paritygate.runners.encode", raising=False)
    with pytest.raises(MissingExtraError, match="'av'") as caught:
        run(clip_job(output={"representation": "encoded"}, encode=LOSSLESS))
    assert "pip install 'paritygate[video]'" in caught.value.hint


def test_the_shift_of_the_request_is_the_shift_of_the_scheduler(run, clip_job, tmp_path):
    plain, shifted = run(clip_job()), run(clip_job(request={"flow_shift": 7.0}))
    assert shifted.settings["config.scheduler.flow_shift"] == 7.0
    assert shifted.effective.sigmas[1] > plain.effective.sigmas[1]


UNIPC = {"class": "UniPCMultistepScheduler", "config": {"flow_shift": 3.0}}
SOUND = Output(kind="audio", sample_rate_hz=8, channels=1)
IMAGES = {"kind": "images", "frames": None, "fps": None}


@pytest.mark.parametrize(
    ("make", "changes", "words"),
    [
        (
            "clip_job",
            {"request": {"flow_shift": 5.0}, "scheduler": UNIPC},
            "request.flow_shift is 5.0, and scheduler.config.flow_shift of the leg is 3.0",
        ),
        ("picture_job", {"request": {"flow_shift": 5.0}}, "flow_shift: DDIMScheduler has none of flow_shift, shift"),
        ("picture_job", {"request": {"boundary_ratio": 0.9}}, "StableDiffusionPipeline has no such setting"),
        ("picture_job", {"request": {"fps": 8}}, "takes no argument 'fps'"),
        ("clip_job", {"call": {"frame_rate": 3}}, "no argument 'frame_rate'"),
        (
            "clip_job",
            {"output": IMAGES, "request": {"fps": ...}},
            "WanPipeline gives frames, and output.kind is images",
        ),
        ("picture_job", {"output": SOUND}, "StableDiffusionPipeline gives images"),
    ],
)
def test_what_a_class_cannot_do_is_refused(run, request, make, changes, words):
    with pytest.raises(LegError, match=words):
        run(request.getfixturevalue(make)(steps=1, **changes))


def test_several_images_of_an_item_are_its_own_and_lie_side_by_side(run, picture_job, tmp_path):
    two = Output(kind="images", count=2, width=32, height=32)
    ran = run(picture_job(items=2, output=two))
    assert [len(item.images) for item in ran.items] == [2, 2]
    assert ran.settings["config.num_images_per_prompt"] == 2
    batched = run(picture_job(items=2, output=two, batch_size=2))
    assert batched.effective.initial_latents == ran.effective.initial_latents
    for number in (0, 1):
        for index in (0, 1):
            assert np.abs(batched.image(number, index) - ran.image(number, index)).max() < 1e-4
    assert not np.array_equal(ran.image(0, 0), ran.image(0, 1))


def test_several_images_cannot_start_from_the_same_latents(run, picture_job, tmp_path):
    np.save(tmp_path / "latents.npy", np.zeros((1, 4, 8, 8), np.float32))
    two = Output(kind="images", count=2, width=32, height=32)
    with pytest.raises(LegError, match="2 outputs per item would start from the same shared latents"):
        run(picture_job(output=two, latents=str(tmp_path / "latents.npy")))


@OLD_NUMPY_PROTOCOL
def test_sound_is_stored_by_samples_at_the_rate_of_the_model(run, make_job, tmp_path):
    import diffusers  # noqa: PLC0415 - a heavy import
    import torch  # noqa: PLC0415 - a heavy import

    torch.manual_seed(0)
    blocks = {
        "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
        "mid_block_type": "UNetMidBlock1D",
        "up_block_types": ("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip"),
    }
    unet = diffusers.UNet1DModel(
        **blocks, block_out_channels=(32, 32, 64), extra_in_channels=64, sample_size=512, sample_rate=16000,
        flip_sin_to_cos=True, use_timestep_embedding=False, time_embedding_type="fourier",
    )  # fmt: skip
    diffusers.DanceDiffusionPipeline(unet, diffusers.IPNDMScheduler()).save_pretrained(tmp_path / "dance")
    output = Output(kind="audio", sample_rate_hz=16000, channels=2)
    request = {"duration_s": 0.064, "num_inference_steps": 2}
    job = make_job(tmp_path / "dance", "DanceDiffusionPipeline", request, prompts=("",), items=1, output=output)
    items = tuple(msgspec.structs.replace(item, request={**request, "seed": 0}) for item in job.items)
    ran = run(msgspec.structs.replace(job, items=items))
    assert np.load(ran.media("audio")).shape == (1024, 2)
    assert ran.items[0].media[0].sample_rate_hz == 16000
    assert ran.settings["config.audio_length_in_s"] == 0.064


def test_a_clip_with_sound_is_one_encoded_file_or_two_raw_ones(runner, clip_job, picture):
    from paritygate.runners.diffusers_outputs import made_of, store  # noqa: PLC0415 - loads PyTorch

    class Pipeline:
        vocoder = type("Vocoder", (), {"config": type("Config", (), {"output_sampling_rate": 24000})})

    frames = np.repeat(picture[None, None].astype(np.float32) / 255, 5, axis=1)
    wave = 0.5 * np.sin(np.arange(15000, dtype=np.float32) / 9)
    answer = type("Answer", (), {})()
    answer.frames, answer.audio = frames, np.stack([wave, -wave])[None]
    stored = {}
    methods = {
        role: lambda _self, _item, value, role=role, **facts: stored.update({role: (value, facts)})
        for role in ("audio", "video")
    }
    writer = type("Writer", (), methods)()
    job = clip_job(output={"kind": "video_audio", "sample_rate_hz": 24000, "channels": 2})
    store(job, job.items, made_of(answer, job, Pipeline()), writer)
    assert np.array_equal(stored["audio"][0], np.stack([wave, -wave], axis=1))
    assert stored["audio"][1] == {"sample_rate_hz": 24000, "index": 0}
    assert stored["video"][1] == {"fps": 8.0, "index": 0}


def test_images_that_a_safety_checker_blanked_are_no_output(runner, picture_job):
    from paritygate.runners.diffusers_outputs import made_of  # noqa: PLC0415 - loads PyTorch

    answer = type("Answer", (), {"images": np.zeros((1, 32, 32, 3), np.float32), "nsfw_content_detected": [True]})()
    with pytest.raises(LegError, match="blanked 1 of its images"):
        made_of(answer, picture_job(), None)


def test_layers_and_pictures_of_pillow_lie_side_by_side(runner, picture_job, picture):
    from paritygate.runners.diffusers_outputs import made_of  # noqa: PLC0415 - loads PyTorch

    layers = np.linspace(0, 1, 3 * 4 * 4 * 4, dtype=np.float16).reshape(3, 4, 4, 4)
    for images in ([layers, layers[::-1]], [list(layers), list(layers[::-1])]):
        made = made_of(type("Answer", (), {"images": images})(), picture_job(), None)
        assert [image.dtype for image in made.images] == [np.float32] * 6
        assert np.array_equal(made.images[3], layers[2].astype(np.float32))
    made = made_of(type("Answer", (), {"images": [Image.fromarray(picture[..., 0])]})(), picture_job(), None)
    assert np.array_equal(made.images[0], picture[..., :1])


MANIFESTS = ("ltx2_t2va/ltx2-t2va", "qwen_image/qwen-image-t2i", "wan22_i2v/wan22-i2v")


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_the_requests_of_the_gpu_cases_are_what_their_classes_take(runner, clip_job, manifest):
    import diffusers  # noqa: PLC0415 - a heavy import

    project = find_project(ACCURACY)
    loaded = load_cases(project, load_registries(project), only=ACCURACY / f"{manifest}.case.yaml")
    (case,) = loaded.cases
    changes = {"items": items(case), "spec": dict(case.reference.spec), "output": case.output, "inputs": case.inputs}
    job = msgspec.structs.replace(clip_job(), root=str(project.root), **changes)
    pipeline = object.__new__(getattr(diffusers, job.spec["pipeline"]))
    inputs, facts = runner.load_inputs(job, pipeline)
    arguments = runner.call_arguments(pipeline, job, job.items[:1], inputs)
    assert arguments["prompt"]
    assert len(facts) == len(case.inputs)
    runner.check_encoding(msgspec.structs.replace(job, directory=str(Path(clip_job().root))))


def test_the_runner_loads_no_video_library_before_it_encodes(runner):
    script = "import sys, paritygate.runners.diffusers_outputs; print('av' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
