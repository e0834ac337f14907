"""Tensor metrics: two arrays in, numbers out. Not for files or bounds.

Reference and candidate have one shape and one dtype; nothing is broadcast, cut or converted to fit. Arithmetic is
exact or in double precision, whatever the dtype, and streams: mapped files of any size need little memory. What each
name computes is stated in ``specs.tensor``.

A NaN or an infinity on either side, also on both in the same place, refuses every number but the counts
(``non_finite_*``, ``mismatch_*``); a mask can leave such positions out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from paritygate.errors import MetricError
from paritygate.metrics import tensor_values as _values
from paritygate.metrics.specs.tensor import TENSOR
from paritygate.metrics.tensor_again import sums_of
from paritygate.metrics.tensor_formats import Array, Format, format_of
from paritygate.metrics.tensor_pass import Plan, totals
from paritygate.metrics.tensor_values import Found
from paritygate.metrics.tensor_view import view_of
from paritygate.metrics.values import Value, refused

__all__ = ["Masked", "default_names", "is_defined", "measure", "measure_masked"]


@dataclass(frozen=True)
class Masked:
    """The metrics of the real positions and, apart from them, of the padded ones."""

    real: Mapping[str, Value]
    padded: Mapping[str, Value]


def measure(
    names: Iterable[str],
    reference: Array,
    candidate: Array,
    *,
    dtype: str | None = None,
    mask: Array | None = None,
    threads: int = 1,
) -> dict[str, Value]:
    """Every named metric of a pair of tensors, from one pass over them.

    Args:
        names: names of ``specs.tensor``; each is in the result.
        reference: any shape, at least one element: float16, float32, float64, integers or booleans; raw uint16 or
            uint8 bits for the formats that NumPy lacks. A ``numpy.memmap`` is streamed.
        candidate: the same shape and dtype.
        dtype: ``bfloat16``, ``float8_e4m3fn`` or ``float8_e5m2`` for raw bits; else None or the arrays' own dtype.
        mask: booleans, True where an element is real; the tensors' shape, or the first axes of it (one answer for a
            whole token). Other elements are not looked at.
        threads: how many threads compute; the numbers are the same with any.

    Raises:
        MetricError: the arrays or the mask do not fit each other, are empty, or hold no real position.
    """
    return _measure(names, reference, candidate, dtype=dtype, mask=mask, padded=False, threads=threads)


def measure_masked(
    names: Iterable[str],
    reference: Array,
    candidate: Array,
    *,
    mask: Array,
    dtype: str | None = None,
    threads: int = 1,
) -> Masked:
    """The real positions and the padded ones, each measured apart; arguments as for ``measure``.

    Raises:
        MetricError: as ``measure``. A mask without a padded position is none: those metrics are refused.
    """
    names = tuple(names)
    real = measure(names, reference, candidate, dtype=dtype, mask=mask, threads=threads)
    if mask.all():
        return Masked(real, {name: refused("the mask leaves no padded position") for name in names})
    padded = _measure(names, reference, candidate, dtype=dtype, mask=mask, padded=True, threads=threads)
    return Masked(real, padded)


def default_names(array: Array, *, dtype: str | None = None) -> tuple[str, ...]:
    """The names that are measured on an array of this dtype when nobody asks for others, sorted."""
    kind = format_of(array, dtype)
    return tuple(spec.name for spec in TENSOR if spec.default and not _not_for(spec.name, kind))


def is_defined(name: str, array: Array, *, dtype: str | None = None) -> bool:
    """Whether the metric says something about values of this dtype; ``measure`` refuses it otherwise."""
    return not _not_for(name, format_of(array, dtype))


def _measure(
    names: Iterable[str],
    reference: Array,
    candidate: Array,
    *,
    dtype: str | None,
    mask: Array | None,
    padded: bool,
    threads: int,
) -> dict[str, Value]:
    names = tuple(names)
    unknown = sorted(set(names) - set(_METRICS))
    if unknown:
        raise MetricError(f"no tensor metric is called {', '.join(unknown)}")
    view = view_of(reference, candidate, dtype=dtype, mask=mask, padded=padded)
    if not view.size:
        raise MetricError("the mask leaves no real position to measure")
    asked = {name for name in names if not _not_for(name, view.format)}
    plan = Plan(tail="abs_error_p99" in asked, ulps=any(name.startswith("ulp_") for name in asked))
    found = totals(view, plan, threads=threads)
    pair = Found(found, view, sums_of(view, found))
    return {name: _value(name, pair) for name in names}


def _value(name: str, found: Found) -> Value:
    reason = _not_for(name, found.view.format)
    if not reason and not name.startswith(_COUNTS):
        reason = _values.no_number(found)
    return refused(reason) if reason else _METRICS[name](found)


def _not_for(name: str, kind: Format) -> str:
    """Why the metric says nothing about such values; empty when it does."""
    if name.startswith(_COUNTS):
        return ""
    if kind.kind == "boolean":
        return "booleans compare exactly: mismatch_count"
    if name.startswith("ulp_") and not kind.has_ulps:
        return f"units in the last place are counted for floats up to 32 bits, not for {kind.name}"
    return ""


#: What is counted whatever the values are.
_COUNTS = ("mismatch_", "non_finite_")

#: name -> what computes it, sorted by name.
_METRICS: Mapping[str, Callable[[Found], Value]] = MappingProxyType(
    {
        "abs_error_max": _values.abs_error_max,
        "abs_error_mean": _values.abs_error_mean,
        "abs_error_p99": _values.abs_error_p99,
        "abs_error_rms": _values.abs_error_rms,
        "bias_over_rms": _values.bias_over_rms,
        "correlation": _values.correlation,
        "cosine": _values.cosine,
        "mismatch_count": _values.mismatch_count,
        "mismatch_share": _values.mismatch_share,
        "non_finite_candidate": _values.non_finite_candidate,
        "non_finite_reference": _values.non_finite_reference,
        "relative_l2": _values.relative_l2,
        "relative_linf": _values.relative_linf,
        "ulp_max": _values.ulp_max,
        "ulp_mean": _values.ulp_mean,
        "ulp_over_1_share": _values.ulp_over_1_share,
    }
)
