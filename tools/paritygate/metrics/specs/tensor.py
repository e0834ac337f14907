"""Facts about what is measured on two tensors; r is the reference, c the candidate."""

from __future__ import annotations

import math

from paritygate.metrics.specs.spec import REFUSED, Kind, Spec

_BOTH: tuple[Kind, ...] = ("audio", "tensor")
_COUNTED = "counted; a NaN is unequal to everything, also to a NaN"
_ZERO_REFERENCE = "0 for equal sides, infinite for others when r is all zero"
_WHERE = "where the error is and what sign it has"


def _lower(
    name: str,
    formula: str,
    blind_to: str,
    *,
    unit: str,
    high: float = math.inf,
    identical: float | None = 0.0,
    source: str = "definition",
    kinds: tuple[Kind, ...] = ("tensor",),
    non_finite: str = REFUSED,
) -> Spec:
    return Spec(
        name=name,
        version=1,
        kinds=kinds,
        formula=formula,
        source=source,
        direction="lower",
        unit=unit,
        low=0.0,
        high=high,
        identical=identical,
        blind_to=blind_to,
        non_finite=non_finite,
        default=True,
    )


def _likeness(name: str, formula: str, source: str, blind_to: str) -> Spec:
    return Spec(
        name=name,
        version=1,
        kinds=_BOTH,
        formula=formula,
        source=source,
        direction="higher",
        unit="1",
        low=-1.0,
        high=1.0,
        identical=1.0,
        blind_to=blind_to,
        default=True,
    )


#: Sorted by name.
TENSOR = (
    _lower(
        "abs_error_max",
        "max |c - r|",
        "how many elements differ: one decides. The detail has the ten worst with their index",
        unit="of the tensor",
        kinds=_BOTH,
    ),
    _lower("abs_error_mean", "mean |c - r|", f"few large errors, and {_WHERE}", unit="of the tensor", kinds=_BOTH),
    _lower(
        "abs_error_p99",
        "99th percentile (nearest rank) of |c - r|, exact",
        f"damage to less than one element in a hundred, and {_WHERE}",
        unit="of the tensor",
        kinds=_BOTH,
    ),
    _lower("abs_error_rms", "sqrt(mean (c - r)^2)", _WHERE, unit="of the tensor", kinds=_BOTH),
    _lower(
        "bias_over_rms",
        "|mean (c - r)| / sqrt(mean (c - r)^2); the sign is in the detail; 0 for equal sides; refused for one element",
        "how large the error is, only how one-sided. Independent errors give about 1 / sqrt(elements)",
        unit="1",
        high=1.0,
    ),
    _likeness(
        "correlation",
        "sum (r - mean r)(c - mean c) / sqrt(sum (r - mean r)^2 sum (c - mean c)^2); refused for fewer than three "
        "elements and for a constant side",
        "Pearson 1895",
        "scale and offset: 0.3 r + 5 scores 1.0. Never bound it alone",
    ),
    _likeness(
        "cosine",
        "sum r c / sqrt(sum r^2 sum c^2), clamped to [-1, 1]; refused for one element and for a zero vector",
        "definition",
        "scale: 0.3 r scores 1.0. Never bound it alone",
    ),
    _lower(
        "mismatch_count",
        "number of elements with c != r, compared exactly in every dtype; -0 equals 0; the detail has the first ten",
        "how far apart they are",
        unit="elements",
        non_finite=_COUNTED,
    ),
    _lower(
        "mismatch_share",
        "mismatch_count / number of elements",
        "how far apart they are",
        unit="1",
        high=1.0,
        non_finite=_COUNTED,
    ),
    _lower(
        "non_finite_candidate",
        "number of NaN and infinite elements of c; the detail has both counts and the first ten places",
        "everything else",
        unit="elements",
        identical=None,
        non_finite="counted",
    ),
    _lower(
        "non_finite_reference",
        "number of NaN and infinite elements of r; the detail has both counts and the first ten places",
        "everything else",
        unit="elements",
        identical=None,
        non_finite="counted",
    ),
    _lower(
        "relative_l2",
        f"sqrt(sum (c - r)^2 / sum r^2); {_ZERO_REFERENCE}",
        "errors of small elements beside large ones",
        unit="1",
        kinds=_BOTH,
    ),
    _lower(
        "relative_linf",
        f"max |c - r| / max |r|; {_ZERO_REFERENCE}",
        "errors of small elements beside large ones, and how many there are",
        unit="1",
    ),
    _lower(
        "ulp_max",
        "largest number of steps from r to c through the values of their dtype (floats up to 32 bits); -0 is 0",
        "size: near zero a tiny error is many steps",
        unit="ulp",
    ),
    _lower(
        "ulp_mean",
        "mean number of steps from r to c through the values of their dtype (floats up to 32 bits); -0 is 0",
        "size: near zero a tiny error is many steps",
        unit="ulp",
    ),
    _lower(
        "ulp_over_1_share",
        "share of elements that are more than one step of their dtype apart (floats up to 32 bits)",
        "how much more",
        unit="1",
        high=1.0,
    ),
)
