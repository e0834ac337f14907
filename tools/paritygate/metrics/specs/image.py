"""Facts about what is measured on a pair of images, and on every frame of a pair of videos."""

from __future__ import annotations

import math

from paritygate.metrics.specs.spec import PICTURES, Spec

#: Sorted by name.
IMAGE = (
    Spec(
        name="abs_diff_max",
        version=1,
        kinds=PICTURES,
        formula="max |reference - candidate| / data range, over pixels and channels",
        source="definition",
        direction="lower",
        unit="1",
        low=0.0,
        high=1.0,
        identical=0.0,
        blind_to="how many pixels differ: one pixel decides",
        default=True,
    ),
    Spec(
        name="abs_diff_mean",
        version=1,
        kinds=PICTURES,
        formula="mean |reference - candidate| / data range, over pixels and channels",
        source="definition",
        direction="lower",
        unit="1",
        low=0.0,
        high=1.0,
        identical=0.0,
        blind_to="local damage, the sign of the error, and where it is",
        default=True,
    ),
    Spec(
        name="abs_diff_p99",
        version=1,
        kinds=PICTURES,
        formula="99th percentile (nearest rank) of |reference - candidate| / data range, over pixels and channels",
        source="definition; nearest rank keeps the value unchanged when an image is tiled",
        direction="lower",
        unit="1",
        low=0.0,
        high=1.0,
        identical=0.0,
        blind_to="damage that covers less than one value in a hundred",
        default=True,
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
        name="ssim",
        version=1,
        kinds=PICTURES,
        formula=(
            "mean of ((2 mx my + C1)(2 cxy + C2)) / ((mx^2 + my^2 + C1)(vx + vy + C2)); Gaussian 11x11, sigma 1.5, "
            "K1 0.01, K2 0.03, biased variances, valid region, mean over 1 or 3 colour channels"
        ),
        source="Wang, Bovik, Sheikh, Simoncelli 2004",
        direction="higher",
        unit="1",
        low=-1.0,
        high=1.0,
        identical=1.0,
        blind_to="a five-pixel border, brightness shifts of flat areas, small local damage in a large image",
        default=True,
    ),
)
