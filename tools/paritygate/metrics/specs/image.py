"""Facts about what is measured on a pair of images, and on every frame of a pair of videos."""

from __future__ import annotations

import math
from typing import Any

from paritygate.metrics.specs.spec import PICTURES, Spec

#: Suffix of a percentile -> its rank as a share of the values (numerator, denominator).
PERCENTILES = {"p50": (50, 100), "p90": (90, 100), "p95": (95, 100), "p99": (99, 100), "p999": (999, 1000)}
#: Tolerances of the mismatch shares, in levels of 255.
TOLERANCES = (0, 1, 2, 4, 8, 16, 32)

_TILE = "tiles of 16x16 pixels at every multiple of 8, cut off at the right and the bottom"
_SSIM = (
    "((2 mx my + C1)(2 cxy + C2)) / ((mx^2 + my^2 + C1)(vx + vy + C2)); Gaussian 11x11, sigma 1.5, "
    "K1 0.01, K2 0.03, biased variances, valid region"
)
_WANG = "Wang, Bovik, Sheikh, Simoncelli 2004"
_SHARE: dict[str, Any] = {"version": 1, "kinds": PICTURES, "unit": "1", "low": 0.0, "high": 1.0}
_LOWER: dict[str, Any] = {**_SHARE, "direction": "lower", "identical": 0.0, "source": "definition"}
_SIMILARITY: dict[str, Any] = {
    "version": 1,
    "kinds": PICTURES,
    "source": _WANG,
    "direction": "higher",
    "unit": "1",
    "low": -1.0,
    "high": 1.0,
    "identical": 1.0,
}
_SYMPTOM: dict[str, Any] = {
    **_SHARE,
    "direction": "none",
    "identical": None,
    "source": "definition; a symptom to read, of the candidate, with the reference beside it",
}

_ALPHA = (
    Spec(
        name="alpha_error_max",
        formula="max |reference - candidate| / data range, over the alpha channel; images without alpha are refused",
        blind_to="colour, and how many pixels differ: one pixel decides",
        default=True,
        **_LOWER,
    ),
    Spec(
        name="alpha_error_mean",
        formula="mean |reference - candidate| / data range, over the alpha channel; images without alpha are refused",
        blind_to="colour, local damage, and the sign of the error",
        default=True,
        **_LOWER,
    ),
)
_DIFFERENCES = (
    Spec(
        name="abs_diff_max",
        formula="max |reference - candidate| / data range, over pixels and channels",
        blind_to="how many pixels differ: one pixel decides",
        default=True,
        **_LOWER,
    ),
    Spec(
        name="abs_diff_mean",
        formula="mean |reference - candidate| / data range, over pixels and channels",
        blind_to="local damage, the sign of the error, and where it is",
        default=True,
        **_LOWER,
    ),
    *(
        Spec(
            name=f"abs_diff_{suffix}",
            formula=(
                f"{100 * above / of:g}th percentile (nearest rank) of |reference - candidate| / data range, "
                "over pixels and channels"
            ),
            blind_to=f"damage that covers less than {of - above} values in {of}",
            default=True,
            **{**_LOWER, "source": "definition; nearest rank keeps the value unchanged when an image is tiled"},
        )
        for suffix, (above, of) in PERCENTILES.items()
    ),
    Spec(
        name="abs_diff_worst_tile",
        formula=f"highest mean |reference - candidate| / data range of a tile, over its channels; {_TILE}",
        blind_to="what the other tiles hold, and damage much smaller than a tile",
        default=True,
        **_LOWER,
    ),
    Spec(
        name="psnr_db",
        version=1,
        kinds=PICTURES,
        formula="10 log10(data range^2 / mean (reference - candidate)^2), over pixels and channels",
        source="definition",
        direction="higher",
        unit="dB",
        low=0.0,
        high=math.inf,
        identical=math.inf,
        blind_to="where the error is and what it looks like; small bias (rounding) is cheap",
        default=True,
    ),
    Spec(
        name="signed_mean_worst",
        formula="largest |mean (candidate - reference)| / data range of a channel; the detail has all of them, signed",
        blind_to="errors that cancel out: noise of any strength, and damage that is as often bright as dark",
        default=True,
        **_LOWER,
    ),
)
_MISMATCHES = tuple(
    Spec(
        name=f"{counted}_mismatch_over_{tolerance}",
        formula=(
            f"share of {of} that differ by more than {tolerance}/255 of the data range"
            + ("" if tolerance == 0 else "; in float pixels by more than a ten-thousandth of a level above that")
        ),
        blind_to="how far beyond the tolerance they are, and where",
        default=True,
        **_LOWER,
    )
    for counted, of in (("channel", "the values"), ("pixel", "the pixels with any channel"))
    for tolerance in TOLERANCES
)
_SIMILARITIES = (
    Spec(
        name="ssim",
        formula=f"mean of {_SSIM}, mean over the colour channels (1 or 3), without alpha",
        blind_to=(
            "a five-pixel border, brightness shifts of flat areas, small local damage in a large image, and alpha"
        ),
        default=True,
        **_SIMILARITY,
    ),
    Spec(
        name="ssim_rgba",
        formula=f"mean of {_SSIM}, mean over R, G, B and straight alpha, nothing composited; other modes are refused",
        blind_to="a five-pixel border, small local damage, and that colour under transparent pixels is not seen",
        **_SIMILARITY,
    ),
    Spec(
        name="ssim_worst_tile",
        formula=f"lowest mean of {_SSIM}, over the windows centred in a tile and the colour channels; {_TILE}",
        blind_to="what the other tiles hold, a five-pixel border, brightness shifts of flat areas, and alpha",
        default=True,
        **_SIMILARITY,
    ),
    Spec(
        name="ssim_y",
        formula=f"mean of {_SSIM}, of the luma 0.299 R + 0.587 G + 0.114 B (BT.601, full range, not rounded)",
        blind_to="hue and saturation of equal luma, alpha, a five-pixel border, and small local damage",
        **{**_SIMILARITY, "source": f"{_WANG}; ITU-R BT.601 luma"},
    ),
)
_SYMPTOMS = (
    Spec(
        name="clipped_high_share",
        formula="share of the colour values at the top of the data range",
        blind_to="values just below the top",
        **_SYMPTOM,
    ),
    Spec(
        name="clipped_low_share",
        formula="share of the colour values at the bottom of the data range",
        blind_to="values just above the bottom",
        **_SYMPTOM,
    ),
    Spec(
        name="edge_strength",
        formula="mean over right and lower neighbours of |difference of luma| / data range; low: blurred or empty",
        blind_to="where the edges are, and edges from texture, noise or tiling alike",
        **_SYMPTOM,
    ),
    Spec(
        name="level_deviation",
        formula="mean over the colour channels of their standard deviation / data range; at most 0.5",
        blind_to="structure: noise has a deviation too",
        **_SYMPTOM,
    ),
    Spec(
        name="level_spread",
        formula="largest spread (max - min) / data range of a colour channel; 0: every channel is constant",
        blind_to="everything between the ends: one pixel decides",
        **_SYMPTOM,
    ),
    Spec(
        name="mean_level",
        formula="mean of the colour values / data range; the detail has every channel",
        blind_to="everything but brightness",
        **_SYMPTOM,
    ),
    Spec(
        name="saturation",
        formula="mean over pixels of (max - min) / max over R, G, B (HSV), black pixels counting as 0; grey is refused",
        blind_to="hue",
        **_SYMPTOM,
    ),
    Spec(
        name="skin_tone_share",
        formula=(
            "share of the pixels with R > 95, G > 40, B > 20, max - min > 15, R - G > 15 and R > B, in levels of 255; "
            "grey is refused"
        ),
        blind_to="skin in other light or of darker tone, and anything else of that colour: sand, wood",
        **{
            **_SYMPTOM,
            "source": "Kovac, Peer, Solina 2003, daylight rule; of the candidate, with the reference beside it",
        },
    ),
)

#: Sorted by name.
IMAGE = tuple(
    sorted(
        (*_ALPHA, *_DIFFERENCES, *_MISMATCHES, *_SIMILARITIES, *_SYMPTOMS),
        key=lambda spec: spec.name,
    )
)
#: Names of the symptoms of one image.
SYMPTOMS = tuple(spec.name for spec in _SYMPTOMS)
