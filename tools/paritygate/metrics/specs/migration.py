"""Facts about what other libraries compute, so that their thresholds carry over.

``peer`` states how closely the two agreed on photographs, dark, noisy, odd-sized, flat and nearly flat pictures.
"""

from __future__ import annotations

import math

from paritygate.metrics.specs.spec import PICTURES, Spec

_FFMPEG_SSIM = "FFmpeg 8.1, filter ssim"
_FFMPEG_PSNR = "FFmpeg 8.1, filter psnr"
_BLOCKS = (
    "SSIM over sums of 8x8 pixels every 4 pixels, sample covariance, C1 64 times too small, in integers; mean over "
)
_BLIND_BLOCKS = "brightness shifts of flat areas, small local damage, an edge of up to 3 pixels at right and bottom; {}"


def _ssim(name: str, *, formula: str, blind_to: str, peer: str, identical: float | None = 1.0) -> Spec:
    return Spec(
        name=name,
        version=1,
        kinds=PICTURES,
        formula=formula,
        source="the peer's source code",
        direction="higher",
        unit="1",
        low=-1.0,
        high=1.0,
        identical=identical,
        blind_to=blind_to,
        peer=peer,
    )


def _psnr(name: str, *, formula: str, peer: str) -> Spec:
    return Spec(
        name=name,
        version=1,
        kinds=PICTURES,
        formula=formula,
        source="the peer's source code",
        direction="higher",
        unit="dB",
        low=0.0,
        high=math.inf,
        identical=math.inf,
        blind_to="where the error is and what it looks like; small bias (rounding) is cheap",
        peer=peer,
    )


#: Sorted by name.
MIGRATION = (
    _psnr(
        "ffmpeg_psnr_gbrp_db",
        formula="10 log10(255^2 / mean (reference - candidate)^2), over R, G and B",
        peer=f"{_FFMPEG_PSNR} psnr_avg of gbrp: within 5e-6 dB",
    ),
    _psnr(
        "ffmpeg_psnr_y_db",
        formula="10 log10(255^2 / mean (reference - candidate)^2), over BT.601 limited-range luma in 8 bits",
        peer=f"{_FFMPEG_PSNR} psnr.y of yuv420p or yuv444p converted from RGB: within 5e-6 dB",
    ),
    _psnr(
        "ffmpeg_psnr_yuv420p_db",
        formula=(
            "10 log10(255^2 / mean (reference - candidate)^2), over Y, U and V of BT.601 limited range, chroma of half "
            "size by libswscale's bicubic filter"
        ),
        peer=f"{_FFMPEG_PSNR} psnr_avg of yuv420p converted from RGB on x86: within 5e-6 dB",
    ),
    _ssim(
        "ffmpeg_ssim_gbrp",
        formula=f"{_BLOCKS}R, G and B",
        blind_to=_BLIND_BLOCKS.format("too strict on dark pictures"),
        peer=f"{_FFMPEG_SSIM} All of gbrp: within 1e-6; defective by its C1",
    ),
    _ssim(
        "ffmpeg_ssim_y",
        formula=f"{_BLOCKS}BT.601 limited-range luma in 8 bits",
        blind_to=_BLIND_BLOCKS.format("all colour"),
        peer=f"{_FFMPEG_SSIM} Y of yuv420p or yuv444p converted from RGB: within 1e-6",
    ),
    _ssim(
        "ffmpeg_ssim_yuv420p",
        formula=(
            f"{_BLOCKS}Y, U and V of BT.601 limited range, weighted by plane size (4:1:1), chroma of half size by "
            "libswscale's bicubic filter"
        ),
        blind_to=_BLIND_BLOCKS.format("fine colour"),
        peer=f"{_FFMPEG_SSIM} All of yuv420p converted from RGB on x86: within 1e-6",
    ),
    _ssim(
        "pytorch_msssim_ms_ssim",
        formula=(
            "product over 5 scales of mean contrast-structure^weight, times mean similarity^weight of the last; "
            "Gaussian 11x11, sigma 1.5, valid region, a zero line before odd sides; mean over channels"
        ),
        blind_to="what ssim is blind to; forgiving of fine noise; needs sides of 161 pixels or more",
        peer="pytorch-msssim 1.0.0 ms_ssim: within 4e-6, on nearly flat pictures 2e-4 (its float32)",
    ),
    _ssim(
        "skimage_default_ssim",
        formula="SSIM over a uniform 7x7 window, sample covariance, valid region; mean over channels",
        blind_to="a three-pixel border, brightness shifts of flat areas, small local damage in a large image",
        peer="scikit-image 0.26.0 structural_similarity(channel_axis=2, data_range=...): within 1e-12; float32 1e-6",
    ),
    _ssim(
        "skimage_default_ssim_gray",
        formula="skimage_default_ssim on 0.2125 R + 0.7154 G + 0.0721 B in [0, 1]",
        blind_to="colour; what skimage_default_ssim is blind to",
        peer="scikit-image 0.26.0 structural_similarity of rgb2gray, data_range=1.0: within 1e-12; float32 1e-6",
    ),
    _ssim(
        "skimage_default_ssim_pillow_l",
        formula="skimage_default_ssim on BT.601 luma rounded to 8 bits",
        blind_to="colour; what skimage_default_ssim is blind to",
        peer="scikit-image 0.26.0 structural_similarity of Pillow's convert('L'): within 1e-12",
    ),
    _psnr(
        "torchmetrics_psnr_db",
        formula="10 log10(data range^2 / mean (reference - candidate)^2), over pixels and channels, errors in float32",
        peer="torchmetrics 1.9.0 peak_signal_noise_ratio(data_range=...): within 1e-5 dB",
    ),
    _ssim(
        "torchmetrics_ssim",
        formula=(
            "SSIM over a Gaussian 11x11, sigma 1.5, on pixels in [0, 1], the mirrored border averaged in, variances as "
            "E[x^2] - mean^2 in float32 and clamped at 0, covariance not clamped; mean over channels"
        ),
        blind_to="small local damage; its own rounding: identical flat pictures of 250 give 0.997616",
        peer="torchmetrics 1.9.0 structural_similarity_index_measure(data_range=1.0) of pixels / 255: within 5e-7",
        identical=None,
    ),
    _ssim(
        "torchmetrics_ssim_255",
        formula="torchmetrics_ssim on pixels in [0, 255]",
        blind_to="small local damage; its own rounding: identical flat pictures of 250 give 0.999065",
        peer="torchmetrics 1.9.0 structural_similarity_index_measure(data_range=255.0) of pixels: within 5e-7",
        identical=None,
    ),
)
