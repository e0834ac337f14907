"""Small real faults, and how far each metric moves: worked out by hand. Traps of the field, by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skimage.metrics import structural_similarity

from paritygate.errors import MetricError
from paritygate.metrics import tiles
from paritygate.metrics.image import default_names, measure, statistics
from paritygate.metrics.specs import SPECS

pytestmark = pytest.mark.usefixtures("engine")


def values(reference, candidate, names=None, *, data_range=255, mode="RGB"):
    return measure(names or default_names(mode), reference, candidate, data_range=data_range, mode=mode)


def one(name, reference, candidate, **declared):
    return values(reference, candidate, (name,), **declared)[name].number


def flat(level, shape=(256, 256, 3), dtype=np.uint8):
    return np.full(shape, level, dtype)


def textured(shape=(256, 256, 3)):
    return np.random.default_rng(0).integers(60, 200, shape).astype(np.uint8)


def test_averages_hide_a_hole_of_16x16_in_256x256_and_the_worst_tile_names_it():
    reference = textured()
    candidate = reference.copy()
    candidate[96:112, 160:176] = 0
    found = values(reference, candidate)
    assert found["abs_diff_p99"].number == 0.0  # 256 of 65,536 pixels: 0.39 %
    assert found["ssim"].number > 0.98
    assert found["pixel_mismatch_over_0"].number == found["channel_mismatch_over_32"].number == 256 / 65536
    place = {"x": 160, "y": 96, "width": 16, "height": 16}
    assert found["abs_diff_worst_tile"].detail == place
    assert found["abs_diff_worst_tile"].number == pytest.approx(reference[96:112, 160:176].mean() / 255, rel=1e-12)
    assert found["ssim_worst_tile"].detail == place
    assert found["ssim_worst_tile"].number < 0.2


@pytest.mark.parametrize(("y", "x"), [(0, 0), (3, 77), (120, 121), (240, 240), (100, 240)])
def test_a_hole_of_16x16_anywhere_is_found_within_a_cell_of_its_place(y, x):
    candidate = flat(180)
    candidate[y : y + 16, x : x + 16] = 0
    found = values(flat(180), candidate)
    for name in ("abs_diff_worst_tile", "ssim_worst_tile"):
        assert abs(found[name].detail["x"] - x) <= 8
        assert abs(found[name].detail["y"] - y) <= 8
    assert found["abs_diff_worst_tile"].number >= 180 / 255 * 9 / 16  # at worst off by half a cell each way


def test_a_column_of_stripes_shows_in_the_worst_tile():
    candidate = flat(128)
    candidate[::2, 200] = 192  # 128 of 65,536 pixels
    found = values(flat(128), candidate)
    assert found["abs_diff_p99"].number == 0.0
    # 8 of the 256 pixels of a tile, 64 levels each
    assert found["abs_diff_worst_tile"].number == pytest.approx(8 * 64 / 256 / 255)
    assert found["abs_diff_worst_tile"].detail == {"x": 192, "y": 0, "width": 16, "height": 16}
    # windows with the stripe in view lose their contrast term
    assert found["ssim"].number > 0.95
    assert found["ssim_worst_tile"].number < 0.65


def test_cells_at_the_right_and_the_bottom_may_be_cut_off():
    reference, candidate = flat(0, (21, 19, 3)), flat(0, (21, 19, 3))
    candidate[20, 18] = 255
    found = values(reference, candidate)["abs_diff_worst_tile"]
    assert found.detail == {"x": 8, "y": 8, "width": 11, "height": 13}
    assert found.number == pytest.approx(1 / (11 * 13))


def test_an_image_of_one_cell_is_one_tile():
    reference, candidate = flat(0, (3, 5, 1)), flat(51, (3, 5, 1))
    found = values(reference, candidate, mode="L")["abs_diff_worst_tile"]
    assert found.number == pytest.approx(0.2)
    assert found.detail == {"x": 0, "y": 0, "width": 5, "height": 3}


def test_a_tile_counts_only_the_pixels_that_have_a_window():
    assert tiles.counts(21, margin=5).tolist() == [3.0, 8.0, 0.0]
    assert tiles.counts(256, margin=5).sum() == 246


def test_truncation_for_rounding_moves_the_signed_mean_by_half_a_level():
    exact = np.random.default_rng(1).uniform(1, 254, (128, 128, 3))
    found = values(np.rint(exact).astype(np.uint8), exact.astype(np.uint8))
    assert found["signed_mean_worst"].number == pytest.approx(0.5 / 255, abs=0.01 / 255)
    assert all(mean < 0 for mean in found["signed_mean_worst"].detail["signed_mean_per_channel"])
    assert found["abs_diff_max"].number == pytest.approx(1 / 255)  # no level is off by more than one
    assert found["psnr_db"].number > 50


def test_the_signed_mean_is_that_of_each_channel():
    reference, candidate = flat(100), flat(100)
    candidate[..., 1] = 103
    candidate[:128, :, 2] = 98
    found = values(reference, candidate)["signed_mean_worst"]
    assert found.detail["signed_mean_per_channel"] == pytest.approx([0.0, 3 / 255, -1 / 255])
    assert found.number == pytest.approx(3 / 255)


def test_swapped_red_and_blue_are_seen():
    reference = flat(0)
    reference[...] = (200, 100, 50)
    found = values(reference, reference[..., ::-1], ("abs_diff_mean", "signed_mean_worst", "ssim", "ssim_y"))
    assert found["abs_diff_mean"].number == pytest.approx((150 + 0 + 150) / 3 / 255)
    assert found["signed_mean_worst"].detail["signed_mean_per_channel"] == pytest.approx([-150 / 255, 0, 150 / 255])
    red = (2 * 200 * 50 + 6.5025) / (200**2 + 50**2 + 6.5025)
    assert found["ssim"].number == pytest.approx((red + 1 + red) / 3, abs=1e-7)


def test_ssim_is_colour_blind_when_computed_on_luma():
    """0.299 * 57.0 = 0.114 * 149.5: as much luma taken from blue as given to red."""
    reference = np.zeros((64, 64, 3))
    reference[...] = (80.0, 100.0, 190.0)
    candidate = reference + np.array([57.0, 0.0, -149.5])
    found = values(reference, candidate, ("ssim_y", "ssim", "abs_diff_mean"), data_range=255.0)
    assert found["ssim_y"].number == pytest.approx(1.0, abs=1e-9)
    assert found["abs_diff_mean"].number == pytest.approx((57 + 149.5) / 3 / 255)
    assert found["ssim"].number < 0.8


def test_one_pixel_decides_the_maximum_and_nothing_else():
    reference, candidate = flat(100, (32, 32, 3)), flat(100, (32, 32, 3))
    candidate[3, 4, 1] = 101
    found = values(reference, candidate)
    assert found["abs_diff_max"].number == 1 / 255
    assert found["pixel_mismatch_over_0"].number == 1 / 1024
    assert found["channel_mismatch_over_0"].number == 1 / 3072
    assert found["pixel_mismatch_over_1"].number == 0.0
    assert found["abs_diff_p999"].number == 0.0
    assert found["psnr_db"].number == pytest.approx(10 * math.log10(255**2 * 3072))


def test_percentiles_are_those_of_the_nearest_rank():
    reference, candidate = flat(0, (10, 100, 1)), flat(0, (10, 100, 1))
    candidate.flat[:1000] = np.repeat(np.arange(250, dtype=np.uint8), 4)  # 0 0 0 0 1 1 1 1 ... 249
    for sides, data_range in (((reference, candidate), 255), ((reference / 255, candidate / 255), 1.0)):
        found = values(*sides, mode="L", data_range=data_range)
        for suffix, rank in (("p50", 500), ("p90", 900), ("p95", 950), ("p99", 990), ("p999", 999)):
            assert found[f"abs_diff_{suffix}"].number == pytest.approx(((rank - 1) // 4) / 255, rel=1e-12)
        assert found["channel_mismatch_over_8"].number == pytest.approx((1000 - 9 * 4) / 1000)
        assert found["pixel_mismatch_over_32"].number == pytest.approx((1000 - 33 * 4) / 1000)


@pytest.mark.parametrize(("level", "share"), [(3, 0.0), (4, 0.0), (5, 1.0)])
def test_a_mismatch_is_more_than_the_tolerance_in_stored_and_in_float_pixels(level, share):
    for dtype, top in ((np.uint8, 255), (np.uint16, 65535), (np.float64, 1.0), (np.float32, 1.0)):
        step = top / 255
        sides = [np.full((8, 8, 1), at * step).astype(dtype) for at in (100, 100 + level)]
        assert one("pixel_mismatch_over_4", *sides, mode="L", data_range=top) == share


def test_alpha_that_is_dropped_is_seen():
    """Fully transparent and fully opaque red are equal once converted to RGB."""
    reference = flat(0, (32, 32, 4))
    reference[...] = (255, 0, 0, 255)
    candidate = reference.copy()
    candidate[:8, :, 3] = 0
    found = values(reference, candidate, (*default_names("RGBA"), "ssim_rgba"), mode="RGBA")
    assert found["alpha_error_mean"].number == 0.25
    assert found["alpha_error_max"].number == 1.0
    assert found["ssim"].number == 1.0
    assert found["ssim_rgba"].number < 1.0


def test_layers_of_16_bits_lose_no_precision():
    reference, candidate = flat(40000, dtype=np.uint16), flat(40001, dtype=np.uint16)
    found = values(reference, candidate, ("abs_diff_mean", "psnr_db", "pixel_mismatch_over_0"), data_range=65535)
    assert found["abs_diff_mean"].number == 1 / 65535
    assert found["psnr_db"].number == pytest.approx(20 * math.log10(65535), abs=1e-9)
    assert found["pixel_mismatch_over_0"].number == 1.0


def test_trap_uint8_subtraction_wraps():
    for dtype in (np.uint8, np.uint16):
        top = np.iinfo(dtype).max
        sides = [flat(level, (16, 16, 3), dtype) for level in (10, 12)]
        found = values(*sides, ("abs_diff_max", "signed_mean_worst"), data_range=top)
        assert found["abs_diff_max"].number == 2 / top
        assert found["signed_mean_worst"].detail["signed_mean_per_channel"] == [2 / top] * 3


def test_trap_ssim_with_the_range_of_bytes_on_floats_reads_too_well():
    """So the range is declared, and both readings are what the declared range gives."""
    rng = np.random.default_rng(2)
    reference = rng.uniform(0.2, 0.8, (64, 64, 1))
    candidate = np.clip(reference + rng.normal(0, 0.04, reference.shape), 0, 1)
    right, wrong = (one("ssim", reference, candidate, data_range=top, mode="L") for top in (1.0, 255.0))
    assert right < 0.985
    assert wrong > 0.9999


def test_trap_ssim_of_flat_areas_is_its_luminance_term():
    shape = (16, 16, 3)
    for low, high, rounded in ((0.20, 0.25, 0.976), (0.0, 0.01, 0.5)):
        expected = (2 * low * high + 1e-4) / (low**2 + high**2 + 1e-4)
        found = one("ssim", np.full(shape, low), np.full(shape, high), data_range=1.0)
        assert found == pytest.approx(expected, abs=1e-12)
        assert found == pytest.approx(rounded, abs=1e-3)
    assert one("abs_diff_mean", np.full(shape, 0.2), np.full(shape, 0.25), data_range=1.0) == pytest.approx(0.05)


def test_trap_identical_flat_images_read_exactly_one():
    for level in (0, 1, 250, 255):
        assert one("ssim", flat(level, (40, 40, 3)), flat(level, (40, 40, 3))) == 1.0


def test_b97_infinite_psnr_is_only_for_equal_images():
    reference, candidate = flat(7, (16, 16, 3)), flat(7, (16, 16, 3))
    assert one("psnr_db", reference, candidate) == math.inf
    candidate[0, 0, 0] = 8
    assert math.isfinite(one("psnr_db", reference, candidate))


def test_b74_sizes_that_differ_are_refused_although_the_overlap_is_equal():
    with pytest.raises(MetricError, match="shapes differ"):
        values(flat(9, (32, 32, 3)), flat(9, (32, 48, 3)))


def test_b95_nan_in_one_pixel_is_refused_before_it_turns_into_a_black_one():
    reference, candidate = (np.full((16, 16, 3), 0.5) for _ in "rc")
    candidate[4, 5, 0] = math.nan
    for names in (("ssim",), ("abs_diff_max",), ("clipped_low_share",)):
        with pytest.raises(
            MetricError, match=r"candidate holds 1 values that are not finite, the first at \(4, 5, 0\)"
        ):
            values(reference, candidate, names, data_range=1.0)


def test_b99_two_implementations_of_ssim_disagree_so_the_facts_state_every_parameter():
    reference = textured((32, 32, 1))
    candidate = np.clip(reference + np.random.default_rng(3).normal(0, 40, reference.shape), 0, 255).astype(np.uint8)
    uniform = structural_similarity(reference, candidate, channel_axis=2, data_range=255)
    assert abs(one("ssim", reference, candidate, mode="L") - uniform) > 0.001
    for parameter in ("Gaussian 11x11", "sigma 1.5", "K1 0.01", "K2 0.03", "biased", "valid region", "colour channels"):
        assert parameter in SPECS["ssim"].formula


def test_b09_the_maximum_is_no_sum():
    for side in (8, 32):
        assert one("abs_diff_max", flat(10, (side, side, 3)), flat(15, (side, side, 3))) == 5 / 255


def test_b24_a_constant_image_shows_in_the_symptoms():
    found = statistics(flat(0, (32, 32, 3)), data_range=255, mode="RGB")
    assert (found["constant"], found["level_deviation"], found["edge_strength"]) == ("yes", 0.0, 0.0)
    assert (found["clipped_low_share"], found["clipped_high_share"]) == (1.0, 0.0)
    nearly = flat(90, (32, 32, 3))
    nearly[0, :8] = 91
    assert statistics(nearly, data_range=255, mode="RGB")["constant"] == "nearly"
    assert statistics(textured((32, 32, 3)), data_range=255, mode="RGB")["constant"] == "no"


def test_symptoms_worked_out_by_hand():
    image = flat(0, (2, 4, 3))
    image[:, :2] = (224, 168, 140)  # skin
    image[:, 2:] = (255, 0, 0)  # pure red
    found = statistics(image, data_range=255, mode="RGB")
    assert found["skin_tone_share"] == 0.5
    assert found["saturation"] == pytest.approx(((224 - 140) / 224 + 1.0) / 2)
    assert found["channel_means"] == pytest.approx([239.5 / 255, 84 / 255, 70 / 255])
    assert found["channel_deviations"] == pytest.approx([15.5 / 255, 84 / 255, 70 / 255])
    assert found["clipped_high_share"] == pytest.approx(4 / 24)
    assert found["clipped_low_share"] == pytest.approx(8 / 24)
    luma = 0.299 * (255 - 224) - 0.587 * 168 - 0.114 * 140  # one edge in each of two rows, ten neighbours in all
    assert found["edge_strength"] == pytest.approx(2 * abs(luma) / 255 / 10)


def test_symptoms_of_the_candidate_come_with_those_of_the_reference():
    found = values(flat(51, (16, 16, 3)), flat(102, (16, 16, 3)), ("mean_level",))["mean_level"]
    assert found.number == pytest.approx(0.4)
    assert found.detail == {"reference": pytest.approx(0.2), "candidate": pytest.approx(0.4)}
    grey = values(flat(51, (16, 16, 1)), flat(51, (16, 16, 1)), ("saturation", "skin_tone_share"), mode="L")
    assert all(value.problem == f"{name} is defined for colours, not L" for name, value in grey.items())
