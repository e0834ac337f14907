"""Facts about every metric, without the code that computes it.

Manifest rules, contracts, gates and reports read this table in a bare CI image, so it imports the standard
library only. Raising a metric's ``version`` changes every contract that uses it: old bounds then no longer apply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One metric.

    ``low`` and ``high`` are the ends of the range, reachable and possibly infinite. ``identical`` is the value for
    equal inputs. ``blind_to`` says what the number cannot see; ``non_finite`` what NaN or infinity in a pixel does.
    """

    name: str
    version: int
    formula: str
    source: str
    direction: Literal["higher", "lower"]
    unit: str
    low: float
    high: float
    identical: float
    blind_to: str
    non_finite: str


_REFUSED = "refused: no number is computed, and a bound on it is not met"

#: metric name -> facts, sorted by name.
SPECS: dict[str, Spec] = {
    spec.name: spec
    for spec in (
        Spec(
            name="abs_diff_max",
            version=1,
            formula="max |reference - candidate| / data range, over pixels and channels",
            source="definition",
            direction="lower",
            unit="1",
            low=0.0,
            high=1.0,
            identical=0.0,
            blind_to="how many pixels differ: one pixel decides",
            non_finite=_REFUSED,
        ),
        Spec(
            name="abs_diff_mean",
            version=1,
            formula="mean |reference - candidate| / data range, over pixels and channels",
            source="definition",
            direction="lower",
            unit="1",
            low=0.0,
            high=1.0,
            identical=0.0,
            blind_to="local damage, the sign of the error, and where it is",
            non_finite=_REFUSED,
        ),
        Spec(
            name="abs_diff_p99",
            version=1,
            formula="99th percentile (nearest rank) of |reference - candidate| / data range, over pixels and channels",
            source="definition; nearest rank keeps the value unchanged when an image is tiled",
            direction="lower",
            unit="1",
            low=0.0,
            high=1.0,
            identical=0.0,
            blind_to="damage that covers less than one value in a hundred",
            non_finite=_REFUSED,
        ),
        Spec(
            name="psnr_db",
            version=1,
            formula="10 log10(data range^2 / mean (reference - candidate)^2), over pixels and channels",
            source="definition",
            direction="higher",
            unit="dB",
            low=0.0,
            high=math.inf,
            identical=math.inf,
            blind_to="where the error is and what it looks like; small bias (rounding) is cheap",
            non_finite=_REFUSED,
        ),
        Spec(
            name="ssim",
            version=1,
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
            non_finite=_REFUSED,
        ),
    )
}
