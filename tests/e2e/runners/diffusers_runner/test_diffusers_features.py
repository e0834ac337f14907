"""Caches, adapters, compilation, offload and attention backends: on with evidence, or refused."""

import hashlib
import importlib.util

import msgspec
import numpy as np
import pytest

from paritygate.errors import LegError

from .conftest import DIGITS

FIRST_BLOCK = "FirstBlockCacheConfig"


@pytest.fixture
def adapter(tmp_path):
    """Writes a LoRA for the digits' UNet and says it as a manifest would."""

    def write(*, scale=1.0, strength=0.3, prefix="unet.", name="adapter.safetensors", seed=0) -> dict:
        import torch  # noqa: PLC0415 - a heavy import
        from diffusers import UNet2DConditionModel  # noqa: PLC0415 - a heavy import
        from safetensors.torch import save_file  # noqa: PLC0415 - a heavy import

        draw = torch.Generator().manual_seed(seed)
        layers = UNet2DConditionModel.from_pretrained(DIGITS / "unet").named_modules()
        tensors = {}
        for path, layer in layers:
            if path.endswith((".to_q", ".to_v")):
                tensors[f"{prefix}{path}.lora_A.weight"] = torch.randn(2, layer.in_features, generator=draw)
                tensors[f"{prefix}{path}.lora_B.weight"] = strength * torch.randn(layer.out_features, 2, generator=draw)
        save_file(tensors, tmp_path / name)
        digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        return {"path": name, "sha256": f"sha256:{digest}", "scale": scale}

    return write


@pytest.mark.parametrize(("threshold", "hits"), [(1e9, 4), (0.0, 0)])
def test_a_cache_shows_its_hits_and_none_when_it_never_fires(run, clip_job, threshold, hits):
    plain = np.load(run(clip_job(steps=3)).media("video"))
    cache = {"class": FIRST_BLOCK, "config": {"threshold": threshold}}
    ran = run(clip_job(steps=3, cache=cache))
    counters = ran.effective.features["cache"]
    # Two denoiser calls a step, with and without the prompt; the first of each fills the cache.
    assert (counters["denoiser_calls"], counters["cache_hits"]) == (6, hits)
    assert (counters["skipped_layers"] > 0) == (hits > 0)
    assert counters["computed_percent"].startswith("100, 100, ")
    assert np.array_equal(plain, np.load(ran.media("video"))) == (hits == 0)
    assert FIRST_BLOCK in ran.settings["cache"]


def test_a_cache_begins_anew_with_every_item_and_bears_the_name_of_its_feature(run, clip_job):
    cache = {"class": FIRST_BLOCK, "config": {"threshold": 1e9}}
    job = clip_job(items=2, steps=3, cache=cache, feature="first-block")
    same = (msgspec.structs.replace(job.items[1], id="0000"), job.items[1])
    ran = run(msgspec.structs.replace(job, items=same))
    assert np.array_equal(np.load(ran.media("video", 0)), np.load(ran.media("video", 1)))
    counters = ran.effective.features["first-block"]
    assert (counters["denoiser_calls"], counters["cache_hits"]) == (12, 8)
    assert counters["computed_percent"].split(", ")[6:8] == ["100", "100"]


def test_a_cache_that_skips_attention_only_shows_as_well(run, clip_job):
    config = {"cross_attention_block_skip_range": 2, "cross_attention_timestep_skip_range": [0, 1000],
              "cross_attention_block_identifiers": ["blocks"]}  # fmt: skip
    ran = run(clip_job(steps=3, cache={"class": "PyramidAttentionBroadcastConfig", "config": config}))
    counters = ran.effective.features["cache"]
    assert counters["cache_hits"] > 0
    assert 0 < counters["skipped_layers"] < counters["layers"] / 2


@pytest.mark.parametrize(("lite", "fires"), [(False, False), (True, True)])
def test_a_cache_whose_own_patterns_match_no_layer_of_the_model_is_found_out(run, clip_job, lite, fires):
    # The default patterns of TaylorSeer end in "attn"; the layers of Wan are named "attn1" and "attn2".
    config = {
        "use_lite_mode": lite,
        "disable_cache_before_step": 1,
        "cache_interval": 2,
        "taylor_factors_dtype": "float32",
    }
    ran = run(clip_job(steps=4, cache={"class": "TaylorSeerCacheConfig", "config": config}))
    assert (ran.effective.features["cache"]["cache_hits"] > 0) == fires


def test_a_cache_in_a_compiled_denoiser_shows_no_hits_and_says_why(run, clip_job):
    cache = {"class": FIRST_BLOCK, "config": {"threshold": 1e9}}
    ran = run(clip_job(cache=cache, compile={"transformer": {"backend": "eager"}}))
    assert "compiled" in ran.effective.features["cache"]["uncounted"]
    assert ran.effective.features["compile"]["compiled_graphs"] > 0


@pytest.mark.parametrize(
    ("make", "cache", "words"),
    [
        ("clip_job", {"class": "FirstBlockCache"}, "has no 'FirstBlockCache'; it has: .*FirstBlockCacheConfig"),
        ("clip_job", {"class": FIRST_BLOCK, "config": {"treshold": 1}}, "no argument 'treshold'; nearest: threshold"),
        (
            "clip_job",
            {"class": FIRST_BLOCK, "config": {"threshold": "0.1"}},
            "threshold: expected a float such as 0.05",
        ),
        (
            "clip_job",
            {"class": "TaylorSeerCacheConfig", "config": {"taylor_factors_dtype": "fp32"}},
            "expected a dtype such as float32, found 'fp32'",
        ),
        ("clip_job", {"class": "MagCacheConfig"}, "cannot be put on transformer:.*mag_ratios"),
        ("picture_job", {"class": FIRST_BLOCK}, "unet .UNet2DConditionModel. takes no cache hooks"),
    ],
)
def test_a_cache_that_does_not_exist_is_refused(run, request, make, cache, words):
    with pytest.raises(LegError, match=words):
        run(request.getfixturevalue(make)(cache=cache))


def test_an_adapter_changes_the_picture_by_its_scale_and_shows_its_layers(run, picture_job, adapter):
    plain = run(picture_job()).image()
    wanted = adapter(scale=0.5)
    half = run(picture_job(lora=[wanted]))
    whole = run(picture_job(lora=[{**wanted, "scale": 1.0}]))
    none = run(picture_job(lora=[{**wanted, "scale": 0.0}]))
    assert half.effective.features["lora"]["lora_0_layers"] > 0
    assert half.settings["lora.0"] == f"{wanted['sha256']} times 0.5"
    change = [np.abs(ran.image() - plain).mean() for ran in (none, half, whole)]
    assert change[0] < 1e-5 < change[1] < change[2]


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`:UserWarning")
def test_adapters_are_loaded_in_order_each_with_its_own_scale(run, picture_job, adapter):
    wanted = [adapter(scale=0.25), adapter(scale=0.75, name="second.safetensors", seed=1)]
    ran = run(picture_job(lora=wanted, feature="style"))
    assert [ran.settings[f"lora.{number}"].split(" times ")[1] for number in (0, 1)] == ["0.25", "0.75"]
    assert ran.effective.features["style"].keys() == {"lora_0_layers", "lora_1_layers"}


@pytest.mark.parametrize(
    ("written", "changes", "words"),
    [
        ({}, {"sha256": "sha256:" + "0" * 64}, "has the sha256 [0-9a-f]{64}, the manifest says sha256:0000"),
        ({}, {"path": "../adapter.safetensors"}, "not a plain relative path"),
        ({"name": "adapter.bin"}, {}, "is no safetensors file"),
        ({"prefix": "transformer."}, {}, "LoRA touched no layer: adapter.safetensors"),
        ({"strength": 0.0}, {}, "LoRA touched no layer: adapter.safetensors"),
    ],
)
def test_an_adapter_that_is_not_the_one_or_does_nothing_is_refused(run, picture_job, adapter, written, changes, words):
    with pytest.raises(LegError, match=words):
        run(picture_job(lora=[{**adapter(**written), **changes}]))


def test_adapters_need_peft_and_the_error_says_how_to_get_it(run, picture_job, adapter, monkeypatch):
    wanted, found = adapter(), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "peft" else found(name, *rest))
    with pytest.raises(LegError, match="lora needs the Python package 'peft'") as caught:
        run(picture_job(lora=[wanted]))
    assert caught.value.hint == "pip install peft"


@pytest.mark.parametrize(
    "compiled", [{"unet": {"backend": "eager"}, "vae": {"backend": "eager"}}, {"text_encoder": {"backend": "eager"}}]
)
def test_a_compiled_part_gives_the_same_picture_and_shows_its_graphs(run, picture_job, compiled):
    plain, ran = run(picture_job()), run(picture_job(compile=compiled))
    assert np.abs(plain.image() - ran.image()).max() < 1e-5
    assert ran.effective.features["compile"]["compiled_graphs"] >= len(compiled)
    assert ran.settings["dtype.unet"] == ran.settings["dtype.vae"] == "float32"
    assert ran.settings["attention_backend"] == "native"


@pytest.mark.parametrize(
    ("compiled", "kind", "words"),
    [
        ({"transformer": {}}, "crash", "no 'transformer'.*it has: .*unet"),
        ({"unet": {"fulgraph": True}}, "crash", "no 'fulgraph'; nearest: fullgraph"),
        ({"unet": {"backend": "inducter"}}, "backend", "no backend 'inducter'; nearest: inductor"),
    ],
)
def test_a_compilation_that_cannot_be_is_refused(run, picture_job, compiled, kind, words):
    with pytest.raises(LegError, match=words) as caught:
        run(picture_job(compile=compiled))
    assert caught.value.kind == kind


@pytest.mark.parametrize("offload", ["model", "sequential"])
def test_offload_without_a_card_is_a_failure_of_the_backend(run, picture_job, offload):
    with pytest.raises(LegError, match=f"offload '{offload}' moves weights between memory and a card") as caught:
        run(picture_job(offload=offload))
    assert caught.value.kind == "backend"


@pytest.mark.parametrize("make", ["clip_job", "picture_job"])
def test_an_attention_backend_that_quietly_becomes_another_is_a_failure_of_the_backend(run, request, make, monkeypatch):
    import diffusers  # noqa: PLC0415 - a heavy import

    monkeypatch.setattr(diffusers.ModelMixin, "set_attention_backend", lambda self, backend: None)
    with pytest.raises(LegError, match="'_native_math' was asked for, the layers use 'native'") as caught:
        run(request.getfixturevalue(make)(attention_backend="_native_math"))
    assert caught.value.kind == "backend"


def test_an_attention_backend_that_runs_is_the_one_that_is_observed(run, clip_job):
    assert run(clip_job(attention_backend="_native_math")).settings["attention_backend"] == "_native_math"


def test_an_attention_backend_of_a_package_that_is_not_there_is_a_failure_of_the_backend(run, clip_job):
    with pytest.raises(LegError, match="attention_backend 'sage' is not there") as caught:
        run(clip_job(attention_backend="sage"))
    assert caught.value.kind == "backend"


def test_a_card_that_is_not_there_is_a_failure_of_the_backend(run, picture_job, monkeypatch):
    import torch  # noqa: PLC0415 - a heavy import

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(LegError, match=r"runs on cuda:1, and PyTorch .* finds no card") as caught:
        run(picture_job(device="cuda:1"))
    assert caught.value.kind == "backend"


def test_a_dtype_of_a_component_that_is_not_there_is_refused(run, picture_job):
    with pytest.raises(LegError, match="the pipeline has no 'text_encodr'; nearest: text_encoder"):
        run(picture_job(dtype={"text_encodr": "bfloat16", "default": "float32"}))
