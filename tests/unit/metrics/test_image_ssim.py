"""SSIM beside scikit-image in float64, and properties that hold for whatever Hypothesis draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from paritygate.metrics import blas, ssim
from paritygate.metrics.image import measure

pytestmark = pytest.mark.usefixtures("engine")

NAMES = ("ssim", "psnr_db", "abs_diff_mean", "abs_diff_p99", "abs_diff_worst_tile", "signed_mean_worst", "ssim_y")


def skimage_ssim(reference, candidate, *, data_range):
    sides = [side.astype(np.float64) for side in (reference, candidate)]
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "channel_axis": 2}
    return structural_similarity(*sides, data_range=data_range, **options)


def ours(reference, candidate, *, data_range=255, mode="RGB", name="ssim"):
    return measure((name,), reference, candidate, data_range=data_range, mode=mode)[name].number


def noisy(image, amount, seed=0):
    noise = np.random.default_rng(seed).normal(0, amount, image.shape)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


def picture(name):
    whole = getattr(data, name)()
    return np.ascontiguousarray((whole if whole.ndim == 3 else whole[..., None])[40:237, 60:291])  # odd sides


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "camera"])
@pytest.mark.parametrize("amount", [2.0, 20.0])
def test_ssim_of_real_pictures_is_that_of_scikit_image(name, amount):
    reference = picture(name)
    candidate = noisy(reference, amount)
    mode = "RGB" if reference.shape[2] == 3 else "L"
    expected = skimage_ssim(reference, candidate, data_range=255)
    assert ours(reference, candidate, mode=mode) == pytest.approx(expected, abs=1e-7)
    assert ours(reference, reference.copy(), mode=mode) == 1.0


@pytest.mark.parametrize("dtype", ["uint16", "float32", "float64"])
def test_ssim_of_other_dtypes_is_that_of_scikit_image(dtype):
    reference = picture("coffee")[:70]
    pair = [reference, noisy(reference, 4.0)]
    data_range = 65535 if dtype == "uint16" else 1.0
    pair = [(side * (data_range / 255)).astype(dtype) for side in pair]
    expected = skimage_ssim(*pair, data_range=data_range)
    assert ours(*pair, data_range=data_range) == pytest.approx(expected, abs=1e-12)


SYNTHETIC = {
    "near-flat": (lambda at: 250 + 0 * at, lambda at: 251 + 0 * at),
    "flat-areas-far-apart": (lambda at: 100 + 0 * at, lambda at: 200 + 0 * at),
    "black-and-white": (lambda at: 0 * at, lambda at: 255 + 0 * at),
    "text-with-noise": (lambda at: 20 + 210 * (at // 24 % 2), lambda at: noisy(20 + 210 * (at // 24 % 2), 8.0)),
    "unrelated": (lambda at: noisy(128 + 0 * at, 60.0, 1), lambda at: noisy(128 + 0 * at, 60.0, 2)),
}


@pytest.mark.parametrize("name", sorted(SYNTHETIC))
@pytest.mark.parametrize("shape", [(11, 11), (12, 97), (150, 161)])
def test_ssim_of_what_rounds_worst_is_that_of_scikit_image(name, shape, monkeypatch):
    monkeypatch.setattr(ssim, "_SMALL", 128 * 128)  # few windows do not average: small images are float64
    at = np.indices(shape).sum(axis=0)[..., None]
    pair = [make(at).astype(np.uint8) for make in SYNTHETIC[name]]
    assert ours(*pair, mode="L") == pytest.approx(skimage_ssim(*pair, data_range=255), abs=1e-7)


def test_ssim_of_an_image_of_several_blocks_and_tiles_is_that_of_scikit_image():
    at = np.add.outer(np.arange(75), 2 * np.arange(1065))[..., None]
    reference = noisy(128 + 100 * np.sin(at / 50.0), 5.0, 3)
    candidate = noisy(reference, 5.0, 4)
    expected = skimage_ssim(reference, candidate, data_range=255)
    assert ours(reference, candidate, mode="L") == pytest.approx(expected, abs=1e-7)


def test_ssim_y_is_that_of_scikit_image_on_unrounded_luma():
    reference = picture("chelsea")[:60]
    candidate = noisy(reference, 6.0)
    luma = [(side @ np.array([0.299, 0.587, 0.114]))[..., None] for side in (reference, candidate)]
    expected = skimage_ssim(*luma, data_range=255)
    assert ours(reference, candidate, name="ssim_y") == pytest.approx(expected, abs=1e-12)


def test_ssim_rgba_is_the_mean_of_four_straight_channels():
    reference = np.concatenate([picture("chelsea")[:40], picture("camera")[:40]], axis=2)
    candidate = noisy(reference, 6.0)
    expected = skimage_ssim(reference, candidate, data_range=255)
    assert ours(reference, candidate, mode="RGBA", name="ssim_rgba") == pytest.approx(expected, abs=1e-7)


def test_small_images_are_computed_in_float64(monkeypatch):
    monkeypatch.setattr(ssim, "_SMALL", 128 * 128)
    pair = [noisy(np.full((32, 32, 3), 90.0), 30.0, seed) for seed in (1, 2)]
    assert ours(*pair) == pytest.approx(skimage_ssim(*pair, data_range=255), abs=1e-13)


@pytest.mark.parametrize("amount", [1.0, 40.0])
def test_psnr_is_that_of_scikit_image(amount):
    reference = picture("coffee")[:90]
    candidate = noisy(reference, amount)
    expected = peak_signal_noise_ratio(reference, candidate, data_range=255)
    assert ours(reference, candidate, name="psnr_db") == pytest.approx(expected, abs=1e-9)


def test_matrix_products_are_held_to_one_thread_until_the_last_caller_is_done():
    def threads():
        return {pool["num_threads"] for pool in blas._controller().info()}

    before = threads()
    with blas.one_thread():
        with blas.one_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == before


sides = st.tuples(st.integers(11, 40), st.integers(11, 40))
quickly = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def drawn(size, seed, amount, channels=3):
    rng = np.random.default_rng(seed)
    reference = noisy(
        np.kron(rng.integers(0, 256, (6, 6, channels)), np.ones((8, 8, 1)))[: size[0], : size[1]], 9.0, seed
    )
    return reference, noisy(reference, amount, seed + 1)


@quickly
@given(sides, st.integers(0, 99), st.floats(0, 80))
def test_identity_and_symmetry_hold_for_any_image(size, seed, amount):
    reference, candidate = drawn(size, seed, amount)
    forth, back = (
        measure(NAMES, *pair, data_range=255, mode="RGB") for pair in ((reference, candidate), (candidate, reference))
    )
    assert {name: value.number for name, value in forth.items()} == {name: value.number for name, value in back.items()}
    same = measure(NAMES, reference, reference.copy(), data_range=255, mode="RGB")
    assert same["ssim"].number == same["ssim_y"].number == 1.0
    assert same["psnr_db"].number == float("inf")


@quickly
@given(sides, st.integers(0, 99))
def test_growing_noise_never_reads_as_better(size, seed):
    found = [
        measure(NAMES, *drawn(size, seed, amount), data_range=255, mode="RGB") for amount in (0.0, 3.0, 12.0, 50.0)
    ]
    for name, sign in (("ssim", -1), ("psnr_db", -1), ("abs_diff_mean", 1), ("abs_diff_p99", 1)):
        values = [sign * value[name].number for value in found]
        assert values == sorted(values), name


@quickly
@given(sides, st.integers(0, 99))
def test_b09_tiling_an_image_four_times_changes_no_difference(size, seed):
    pair = drawn(size, seed, 6.0)
    names = (
        "psnr_db",
        "abs_diff_mean",
        "abs_diff_p50",
        "abs_diff_p999",
        "abs_diff_max",
        "signed_mean_worst",
        "pixel_mismatch_over_2",
        "channel_mismatch_over_4",
    )
    once = measure(names, *pair, data_range=255, mode="RGB")
    four = measure(names, *[np.tile(side, (2, 2, 1)) for side in pair], data_range=255, mode="RGB")
    for name in names:
        assert four[name].number == pytest.approx(once[name].number, rel=1e-12), name


@quickly
@given(sides, st.integers(0, 99), st.permutations(range(3)))
def test_the_order_of_channels_matters_only_between_the_sides(size, seed, order):
    reference, candidate = drawn(size, seed, 6.0)
    names = ("ssim", "psnr_db", "abs_diff_p99", "abs_diff_worst_tile", "pixel_mismatch_over_4")
    plain = measure(names, reference, candidate, data_range=255, mode="RGB")
    both = measure(names, reference[..., order], candidate[..., order], data_range=255, mode="RGB")
    for name in names:
        assert both[name].number == pytest.approx(plain[name].number, abs=1e-12), name
