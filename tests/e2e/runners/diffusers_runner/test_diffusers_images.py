"""The ``diffusers`` runner on the trained weights of this repository: what it says is what happened."""

import copy
import functools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tokenizers import Tokenizer

from paritygate.errors import LegError
from paritygate.records.codec import loads
from paritygate.records.model import Effective
from paritygate.runners.job import Job, Outputs
from paritygate.runners.writer import LegWriter, latents_digest

MODEL = Path(__file__).resolve().parents[2] / "accuracy" / "tiny_digits" / "model"
#: Schedulers of Diffusers speak to NumPy 2.4 in a way that it deprecates.
OLD_NUMPY_PROTOCOL = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
PROMPTS = ("a red three on a white background", "a blue seven", "a handwritten nine")


@pytest.fixture
def make_job(picture_job, tmp_path):
    def make(*, items=2, steps=3, **rest) -> Job:
        (tmp_path / "leg").mkdir(exist_ok=True)
        return picture_job(items=items, steps=steps, **rest)

    return make


@pytest.fixture
def shared_noise(tmp_path):
    values = np.random.default_rng(0).standard_normal((3, 4, 8, 8), dtype=np.float32)
    np.save(tmp_path / "latents.npy", values)
    return str(tmp_path / "latents.npy"), values


def run(runner, job: Job) -> tuple[Effective, dict[str, np.ndarray]]:
    writer = LegWriter(job)
    runner.run(job, writer)
    writer.finish(complete=True)
    folder = Path(job.directory)
    outputs = loads((folder / "outputs.json").read_text(), Outputs)
    images = {item.id: np.load(folder / item.images[0].float_path) for item in outputs.items}
    return loads((folder / "effective.json").read_text(), Effective), images


def test_what_took_effect_is_observed_and_observing_changes_nothing(runner, make_job, shared_noise):
    import torch  # noqa: PLC0415 - a heavy import
    from diffusers import StableDiffusionPipeline  # noqa: PLC0415 - a heavy import

    path, noise = shared_noise
    effective, images = run(runner, make_job(latents=path))
    bare = StableDiffusionPipeline.from_pretrained(MODEL, dtype=torch.float32)
    bare.set_progress_bar_config(disable=True)
    expected = bare(PROMPTS[1], latents=torch.from_numpy(noise[1:2]), num_inference_steps=3, guidance_scale=3.0,
                    output_type="np").images[0]  # fmt: skip
    assert np.array_equal(images["0001"], expected)

    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer" / "tokenizer.json"))
    ids = tokenizer.encode(PROMPTS[1]).ids
    unconditional, prompt = effective.token_ids["0001"]
    assert prompt[: len(ids)] == ids
    assert unconditional[: len(tokenizer.encode("").ids)] == tokenizer.encode("").ids
    assert len(prompt) == len(unconditional) == 16

    assert effective.timesteps == [667, 334, 1]
    config = json.loads((MODEL / "scheduler" / "scheduler_config.json").read_text())
    alphas = np.cumprod(1 - np.linspace(config["beta_start"], config["beta_end"], 1000))[[667, 334, 1]]
    assert np.allclose(effective.sigmas, np.sqrt((1 - alphas) / alphas), rtol=1e-3)
    assert effective.initial_latents == {f"000{i}": latents_digest(noise[i]) for i in range(2)}

    settings = effective.settings
    wanted = {f"config.scheduler.{key}": value for key, value in config.items() if not key.startswith("_")} | {
        "attention_backend": "native", "batch_size": 1, "device": "cpu", "threads": 1, "flags_changed": "none",
        "flags.autocast": False, "flags.default_dtype": "float32", "flags.deterministic_algorithms": False,
        "flags.float32_matmul_precision": "highest",
        "dtype.text_encoder": "float32", "dtype.unet": "float32", "dtype.vae": "float32",
        "casts.text_encoder": "none", "casts.unet": "none", "casts.vae": "none",
        "config.guidance_scale": 3.0, "config.height": 32, "config.width": 32, "config.negative_prompt": "",
        "config.num_inference_steps": 3, "config.scheduler.class": "DDIMScheduler",
        "config.vae.scaling_factor": json.loads((MODEL / "vae" / "config.json").read_text())["scaling_factor"],
    }  # fmt: skip
    assert {name: settings[name] for name in wanted} == wanted
    assert settings.keys() == wanted.keys()


def test_every_item_of_a_batch_has_its_own_noise_and_its_own_tokens(runner, make_job):
    single, one_by_one = run(runner, make_job(items=3))
    job = make_job(items=3, batch_size=2)
    batched, together = run(runner, job)
    assert batched.settings["batch_size"] == 2
    assert batched.token_ids == single.token_ids
    assert batched.initial_latents == single.initial_latents
    assert len(set(single.initial_latents.values())) == 3
    assert all(np.abs(one_by_one[item] - together[item]).max() < 1e-4 for item in one_by_one)


@OLD_NUMPY_PROTOCOL
def test_a_scheduler_whose_noise_is_scaled_still_shows_the_latents_it_was_given(runner, make_job, shared_noise):
    path, noise = shared_noise
    effective, _ = run(runner, make_job(items=1, latents=path, scheduler={"class": "EulerDiscreteScheduler"}))
    assert effective.initial_latents["0000"] == latents_digest(noise[0])
    assert effective.settings["config.scheduler.class"] == "EulerDiscreteScheduler"
    assert len(effective.sigmas) == len(effective.timesteps) == 3
    assert effective.sigmas == sorted(effective.sigmas, reverse=True)
    assert effective.sigmas[-1] > 0


def test_another_spacing_shows_in_the_timesteps_and_in_the_config(runner, make_job):
    override = {"class": "DDIMScheduler", "config": {"timestep_spacing": "trailing"}}
    effective, _ = run(runner, make_job(items=1, scheduler=override))
    assert effective.settings["config.scheduler.timestep_spacing"] == "trailing"
    assert effective.timesteps == [999, 666, 332]


def test_half_precision_is_what_ran_and_its_noise_is_the_noise_handed_out(runner, make_job, shared_noise):
    path, noise = shared_noise
    effective, images = run(runner, make_job(items=1, latents=path, steps=1, dtype="bfloat16"))
    assert {effective.settings[f"dtype.{part}"] for part in ("text_encoder", "unet", "vae")} == {"bfloat16"}
    assert effective.initial_latents["0000"] == latents_digest(noise[0])
    assert images["0000"].dtype == np.float32


def test_only_the_exact_rounding_of_the_noise_handed_out_counts_as_it(runner):
    import torch  # noqa: PLC0415 - a heavy import

    from paritygate.runners.diffusers_settings import is_scaled  # noqa: PLC0415 - loads PyTorch

    given = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 4, 8, 8), dtype=np.float32))
    handed = given.to(torch.bfloat16)
    scheduler = type("Scheduler", (), {"init_noise_sigma": torch.tensor(14.6)})()
    other = (handed * 14.6).clone()
    other[0, 0, 0, 0] *= 1.01
    assert is_scaled(handed * torch.tensor(14.6), handed, scheduler)
    assert is_scaled(handed.float() * torch.tensor(14.6), handed, scheduler)
    assert not is_scaled(other, handed, scheduler)
    assert not is_scaled(given * torch.tensor(14.6), handed, scheduler)
    assert not is_scaled(torch.cat([handed, handed]), handed, scheduler)


@OLD_NUMPY_PROTOCOL
@pytest.mark.parametrize("name", ["DPMSolverMultistepScheduler", "SASolverScheduler"])
def test_a_scheduler_with_an_infinite_setting_runs_and_spells_it(runner, make_job, name):
    effective, _ = run(runner, make_job(items=1, steps=2, scheduler={"class": name}))
    assert effective.settings["config.scheduler.lambda_min_clipped"] == "-inf"


def test_the_pipeline_goes_where_the_case_runs_unless_the_leg_says_otherwise(runner, make_job):
    job = msgspec.structs.replace(make_job(items=1, steps=1), device="meta")
    assert str(runner.load(job)[0].device) == "meta"
    assert str(runner.load(msgspec.structs.replace(job, spec={**job.spec, "device": "cpu"}))[0].device) == "cpu"


def test_without_guidance_there_is_one_row_of_tokens(runner, make_job):
    effective, _ = run(runner, make_job(items=1, steps=1, request={"guidance_scale": 1.0}))
    assert len(effective.token_ids["0000"]) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"pipeline": "StableDiffusionPipelin"},
            "no pipeline 'StableDiffusionPipelin'; nearest: StableDiffusionPipeline",
        ),
        ({"pipeline": "DDIMScheduler"}, "no pipeline 'DDIMScheduler'"),
        ({"scheduler": {"class": "DDIMSchedule"}}, "no scheduler 'DDIMSchedule'; nearest: DDIMScheduler"),
        ({"scheduler": {"class": "DDIMScheduler", "config": {"timestep_spacin": "x"}}}, "nearest: timestep_spacing"),
        ({"call": {"guidance": 2}}, "takes no argument 'guidance'; nearest: guidance_scale"),
        ({"request": {"true_cfg_scale": 4}}, "takes no argument 'true_cfg_scale'.*it takes: prompt, height"),
        ({"attention_backend": "flash"}, "attention_backend 'flash'"),
        ({"call": {"kwargs": 1}}, "takes no argument 'kwargs'"),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_the_nearest(runner, make_job, changes, words):
    with pytest.raises(LegError, match=words):
        run(runner, make_job(items=1, **changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"call": {"prompt": "a cat"}}, "'prompt' comes from the request"),
        ({"call": {"generator": 5}}, "'generator' comes from the seed of each item"),
        ({"request": {"latents": [1]}}, "'latents' comes from request.initial_latents"),
        ({"call": {"output_type": "pil"}}, "'output_type' comes from the runner"),
        ({"request": {"return_dict": False}}, "'return_dict' comes from the runner"),
        (
            {"call": {"eta": 0.5}, "scheduler": {"class": "DPMSolverMultistepScheduler"}},
            "eta is 0.5, and DPMSolverMultistepScheduler takes none, so it would change nothing",
        ),
    ],
)
def test_an_argument_that_is_not_the_legs_to_give_or_reaches_nobody_is_refused(runner, make_job, changes, words):
    with pytest.raises(LegError, match=words):
        run(runner, make_job(items=1, **changes))


def test_what_a_pipeline_ignores_is_reported_as_its_call_and_not_as_observed(runner, make_job, monkeypatch):
    import diffusers  # noqa: PLC0415 - takes seconds

    class Deaf(diffusers.StableDiffusionPipeline):
        @functools.wraps(diffusers.StableDiffusionPipeline.__call__)
        def __call__(self, *args, guidance_scale, negative_prompt, **rest):
            return super().__call__(*args, guidance_scale=7.5, **rest)

    job = make_job(items=1, request={"negative_prompt": "a blue cat", "clip_skip": None}, call={"eta": 0.5})
    good, _ = run(runner, job)
    assert good.environment["as_called"] == ["config.clip_skip", "config.eta"]
    unguided, _ = run(runner, make_job(items=1, request={"negative_prompt": "a blue cat", "guidance_scale": 1.0}))
    assert unguided.environment["as_called"] == ["config.negative_prompt"]
    monkeypatch.setattr(diffusers, "StableDiffusionPipeline", Deaf)
    deaf, _ = run(runner, job)
    assert deaf.settings["config.guidance_scale"] == 7.5
    assert deaf.environment["as_called"] == ["config.clip_skip", "config.eta", "config.negative_prompt"]


def test_an_adapter_may_prepare_the_pipeline(runner, make_job, tmp_path):
    (tmp_path / "oddity.py").write_text(
        "def prepare(pipeline, job):\n    pipeline.vae.register_to_config(scaling_factor=0.5)\n"
    )
    job = msgspec.structs.replace(make_job(items=1, steps=1), adapter=str(tmp_path / "oddity.py"))
    effective, _ = run(runner, job)
    assert effective.settings["config.vae.scaling_factor"] == 0.5


def test_a_copied_scheduler_keeps_its_own_steps_while_the_original_is_watched(runner):
    from paritygate.runners.observe_steps import watched_steps  # noqa: PLC0415 - loads PyTorch

    class Scheduler:
        def __init__(self):
            self.count = 0

        def step(self, model_output, timestep, sample):
            self.count += 1
            return self.count

    original, recorded = Scheduler(), []
    before = Scheduler.step
    with watched_steps(original, lambda timestep, sample: recorded.append((timestep, sample)), recorded.append):
        twin = copy.deepcopy(original)
        assert (original.step(0, 5, sample="a"), twin.step(0, 4, "b"), twin.step(0, 3, "c")) == (1, 1, 2)
    assert recorded == [(5, "a")]
    assert Scheduler.step is before
