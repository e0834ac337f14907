"""The image metrics: identity, symmetry, known values, refusals, and agreement with an independent implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paritygate.errors import MetricError
from paritygate.metrics.image import METRICS
from paritygate.metrics.specs import SPECS

NAMES = sorted(METRICS)
abs_diff_max, abs_diff_mean, abs_diff_p99, psnr_db, ssim = (METRICS[name] for name in NAMES)


def noise_pair(shape=(40, 33, 3), *, amount=6.0, seed=0):
    rng = np.random.default_rng(seed)
    smooth = np.add.outer(np.arange(shape[0]) * 3.0, np.arange(shape[1]) * 2.0)[..., None] + np.arange(shape[2]) * 9
    reference = np.clip(smooth + rng.normal(0, 20, shape), 0, 255).round().astype(np.uint8)
    candidate = np.clip(reference + rng.normal(0, amount, shape), 0, 255).round().astype(np.uint8)
    return reference, candidate


def scaled(array):
    return array.astype(np.float64) / 255.0


def test_the_two_tables_hold_the_same_names_sorted():
    assert set(METRICS) <= set(SPECS)
    assert all(name == spec.name for name, spec in SPECS.items())


@pytest.mark.parametrize("name", NAMES)
def test_equal_images_give_the_stated_value_exactly(name):
    reference, _ = noise_pair()
    flat = np.full((12, 12, 3), 250, np.uint8)
    for image in (reference, flat):
        assert METRICS[name](image, image.copy(), data_range=255) == SPECS[name].identical
        assert METRICS[name](scaled(image), scaled(image), data_range=1.0) == SPECS[name].identical


@pytest.mark.parametrize("name", NAMES)
def test_the_sides_can_be_exchanged(name):
    reference, candidate = noise_pair()
    assert METRICS[name](reference, candidate, data_range=255) == METRICS[name](candidate, reference, data_range=255)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_lies_in_the_stated_range_and_worsens_with_noise(name):
    sign = 1 if SPECS[name].direction == "higher" else -1
    values = [sign * METRICS[name](*noise_pair(amount=amount), data_range=255) for amount in (2.0, 10.0, 60.0)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 3
    black, white = np.zeros((11, 11, 3), np.uint8), np.full((11, 11, 3), 255, np.uint8)
    assert SPECS[name].low <= METRICS[name](black, white, data_range=255) <= SPECS[name].high


@pytest.mark.parametrize("name", NAMES)
def test_stored_and_float_pixels_of_one_image_agree(name):
    reference, candidate = noise_pair()
    stored = METRICS[name](reference, candidate, data_range=255)
    assert METRICS[name](scaled(reference), scaled(candidate), data_range=1.0) == pytest.approx(stored, rel=1e-12)


@pytest.mark.parametrize("name", ["abs_diff_max", "abs_diff_mean", "abs_diff_p99", "psnr_db"])
def test_tiling_an_image_four_times_changes_nothing(name):
    for seed in range(5):
        reference, candidate = noise_pair((9, 7, 3), seed=seed)
        tiled = [np.tile(image, (2, 2, 1)) for image in (reference, candidate)]
        assert METRICS[name](*tiled, data_range=255) == pytest.approx(
            METRICS[name](reference, candidate, data_range=255), rel=1e-14
        )


def test_hand_computed_differences():
    reference = np.zeros((10, 10, 1), np.uint8)
    candidate = reference.copy()
    candidate[0, :2, 0] = (51, 255)
    assert abs_diff_mean(reference, candidate, data_range=255) == pytest.approx((0.2 + 1.0) / 100)
    assert abs_diff_max(reference, candidate, data_range=255) == 1.0
    # 98 zeros, then 0.2: the 99th of 100 sorted values.
    assert abs_diff_p99(reference, candidate, data_range=255) == pytest.approx(0.2)
    assert psnr_db(reference, candidate, data_range=255) == pytest.approx(10 * math.log10(100 / (0.2**2 + 1)))


def test_one_level_in_one_value_of_a_small_picture_is_83_db():
    reference = np.full((32, 32, 3), 100, np.uint8)
    candidate = reference.copy()
    candidate[3, 4, 1] = 101
    assert psnr_db(reference, candidate, data_range=255) == pytest.approx(83.0, abs=0.01)


def test_subtraction_of_bytes_does_not_wrap():
    ten, twelve = np.full((11, 11, 3), 10, np.uint8), np.full((11, 11, 3), 12, np.uint8)
    assert abs_diff_max(ten, twelve, data_range=255) == pytest.approx(2 / 255)


def test_ssim_of_two_flat_images_follows_from_its_luminance_term():
    low, high = np.full((11, 11, 3), 0.20), np.full((11, 11, 3), 0.25)
    expected = (2 * 0.20 * 0.25 + 1e-4) / (0.20**2 + 0.25**2 + 1e-4)
    assert ssim(low, high, data_range=1.0) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape", [(11, 11, 3), (64, 48, 3), (33, 57, 1)])
@pytest.mark.parametrize("amount", [1.0, 20.0])
def test_ssim_agrees_with_scikit_image(shape, amount):
    skimage = pytest.importorskip("skimage.metrics")
    reference, candidate = noise_pair(shape, amount=amount)
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "channel_axis": 2}
    for left, right, data_range in (
        (reference, candidate, 255),
        (scaled(reference), scaled(candidate), 1.0),
        (np.full_like(reference, 250), np.full_like(reference, 251), 255),
    ):
        expected = skimage.structural_similarity(left, right, data_range=data_range, **options)
        assert ssim(left, right, data_range=data_range) == pytest.approx(expected, abs=1e-7)


def test_psnr_agrees_with_scikit_image():
    skimage = pytest.importorskip("skimage.metrics")
    reference, candidate = noise_pair()
    expected = skimage.peak_signal_noise_ratio(reference, candidate, data_range=255)
    assert psnr_db(reference, candidate, data_range=255) == pytest.approx(expected, abs=1e-9)


def test_ssim_of_an_image_below_its_window_is_not_applicable():
    small = np.zeros((10, 64, 3), np.uint8)
    with pytest.raises(MetricError, match=r"not applicable: the image is 64x10, its window is 11x11"):
        ssim(small, small, data_range=255)


FLOATS = np.full((12, 12, 3), 0.5)
BYTES = np.full((12, 12, 3), 9, np.uint8)


def with_pixel(value):
    array = FLOATS.copy()
    array[2, 3, 1] = value
    return array


REFUSED = {
    "shapes": (FLOATS, FLOATS[:11], 1.0, "shapes differ"),
    "broadcastable-channels": (FLOATS, FLOATS[..., :1], 1.0, "shapes differ"),
    "dtypes": (FLOATS, BYTES, 1.0, "dtypes differ"),
    "float16": (FLOATS.astype(np.float16), FLOATS.astype(np.float16), 1.0, "dtype float16"),
    "int16": (FLOATS.astype(np.int16), FLOATS.astype(np.int16), 1.0, "dtype int16"),
    "no-channel-axis": (FLOATS[..., 0], FLOATS[..., 0], 1.0, "expected a non-empty"),
    "empty": (FLOATS[:0], FLOATS[:0], 1.0, "expected a non-empty"),
    "not-an-array": ([[1.0]], FLOATS, 1.0, "expected a numpy array"),
    "bytes-range": (BYTES, BYTES, 1.0, "data range 255"),
    "range-zero": (FLOATS, FLOATS, 0.0, "positive number"),
    "range-nan": (FLOATS, FLOATS, math.nan, "positive number"),
    "nan-reference": (with_pixel(math.nan), FLOATS, 1.0, r"reference holds 1 .* first at \(2, 3, 1\)"),
    "nan-both-sides": (with_pixel(math.nan), with_pixel(math.nan), 1.0, "not finite"),
    "infinite-candidate": (FLOATS, with_pixel(math.inf), 1.0, "candidate holds 1"),
    "above-range": (FLOATS, with_pixel(1.2), 1.0, "outside the declared range"),
    "below-range": (with_pixel(-0.1), FLOATS, 1.0, "outside the declared range"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", sorted(REFUSED))
def test_arrays_that_do_not_fit_are_refused_never_adjusted(name, fault):
    reference, candidate, data_range, message = REFUSED[fault]
    with pytest.raises(MetricError, match=message):
        METRICS[name](reference, candidate, data_range=data_range)
