"""Facts about what is measured on an exact reference, a low-precision reference and a target."""

from __future__ import annotations

import math

from paritygate.metrics.specs.spec import Spec

_INVALID = "refused: the comparison is invalid, and the leg with the value is named"

#: Sorted by name.
THREEWAY: tuple[Spec, ...] = (
    Spec(
        name="bhattacharyya",
        version=1,
        kinds=("threeway",),
        formula=(
            "sum over bins of sqrt(p q), p and q the shares of the errors low - reference and target - reference of "
            "all inputs; bins: sign, and 8 steps per power of two (fewer below 16,384 values); one bin around 0"
        ),
        source="Bhattacharyya 1943; the bins are ours and named in the result, since the value depends on them",
        direction="higher",
        unit="1",
        low=0.0,
        high=1.0,
        identical=None,
        blind_to="where the errors are: a permutation changes nothing; a few errors of any size",
        non_finite=_INVALID,
        default=True,
    ),
    Spec(
        name="l2_ratio",
        version=1,
        kinds=("threeway",),
        formula="||target - reference|| / ||low - reference|| in float64, worst input; 0/0 is 1",
        source="definition",
        direction="lower",
        unit="1",
        low=0.0,
        high=math.inf,
        identical=None,
        blind_to="a few wrong values in a large tensor; how large either error is beside the reference",
        non_finite=_INVALID,
        default=True,
    ),
    Spec(
        name="linf_ratio",
        version=1,
        kinds=("threeway",),
        formula="max |target - reference| / max |low - reference| in float64, worst input; 0/0 is 1",
        source="definition",
        direction="lower",
        unit="1",
        low=0.0,
        high=math.inf,
        identical=None,
        blind_to="all but the largest error of each side: one outlier of the low-precision reference hides many",
        non_finite=_INVALID,
        default=True,
    ),
    Spec(
        name="sigma_ratio",
        version=1,
        kinds=("threeway",),
        formula=(
            "std(target - reference) / std(low - reference) in float64 over the values of all inputs together, each "
            "around its mean, biased; 0/0 is 1"
        ),
        source="definition",
        direction="lower",
        unit="1",
        low=0.0,
        high=math.inf,
        identical=None,
        blind_to="a constant error; inputs with small values beside one with large values",
        non_finite=_INVALID,
        default=True,
    ),
)
