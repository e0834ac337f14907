"""Is a target as near to the exact reference as a low-precision reference is?

Two bfloat16 implementations differ from each other although both are right. So neither is compared with the other,
but each with a float32 run on the same inputs: the error of the target must look like the error of the low-precision
reference. ``threeway_rule.Rule`` holds the limits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MetricError
from paritygate.metrics.threeway_bins import Bins, common_bins, overlap
from paritygate.metrics.threeway_errors import LEGS, Moments, Part, Pass, measured
from paritygate.metrics.threeway_rule import DEFAULT_RULE, Clause, Rule, clauses
from paritygate.metrics.values import Value, refused
from paritygate.metrics.widen import FLOATS

__all__ = ["DEFAULT_RULE", "Bins", "Clause", "LegErrors", "Row", "Rule", "ThreeWay", "Triple", "measure"]

#: What may stand for the truth.
EXACT = ("float32", "float64")
_WORDS = {"low": "low-precision reference", "reference": "exact reference", "target": "target"}


class Typed(Protocol):
    """An array with the name of its dtype, which bfloat16 and float8 bits need; ``media.tensors.Tensor`` is one."""

    @property
    def array(self) -> NDArray[Any]: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Triple:
    """One input of the comparison: what three runs made of it, arrays of one shape with at least one value."""

    name: str
    reference: NDArray[Any] | Typed
    low: NDArray[Any] | Typed
    target: NDArray[Any] | Typed


@dataclass(frozen=True, kw_only=True)
class LegErrors:
    """The errors of one leg against the exact reference in one input, NaN when there are none.

    ``max_abs``, ``l2``, ``rms``, ``std``, ``mean`` have the tensor's own unit; ``relative_linf`` is ``max_abs`` over
    the reference's largest magnitude and ``relative_l2`` is ``l2`` over its norm, both NaN for a reference of zeros.
    """

    max_abs: float = math.nan
    l2: float = math.nan
    rms: float = math.nan
    std: float = math.nan
    mean: float = math.nan
    relative_linf: float = math.nan
    relative_l2: float = math.nan


@dataclass(frozen=True, kw_only=True)
class Row:
    """One input: ``dtypes`` are those of reference, low and target; ``problem`` says why there are no numbers.

    ``non_finite`` says for a leg how many values are NaN or infinite, and the index of the first.
    """

    name: str
    shape: tuple[int, ...]
    dtypes: tuple[str, str, str]
    low: LegErrors
    target: LegErrors
    linf_ratio: float
    l2_ratio: float
    non_finite: dict[str, tuple[int, tuple[int, ...]]]
    problem: str


@dataclass(frozen=True, kw_only=True)
class ThreeWay:
    """What a three-way comparison measured and what its rule says.

    ``verdict``: ``passed``; ``failed`` when a clause is not met; ``invalid`` when the inputs cannot be judged: values
    that are not finite, one value only, errors outside of float64. ``linf_ratio`` and ``l2_ratio`` are the
    worst over inputs, and ``detail["input"]`` names it; ``sigma_ratio`` and ``bhattacharyya`` are taken over all
    errors of all inputs together, so inputs with large values weigh most. Each is NaN with a ``problem`` when it
    could not be computed. ``bins`` are the histograms, None when invalid. ``values`` is the number of elements of a
    leg. ``reasons`` says why it did not pass; ``notes`` what a reader of a pass should know.
    """

    verdict: Literal["passed", "failed", "invalid"]
    linf_ratio: Value
    l2_ratio: Value
    sigma_ratio: Value
    bhattacharyya: Value
    bins: Bins | None
    values: int
    rows: tuple[Row, ...]
    rule: Rule
    clauses: tuple[Clause, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every clause of the rule is met on inputs that can be judged."""
        return self.verdict == "passed"


def measure(triples: Iterable[Triple], *, rule: Rule = DEFAULT_RULE) -> ThreeWay:
    """The errors of low-precision references and targets against exact references, compared.

    With ``e = leg - reference`` in float64: ``linf_ratio = max|e_target| / max|e_low|`` and
    ``l2_ratio = ||e_target|| / ||e_low||`` of each input, ``sigma_ratio = std(e_target) / std(e_low)`` and the
    Bhattacharyya coefficient of both histograms over all inputs. A quotient of two zeros is 1 (equally exact), and of
    anything else by zero infinite.

    Args:
        triples: the inputs, read one after another, so that a generator may open their files. References are
            float32 or float64, the other legs any floating-point dtype: each value is widened exactly.
        rule: the limits.

    Raises:
        MetricError: for no inputs, two of one name, shapes that differ, no values, and dtypes without an error.
    """
    rows: dict[str, Row] = {}
    passes = []
    for triple in triples:
        if triple.name in rows:
            raise MetricError(f"two inputs are named {triple.name!r}")
        arrays, dtypes = _checked(triple)
        passes.append(measured(arrays, dtypes))
        rows[triple.name] = _row(triple.name, arrays[0].shape, dtypes, passes[-1], rule=rule)
    if not rows:
        raise MetricError("there are no inputs to compare")
    return _judged(tuple(rows.values()), passes, rule=rule)


def _checked(triple: Triple) -> tuple[tuple[NDArray[Any], ...], tuple[str, str, str]]:
    label = f"input {triple.name!r}"
    legs = (triple.reference, triple.low, triple.target)
    arrays = tuple(leg if isinstance(leg, np.ndarray) else leg.array for leg in legs)
    reference, low, target = (leg.dtype.name if isinstance(leg, np.ndarray) else leg.dtype for leg in legs)
    if len({array.shape for array in arrays}) != 1:
        found = ", ".join(f"{leg} {array.shape}" for leg, array in zip(LEGS, arrays, strict=True))
        raise MetricError(f"{label}: the shapes differ: {found}")
    if arrays[0].size == 0:
        raise MetricError(f"{label} holds no values")
    for leg, array, dtype in zip(LEGS, arrays, (reference, low, target), strict=True):
        if FLOATS.get(dtype) != array.dtype.name:
            raise MetricError(f"{label}: the {_WORDS[leg]} is {dtype}, expected one of {', '.join(FLOATS)}")
    if reference not in EXACT:
        raise MetricError(
            f"{label}: the {_WORDS['reference']} is {reference}, expected {' or '.join(EXACT)}",
            hint="the order is exact reference, low-precision reference, target",
        )
    return arrays, (reference, low, target)


def _row(name: str, shape: tuple[int, ...], dtypes: tuple[str, str, str], found: Pass, *, rule: Rule) -> Row:
    problem, low, target = _problem(found), found.whole.low, found.whole.target
    return Row(
        name=name,
        shape=shape,
        dtypes=dtypes,
        low=LegErrors() if problem else _leg_errors(low, found.whole),
        target=LegErrors() if problem else _leg_errors(target, found.whole),
        linf_ratio=math.nan if problem else _ratio(target.largest, low.largest, floor=rule.floor),
        l2_ratio=math.nan if problem else _root_ratio(target.energy, low.energy, floor=rule.floor, count=low.count),
        non_finite=found.non_finite,
        problem=problem,
    )


def _problem(found: Pass) -> str:
    """Why an input cannot be judged; empty when it can."""
    if found.non_finite:
        counts = (
            f"the {_WORDS[leg]} has {count} {'values that are' if count > 1 else 'value that is'} not finite, "
            f"the first at {list(index)}"
            for leg, (count, index) in found.non_finite.items()
        )
        invalid = "reference invalid: " if "reference" in found.non_finite else ""
        return invalid + "; ".join(counts)
    for errors in (found.whole.low, found.whole.target):
        if not math.isfinite(errors.energy) or (errors.energy == 0) != (errors.largest == 0):
            return "the squares of the errors leave the range of float64"
    return ""


def _leg_errors(errors: Moments, whole: Part) -> LegErrors:
    largest, norm = max(abs(whole.smallest), abs(whole.biggest)), math.sqrt(whole.squares)
    l2 = math.sqrt(errors.energy)
    return LegErrors(
        max_abs=errors.largest,
        l2=l2,
        rms=l2 / math.sqrt(errors.count),
        std=math.sqrt(errors.variance),
        mean=errors.mean,
        relative_linf=errors.largest / largest if largest else math.nan,
        relative_l2=l2 / norm if norm else math.nan,
    )


def _ratio(target: float, low: float, *, floor: float) -> float:
    target, low = max(target, floor), max(low, floor)
    if low == 0:
        return 1.0 if target == 0 else math.inf
    return target / low


def _root_ratio(target: float, low: float, *, floor: float, count: int) -> float:
    # The root of the quotient: the quotient of two roots puts an exact 3 just below 3.
    return math.sqrt(_ratio(target, low, floor=floor * floor * count))


def _judged(rows: tuple[Row, ...], passes: list[Pass], *, rule: Rule) -> ThreeWay:
    problems = [f"input {row.name!r}: {row.problem}" for row in rows if row.problem]
    whole = functools.reduce(Part.merged, (found.whole for found in passes))
    if whole.smallest == whole.biggest:
        problems.append("the exact reference holds one value only, so nothing was compared")
    keys = functools.reduce(np.add, (found.keys for found in passes))
    bins = None if problems else common_bins(keys[0], keys[1])
    values = {
        "bhattacharyya": refused(problems[0]) if bins is None else overlap(bins),
        "sigma_ratio": refused(problems[0]) if problems else _sigma_ratio(whole, floor=rule.floor),
        "linf_ratio": refused(problems[0]) if problems else _worst(rows, "linf_ratio", "max_abs"),
        "l2_ratio": refused(problems[0]) if problems else _worst(rows, "l2_ratio", "l2"),
    }
    judged = clauses(values, rule)
    failed = [f"{clause.text} is not met: {clause.found}" for clause in judged if not clause.met]
    verdict: Literal["passed", "failed", "invalid"] = "invalid" if problems else "failed" if failed else "passed"
    return ThreeWay(
        verdict=verdict,
        **values,
        bins=bins,
        values=whole.low.count,
        rows=rows,
        rule=rule,
        clauses=judged,
        reasons=tuple(problems or failed),
        notes=tuple(_notes(rows, values)),
    )


def _sigma_ratio(whole: Part, *, floor: float) -> Value:
    low, target = whole.low.variance, whole.target.variance
    number = _root_ratio(target, low, floor=floor, count=1)
    return Value(number, {"low": math.sqrt(low), "target": math.sqrt(target)})


def _worst(rows: tuple[Row, ...], ratio: str, error: str) -> Value:
    worst = max(rows, key=lambda row: float(getattr(row, ratio)))
    detail = {"input": worst.name, "low": getattr(worst.low, error), "target": getattr(worst.target, error)}
    return Value(getattr(worst, ratio), detail)


def _notes(rows: tuple[Row, ...], values: Mapping[str, Value]) -> Iterator[str]:
    if values["bhattacharyya"].problem and not values["sigma_ratio"].problem:
        yield f"judged by sigma_ratio alone, no bhattacharyya: {values['bhattacharyya'].problem}"
    for leg in ("low", "target"):
        exact = [row.name for row in rows if getattr(row, leg).max_abs == 0]
        if exact:
            yield f"the {_WORDS[leg]} equals the exact reference in {_listed(exact)}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return f"input{'s' * (len(names) > 1)} {shown}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
