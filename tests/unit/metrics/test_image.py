"""What holds for every image metric: identity, symmetry, range, refusals, and agreement of stored and float pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paritygate.errors import MetricError
from paritygate.metrics.image import default_names, measure
from paritygate.metrics.specs import SPECS, default_metrics
from paritygate.metrics.specs.image import IMAGE, SYMPTOMS

pytestmark = pytest.mark.usefixtures("engine")

NAMES = [spec.name for spec in IMAGE if spec.direction != "none"]
ROUGH = [name for name in NAMES if "mismatch_over" not in name and name != "signed_mean_worst"]
LEVEL_SHARES = [name for name in NAMES if "mismatch_over" in name]


def noise_pair(shape=(40, 33, 4), *, amount=6.0, seed=0, dtype=np.uint8):
    rng = np.random.default_rng(seed)
    top = np.iinfo(dtype).max
    smooth = np.add.outer(np.arange(shape[0]) * 3.0, np.arange(shape[1]) * 2.0)[..., None] + np.arange(shape[2]) * 9
    reference = np.clip(smooth + rng.normal(0, 20, shape), 0, 255)
    candidate = np.clip(reference + rng.normal(0, amount, shape) - amount / 20, 0, 255)
    return [np.rint(side * (top / 255)).astype(dtype) for side in (reference, candidate)]


def scaled(array):
    return array.astype(np.float64) / np.iinfo(array.dtype).max


def numbers(reference, candidate, *, names=NAMES, data_range=255, mode="RGBA"):
    values = measure(names, reference, candidate, data_range=data_range, mode=mode)
    assert not [value.problem for value in values.values() if value.problem]
    return {name: value.number for name, value in values.items()}


def test_every_name_of_the_table_is_measured_and_the_table_is_sorted():
    names = [spec.name for spec in IMAGE]
    assert names == sorted(names)
    assert sorted(measure(names, *noise_pair(), data_range=255, mode="RGBA")) == names


def test_default_names_are_those_of_the_table_without_alpha_where_there_is_none():
    assert set(default_names("RGBA")) == set(default_names("LA")) <= set(default_metrics("image"))
    assert set(default_names("RGBA")) - set(default_names("RGB")) == {"alpha_error_max", "alpha_error_mean"}
    assert default_names("RGB") == default_names("L")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_equal_images_give_the_stated_value_exactly(dtype):
    top = np.iinfo(dtype).max
    flat = np.full((33, 40, 4), top - 5, dtype)
    for image in (noise_pair(dtype=dtype)[0], flat):
        expected = {name: SPECS[name].identical for name in NAMES}
        assert numbers(image, image.copy(), data_range=top) == expected
        assert numbers(scaled(image), scaled(image), data_range=1.0) == expected
        assert numbers(*[scaled(image).astype(np.float32)] * 2, data_range=1.0) == expected


def test_the_sides_can_be_exchanged():
    reference, candidate = noise_pair()
    assert numbers(reference, candidate) == numbers(candidate, reference)


def test_every_value_lies_in_the_stated_range():
    for shape in ((11, 11, 4), (40, 20, 4)):
        black, white = np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)
        for name, number in {**numbers(black, white), **numbers(black, white, names=SYMPTOMS)}.items():
            assert SPECS[name].low <= number <= SPECS[name].high


def test_every_value_worsens_with_noise():
    by_amount = [numbers(*noise_pair((64, 64, 4), amount=amount), names=NAMES) for amount in (0.5, 4.0, 60.0)]
    for name in ROUGH:
        sign = 1 if SPECS[name].direction == "higher" else -1
        values = [sign * found[name] for found in by_amount]
        assert values == sorted(values, reverse=True), name
        assert values[0] > values[-1], name
    for name in LEVEL_SHARES:
        assert by_amount[0][name] <= by_amount[1][name] <= by_amount[2][name], name


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_stored_and_float_pixels_of_one_image_agree(dtype):
    reference, candidate = noise_pair(dtype=dtype)
    stored = numbers(reference, candidate, data_range=np.iinfo(dtype).max)
    assert numbers(scaled(reference), scaled(candidate), data_range=1.0) == pytest.approx(stored, rel=1e-7)
    single = [scaled(side).astype(np.float32) for side in (reference, candidate)]
    assert numbers(*single, data_range=1.0) == pytest.approx(stored, rel=2e-5)


def test_bytes_stored_in_sixteen_bits_measure_the_same():
    pair = noise_pair()
    assert numbers(*[side.astype(np.uint16) * 257 for side in pair], data_range=65535) == pytest.approx(
        numbers(*pair), rel=1e-7
    )


def test_arrays_that_are_views_measure_as_their_copies():
    reference, candidate = noise_pair((80, 90, 4))
    views = [side[::2, ::-1, ::-1] for side in (reference, candidate)]
    assert numbers(*views) == numbers(*[np.ascontiguousarray(view) for view in views])


@pytest.mark.parametrize(("mode", "refused"), [("L", 4), ("LA", 2), ("RGB", 3), ("RGBA", 0)])
def test_what_a_mode_has_no_meaning_for_is_refused_with_its_reason(mode, refused):
    names = ("alpha_error_max", "alpha_error_mean", "ssim_rgba", "saturation", "ssim", "ssim_y", "psnr_db")
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}[mode]
    values = measure(names, *noise_pair((20, 20, channels)), data_range=255, mode=mode)
    none = [value for value in values.values() if value.problem]
    assert len(none) == refused
    assert all(math.isnan(value.number) for value in none)
    assert not values["psnr_db"].problem


@pytest.mark.parametrize("name", ["ssim", "ssim_rgba", "ssim_worst_tile", "ssim_y"])
def test_b98_ssim_of_an_image_below_its_window_is_not_applicable(name):
    small = np.zeros((6, 64, 4), np.uint8)
    value = measure((name,), small, small, data_range=255, mode="RGBA")[name]
    assert math.isnan(value.number)
    assert value.problem == "ssim is not applicable: the image is 64x6, its window is 11x11 pixels"


def test_b98_a_data_range_that_the_dtype_cannot_have_is_refused_never_guessed():
    pixels = np.full((16, 16, 3), 0.5)
    for image, data_range in ((np.zeros((16, 16, 3), np.uint8), 1.0), (np.zeros((16, 16, 3), np.uint16), 255)):
        with pytest.raises(MetricError, match="data range"):
            measure(("ssim",), image, image, data_range=data_range, mode="RGB")
    assert measure(("ssim",), pixels, pixels, data_range=255.0, mode="RGB")["ssim"].number == 1.0  # declared: allowed


def test_an_unknown_name_is_an_error():
    image = np.zeros((16, 16, 3), np.uint8)
    with pytest.raises(MetricError, match="no image metric has the name ssim_v2"):
        measure(("ssim", "ssim_v2"), image, image, data_range=255, mode="RGB")


FLOATS = np.full((12, 12, 3), 0.5)
BYTES = np.full((12, 12, 3), 9, np.uint8)


def with_pixel(value):
    array = FLOATS.copy()
    array[2, 3, 1] = value
    return array


REFUSED = {
    "shapes": (FLOATS, FLOATS[:11], 1.0, "RGB", "shapes differ"),
    "allclose-would-broadcast-channels": (FLOATS, FLOATS[..., :1], 1.0, "RGB", "shapes differ"),
    "dtypes": (FLOATS, BYTES, 1.0, "RGB", "dtypes differ"),
    "float16-would-overflow": (FLOATS.astype(np.float16), FLOATS.astype(np.float16), 1.0, "RGB", "dtype float16"),
    "int16": (FLOATS.astype(np.int16), FLOATS.astype(np.int16), 1.0, "RGB", "dtype int16"),
    "foreign-byte-order": (FLOATS.astype(">f8"), FLOATS.astype(">f8"), 1.0, "RGB", "dtype"),
    "no-channel-axis": (FLOATS[..., 0], FLOATS[..., 0], 1.0, "L", "expected a non-empty"),
    "empty": (FLOATS[:0], FLOATS[:0], 1.0, "RGB", "expected a non-empty"),
    "not-an-array": ([[1.0]], FLOATS, 1.0, "RGB", "expected a numpy array"),
    "bytes-range": (BYTES, BYTES, 1.0, "RGB", "data range 255"),
    "range-zero": (FLOATS, FLOATS, 0.0, "RGB", "positive number"),
    "range-nan": (FLOATS, FLOATS, math.nan, "RGB", "positive number"),
    "nan-reference": (with_pixel(math.nan), FLOATS, 1.0, "RGB", r"reference holds 1 .* first at \(2, 3, 1\)"),
    "nan-both-sides": (with_pixel(math.nan), with_pixel(math.nan), 1.0, "RGB", "not finite"),
    "infinite-candidate": (FLOATS, with_pixel(math.inf), 1.0, "RGB", "candidate holds 1"),
    "above-range-would-wrap-in-bytes": (FLOATS, with_pixel(1.2), 1.0, "RGB", "outside the declared range"),
    "below-range-would-wrap-in-bytes": (with_pixel(-0.1), FLOATS, 1.0, "RGB", "outside the declared range"),
    "mode-of-other-channels": (BYTES, BYTES, 255, "RGBA", "3 channels; RGBA has 4"),
    "mode-unknown": (BYTES, BYTES, 255, "BGR", "mode is 'BGR'"),
}


@pytest.mark.parametrize("fault", sorted(REFUSED))
def test_arrays_that_do_not_fit_are_refused_never_adjusted(fault):
    reference, candidate, data_range, mode, message = REFUSED[fault]
    for name in (*NAMES, *SYMPTOMS):
        with pytest.raises(MetricError, match=message):
            measure((name,), reference, candidate, data_range=data_range, mode=mode)
