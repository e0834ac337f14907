"""The peers' numbers, against the peers themselves; and what is wrong with some of them."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from skimage import data
from skimage.color import rgb2gray
from skimage.metrics import structural_similarity
from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

from paritygate.errors import MetricError
from paritygate.metrics import image
from paritygate.metrics.migration import NAMES, measure
from paritygate.metrics.migration_ffmpeg import plane_mean_square_error, plane_ssim
from paritygate.metrics.migration_swscale import chroma, luma
from paritygate.metrics.specs import SPECS, default_metrics
from paritygate.metrics.specs.migration import MIGRATION

#: Photograph, rows, columns, levels divided by, deviation of the noise.
PICTURES = {
    "photograph": ("astronaut", 96, 128, 1, 2.0),
    "odd sides": ("chelsea", 87, 101, 1, 2.0),
    "dark": ("coffee", 96, 96, 12, 2.0),
    "heavy noise": ("astronaut", 64, 96, 1, 20.0),
}
SMALL = [name for name in NAMES if name != "pytorch_msssim_ms_ssim"]


def noisy(reference, deviation, *, seed=0):
    noise = np.random.default_rng(seed).normal(0, deviation, reference.shape)
    return np.clip(np.rint(reference + noise), 0, 255).astype(np.uint8)


def photographs(name):
    photograph, rows, columns, divisor, deviation = PICTURES[name]
    reference = np.ascontiguousarray(getattr(data, photograph)()[40 : 40 + rows, 60 : 60 + columns] // divisor)
    return reference, noisy(reference, deviation)


def pair(name):
    flat = np.full((48, 48, 3), 250, np.uint8)
    if name == "flat, identical":
        return flat, flat.copy()
    if name == "nearly flat":
        return flat, np.where(np.random.default_rng(1).random(flat.shape) < 0.5, flat, flat + 1).astype(np.uint8)
    return photographs(name)


EVERY_PAIR = pytest.mark.parametrize("name", [*PICTURES, "flat, identical", "nearly flat"])


def numbers(names, reference, candidate, *, data_range=255, mode="RGB"):
    found = measure(names, reference, candidate, data_range=data_range, mode=mode)
    assert list(found) == list(names)
    assert not any(value.problem for value in found.values())
    return {name: value.number for name, value in found.items()}


def unit(pixels):
    return pixels.astype(np.float32) / np.float32(255)


def tensor(pixels):
    return torch.from_numpy(np.ascontiguousarray(pixels.astype(np.float32).transpose(2, 0, 1)[None]))


def graph(filters, frames):
    """Metadata or frame that an FFmpeg graph gives for one frame per input."""
    built = av.filter.Graph()
    sources = [
        built.add_buffer(width=frame.width, height=frame.height, format=frame.format.name, time_base=Fraction(1, 25))
        for frame in frames
    ]
    ends = sources
    for kind, arguments in filters:
        if kind == "format":
            ends = [link(built.add(kind, arguments), [end]) for end in ends]
        else:
            ends = [link(built.add(kind), ends)]
    sink = link(built.add("buffersink"), ends)
    built.configure()
    for source, frame in zip(sources, frames, strict=True):
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        source.push(frame)
        source.push(None)
    return sink.pull()


def link(node, inputs):
    for index, end in enumerate(inputs):
        end.link_to(node, 0, index)
    return node


def frame(pixels, layout="rgb24"):
    return av.VideoFrame.from_ndarray(pixels, format=layout)


def ffmpeg(kind, pixel_format, reference, candidate):
    steps = [("format", f"pix_fmts={pixel_format}"), (kind, None)]
    return {key: float(text) for key, text in graph(steps, [frame(reference), frame(candidate)]).metadata.items()}


@EVERY_PAIR
def test_torchmetrics_ssim_is_reproduced_on_both_scales_with_its_rounding(name):
    reference, candidate = pair(name)
    ours = numbers(["torchmetrics_ssim", "torchmetrics_ssim_255"], reference, candidate)
    unit_peer = float(
        structural_similarity_index_measure(tensor(unit(candidate)), tensor(unit(reference)), data_range=1.0)
    )
    assert ours["torchmetrics_ssim"] == pytest.approx(unit_peer, abs=5e-7)
    byte_peer = float(structural_similarity_index_measure(tensor(candidate), tensor(reference), data_range=255.0))
    assert ours["torchmetrics_ssim_255"] == pytest.approx(byte_peer, abs=5e-7)
    assert numbers(["torchmetrics_ssim"], unit(reference), unit(candidate), data_range=1.0) == {
        "torchmetrics_ssim": ours["torchmetrics_ssim"]
    }


def test_torchmetrics_gives_two_identical_flat_pictures_0_999065_which_is_its_defect():
    names = ["torchmetrics_ssim_255", "torchmetrics_ssim"]
    found = numbers(names, *pair("flat, identical"))
    assert found["torchmetrics_ssim_255"] == pytest.approx(0.999065, abs=1e-6)
    assert found["torchmetrics_ssim"] == pytest.approx(0.997616, abs=1e-6)
    assert image.measure(["ssim"], *pair("flat, identical"), data_range=255, mode="RGB")["ssim"].number == 1.0
    assert [(SPECS[name].identical, "250" in SPECS[name].blind_to) for name in names] == [(None, True)] * 2


@EVERY_PAIR
def test_torchmetrics_psnr_is_reproduced(name):
    reference, candidate = pair(name)
    ours = numbers(["torchmetrics_psnr_db"], reference, candidate)["torchmetrics_psnr_db"]
    assert ours == pytest.approx(
        float(peak_signal_noise_ratio(tensor(candidate), tensor(reference), data_range=255.0)), abs=1e-5
    )
    scaled = numbers(["torchmetrics_psnr_db"], unit(reference), unit(candidate), data_range=1.0)["torchmetrics_psnr_db"]
    assert scaled == pytest.approx(ours, abs=1e-5)


@EVERY_PAIR
def test_the_defaults_of_scikit_image_are_reproduced_in_colour_and_in_both_grays(name):
    reference, candidate = pair(name)
    ours = numbers([name for name in NAMES if name.startswith("skimage")], reference, candidate)
    assert ours["skimage_default_ssim"] == pytest.approx(
        structural_similarity(reference, candidate, channel_axis=2), abs=1e-12
    )
    gray = structural_similarity(rgb2gray(reference), rgb2gray(candidate), data_range=1.0)
    assert ours["skimage_default_ssim_gray"] == pytest.approx(gray, abs=1e-12)
    pillow = structural_similarity(*(np.asarray(Image.fromarray(side).convert("L")) for side in (reference, candidate)))
    assert ours["skimage_default_ssim_pillow_l"] == pytest.approx(pillow, abs=1e-12)
    floats = numbers(["skimage_default_ssim"], unit(reference), unit(candidate), data_range=1.0)
    peer_floats = structural_similarity(unit(reference), unit(candidate), channel_axis=2, data_range=1.0)
    assert floats["skimage_default_ssim"] == pytest.approx(float(peer_floats), abs=1e-6)


@EVERY_PAIR
def test_the_filters_of_ffmpeg_are_reproduced_for_rgb_and_luma(name):
    reference, candidate = pair(name)
    ours = numbers([name for name in NAMES if name.endswith(("gbrp", "gbrp_db", "_y", "_y_db"))], reference, candidate)
    assert ours["ffmpeg_ssim_gbrp"] == pytest.approx(
        ffmpeg("ssim", "gbrp", reference, candidate)["lavfi.ssim.All"], abs=1e-6
    )
    assert ours["ffmpeg_psnr_gbrp_db"] == pytest.approx(
        ffmpeg("psnr", "gbrp", reference, candidate)["lavfi.psnr.psnr_avg"], abs=5e-6
    )
    for layout in ("yuv420p", "yuv444p"):
        similarity = ffmpeg("ssim", layout, reference, candidate)["lavfi.ssim.Y"]
        assert ours["ffmpeg_ssim_y"] == pytest.approx(similarity, abs=1e-6)
        ratio = ffmpeg("psnr", layout, reference, candidate)["lavfi.psnr.psnr.y"]
        assert ours["ffmpeg_psnr_y_db"] == pytest.approx(ratio, abs=5e-6)


@pytest.mark.parametrize("name", ["photograph", "dark", "heavy noise", "flat, identical", "nearly flat"])
def test_the_filters_of_ffmpeg_are_reproduced_for_yuv420p(name):
    reference, candidate = pair(name)
    found = measure(["ffmpeg_ssim_yuv420p", "ffmpeg_psnr_yuv420p_db"], reference, candidate, data_range=255, mode="RGB")
    peer = ffmpeg("ssim", "yuv420p", reference, candidate)
    assert found["ffmpeg_ssim_yuv420p"].number == pytest.approx(peer["lavfi.ssim.All"], abs=1e-6)
    for plane, number in found["ffmpeg_ssim_yuv420p"].detail["planes"].items():
        assert number == pytest.approx(peer[f"lavfi.ssim.{plane.upper()}"], abs=1e-6)
    peer = ffmpeg("psnr", "yuv420p", reference, candidate)
    assert found["ffmpeg_psnr_yuv420p_db"].number == pytest.approx(peer["lavfi.psnr.psnr_avg"], abs=5e-6)
    mean_square_error = found["ffmpeg_psnr_yuv420p_db"].detail["mean_square_error"]
    assert mean_square_error == pytest.approx(peer["lavfi.psnr.mse_avg"], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (18, 46), (96, 128)])
def test_yuv_planes_are_the_ones_of_libswscale_to_the_bit(rows, columns):
    pixels = photographs("photograph")[0][:rows, :columns]
    planes = graph([("format", "pix_fmts=yuv420p")], [frame(np.ascontiguousarray(pixels))]).planes
    theirs = [np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:, : plane.width] for plane in planes]
    for ours, plane in zip((luma(pixels), chroma(pixels, "u"), chroma(pixels, "v")), theirs, strict=True):
        np.testing.assert_array_equal(ours, plane)


def test_the_planes_of_a_decoder_give_the_figures_of_ffmpeg_without_a_way_through_rgb():
    reference = np.random.default_rng(2).integers(0, 256, (96, 64), np.uint8)
    candidate = noisy(reference, 8.0)
    frames = [frame(packed, "yuv420p") for packed in (reference, candidate)]
    similarity = graph([("ssim", None)], frames).metadata["lavfi.ssim.Y"]
    assert plane_ssim(reference[:64], candidate[:64]) == pytest.approx(float(similarity), abs=1e-6)
    mean_square_error = graph([("psnr", None)], frames).metadata["lavfi.psnr.mse.y"]
    assert plane_mean_square_error(reference[:64], candidate[:64]) == pytest.approx(float(mean_square_error), rel=1e-6)


def test_ffmpeg_gives_identical_pictures_an_infinite_psnr_and_so_do_we():
    same = photographs("photograph")[0]
    assert ffmpeg("psnr", "gbrp", same, same)["lavfi.psnr.psnr_avg"] == math.inf
    assert numbers(["ffmpeg_psnr_gbrp_db"], same, same) == {"ffmpeg_psnr_gbrp_db": math.inf}


def test_the_small_constant_of_ffmpeg_shows_on_flat_dark_pictures_by_the_amount_worked_out_by_hand():
    low, high = (np.full((16, 16, 3), level, np.uint8) for level in (1, 2))
    found = numbers(["ffmpeg_ssim_gbrp", "skimage_default_ssim"], low, high)
    standard = (2 * 1 * 2 + 2.55**2) / (1 + 4 + 2.55**2)
    assert found["skimage_default_ssim"] == pytest.approx(standard, abs=1e-12)
    sums = 64, 128
    assert found["ffmpeg_ssim_gbrp"] == pytest.approx(
        (2 * sums[0] * sums[1] + 416) / (sums[0] ** 2 + sums[1] ** 2 + 416), abs=1e-7
    )
    assert standard - found["ffmpeg_ssim_gbrp"] > 0.1


#: Picture, rows, columns, deviation of the noise -> what pytorch-msssim 1.0.0 on torch 2.13 gave for pixels / 255.
MS_SSIM = {
    ("astronaut", 192, 256, 2.0): 0.9964332581,
    ("chelsea", 171, 203, 2.0): 0.9979450107,
    ("coffee", 192, 256, 20.0): 0.8410859704,
}


@pytest.mark.parametrize(("picture", "expected"), MS_SSIM.items(), ids=str)
def test_pytorch_msssim_is_reproduced(picture, expected):
    name, rows, columns, deviation = picture
    reference = getattr(data, name)()[:rows, :columns]
    found = numbers(["pytorch_msssim_ms_ssim"], reference, noisy(reference, deviation))
    assert found["pytorch_msssim_ms_ssim"] == pytest.approx(expected, abs=4e-6)


def test_the_zero_line_of_pytorch_msssim_makes_odd_sides_score_otherwise_than_even_ones():
    # Equal rows: every crop of these pictures looks the same, so that only the padding can tell sizes apart.
    row = np.tile(np.array([90, 200], np.uint8), 100)
    reference = np.repeat(np.repeat(row[None, :192], 193, axis=0)[..., None], 3, axis=2)
    candidate = np.where(reference == 90, 120, 230).astype(np.uint8)
    even = numbers(["pytorch_msssim_ms_ssim"], reference[:192], candidate[:192])["pytorch_msssim_ms_ssim"]
    odd = numbers(["pytorch_msssim_ms_ssim"], reference, candidate)["pytorch_msssim_ms_ssim"]
    assert abs(even - odd) > 1e-5


def test_the_catalog_states_exactly_these_metrics_each_with_its_peer_and_none_by_default():
    assert [spec.name for spec in MIGRATION] == list(NAMES) == sorted(NAMES)
    assert all(spec.peer and any(digit in spec.peer for digit in "0123456789") for spec in MIGRATION)
    assert not set(NAMES) & {*default_metrics("image"), *default_metrics("video")}


def test_no_peer_is_imported():
    code = (
        "import sys, numpy as np; from paritygate.metrics.migration import NAMES, measure; a = np.zeros((16, 16, 3), "
        "np.uint8); measure(NAMES, a, a, data_range=255, mode='RGB'); "
        "sys.exit(bool({'torch', 'torchmetrics', 'skimage', 'av', 'scipy', 'pytorch_msssim'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@settings(max_examples=12, deadline=None)
@given(
    pixels=arrays(np.uint8, st.tuples(st.sampled_from([16, 18, 22]), st.sampled_from([16, 20]), st.just(3))),
    seed=st.integers(0, 2**16),
)
def test_identity_symmetry_and_range_hold_for_any_pixels(pixels, seed):
    other = np.random.default_rng(seed).integers(0, 256, pixels.shape, np.uint8)
    same, there, back = (numbers(SMALL, *sides) for sides in ((pixels, pixels), (pixels, other), (other, pixels)))
    assert there == back
    for name in SMALL:
        spec = SPECS[name]
        assert same[name] == (pytest.approx(1.0, abs=0.01) if spec.identical is None else spec.identical)
        assert spec.low - 1e-6 <= there[name] <= spec.high


@pytest.mark.parametrize("name", NAMES)
def test_every_number_worsens_with_noise(name):
    side = 176 if name.startswith("pytorch_msssim") else 64
    reference = data.astronaut()[:side, 60 : 60 + side]
    found = [numbers([name], reference, noisy(reference, deviation))[name] for deviation in (2.0, 8.0, 32.0)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 3


def test_channels_may_change_places_where_all_count_the_same_and_not_in_luma():
    reference, candidate = photographs("photograph")
    candidate[..., 0] = noisy(candidate[..., 0], 20.0, seed=3)
    ordered, turned = (numbers(SMALL, reference[..., order], candidate[..., order]) for order in ([0, 1, 2], [2, 1, 0]))
    for name in ("ffmpeg_psnr_gbrp_db", "ffmpeg_ssim_gbrp", "skimage_default_ssim", "torchmetrics_ssim"):
        assert turned[name] == pytest.approx(ordered[name], abs=1e-9)
    for name in ("ffmpeg_psnr_y_db", "ffmpeg_ssim_y", "skimage_default_ssim_gray", "skimage_default_ssim_pillow_l"):
        assert abs(turned[name] - ordered[name]) > 1e-3


@pytest.mark.parametrize(
    ("shape", "dtype", "mode", "names"),
    [
        ((170, 170, 4), np.uint8, "RGBA", NAMES),
        ((170, 170, 2), np.uint8, "LA", NAMES),
        ((170, 170, 3), np.uint16, "RGB", NAMES),
        ((170, 170, 3), np.float64, "RGB", NAMES),
        ((170, 170, 1), np.uint8, "L", [name for name in NAMES if name.startswith("ffmpeg")]),
        ((170, 170, 3), np.float32, "RGB", [name for name in NAMES if name.startswith("ffmpeg")]),
        ((170, 170, 3), np.float32, "RGB", ["skimage_default_ssim_pillow_l", "torchmetrics_ssim_255"]),
        ((17, 16, 3), np.uint8, "RGB", ["ffmpeg_psnr_yuv420p_db", "ffmpeg_ssim_yuv420p"]),
        ((160, 200, 3), np.uint8, "RGB", ["pytorch_msssim_ms_ssim"]),
        ((7, 30, 3), np.uint8, "RGB", ["ffmpeg_ssim_gbrp", "ffmpeg_ssim_y"]),
        ((6, 30, 3), np.uint8, "RGB", ["skimage_default_ssim", "skimage_default_ssim_gray"]),
        ((5, 30, 3), np.uint8, "RGB", ["torchmetrics_ssim", "torchmetrics_ssim_255"]),
    ],
    ids=str,
)
def test_what_has_no_peer_is_refused_with_the_reason_and_never_a_number(shape, dtype, mode, names):
    pixels = np.zeros(shape, dtype)
    data_range = {"uint8": 255, "uint16": 65535}.get(pixels.dtype.name, 1.0)
    found = measure(names, pixels, pixels, data_range=data_range, mode=mode)
    assert list(found) == list(names)
    assert all(math.isnan(value.number) and value.problem for value in found.values())


def test_smallest_pictures_that_the_peers_take_are_measured():
    for side, name in ((6, "torchmetrics_ssim"), (7, "skimage_default_ssim"), (8, "ffmpeg_ssim_y")):
        flat = np.full((side, side, 3), 90, np.uint8)
        assert numbers([name], flat, flat)[name] == pytest.approx(1.0, abs=1e-4)


def test_gray_pictures_have_one_scikit_image_ssim():
    reference, candidate = (side[..., :1] for side in photographs("photograph"))
    found = numbers([name for name in NAMES if name.startswith("skimage")], reference, candidate, mode="L")
    assert len(set(found.values())) == 1


def test_pairs_that_do_not_fit_and_unknown_names_are_errors():
    pixels = np.zeros((16, 16, 3), np.uint8)
    with pytest.raises(MetricError, match="shapes differ"):
        measure(SMALL, pixels, pixels[:, :15], data_range=255, mode="RGB")
    with pytest.raises(MetricError, match="data range"):
        measure(SMALL, pixels, pixels, data_range=1.0, mode="RGB")
    with pytest.raises(MetricError, match="not finite"):
        measure(SMALL, np.full((16, 16, 3), np.nan, np.float32), unit(pixels), data_range=1.0, mode="RGB")
    with pytest.raises(MetricError, match="ffmpeg_ssim_nv12"):
        measure(["ffmpeg_ssim_nv12"], pixels, pixels, data_range=255, mode="RGB")


def test_the_page_on_moving_a_threshold_has_a_row_for_every_metric_and_the_versions_that_are_compared_here():
    page = (Path(__file__).resolve().parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| [^|]*\d[^|]* \| [^|]+ \|$", page, re.MULTILINE)
    assert sorted(rows) == list(NAMES)
    for package in ("scikit-image", "torchmetrics"):
        installed = ".".join(version(package).split(".")[:2])
        assert f"{package} {installed}." in page
        assert all(f"{package} {installed}." in spec.peer for spec in MIGRATION if spec.peer.startswith(package))
    assert f"FFmpeg {'.'.join(av.ffmpeg_version_info.split('.')[:2])}" in page
