"""Bounds of the command line, ``metric[.aggregate](>=|<=)number``: checked before anything is read, judged last."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from paritygate.compare.aggregate import aggregate, worst_index
from paritygate.compare.files.result import Outcome, Part
from paritygate.errors import UsageError
from paritygate.manifest.rules.metrics import MAGNITUDE
from paritygate.manifest.wording import nearest
from paritygate.metrics.specs import SPECS, Kind, Spec
from paritygate.records.model import Real

#: How the values of all pairs, frames and tensors become one; ``all`` is the worst.
AGGREGATES = ("all", "max", "mean", "median", "min", "p01", "p99")
#: Metrics that do not see how large something is: 0.3 times a signal scores 1.
BLIND_TO_SCALE = ("correlation", "cosine")

_GRAMMAR = re.compile(
    r"\s*(?P<metric>[A-Za-z]\w*)(?:\.(?P<how>\w+))?\s*(?P<operator>[<>=!]+)\s*(?P<limit>[^\s<>=]+)\s*"
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OPERATORS = {"higher": ">=", "lower": "<="}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One limit; ``text`` as the user wrote it."""

    text: str
    metric: str
    aggregate: str
    relation: Literal["at_least", "at_most"]
    limit: float

    @property
    def spec(self) -> Spec:
        """The facts of its metric."""
        return SPECS[self.metric]


def parse_bounds(texts: Iterable[str]) -> tuple[Bound, ...]:
    """The bounds, each of which can be met and can be missed.

    Raises:
        UsageError: for another form, an unknown metric or aggregate, the operator that lets every bad value pass, a
            limit that is not finite, outside of the metric's range or at its worst end, the same bound twice, and
            for a bound that is blind to scale without one that sees a magnitude.
    """
    parsed = [_parsed(text) for text in texts]
    bounds = [bound for bound in parsed if isinstance(bound, Bound)]
    if wrong := [error for error in parsed if isinstance(error, UsageError)]:
        raise wrong[0] if len(wrong) == 1 else _together(wrong)
    seen: set[tuple[str, str]] = set()
    for bound in bounds:
        if (bound.metric, bound.aggregate) in seen:
            raise UsageError(f"{bound.metric}.{bound.aggregate} has two bounds", hint="keep one of the two")
        seen.add((bound.metric, bound.aggregate))
    blind = [bound for bound in bounds if bound.metric in BLIND_TO_SCALE]
    if blind and not any(bound.metric.startswith(MAGNITUDE) for bound in bounds):
        raise UsageError(
            f"{blind[0].metric} alone is blind to scale: 0.3 times the output scores 1",
            hint='bound a magnitude beside it, such as --bound "relative_l2<=0.01"',
        )
    return tuple(bounds)


def _parsed(text: str) -> Bound | UsageError:
    try:
        return _parse(text)
    except UsageError as error:
        return error


def _together(errors: Sequence[UsageError]) -> UsageError:
    lines = [f"  {error.message}" + (f" ({error.hint})" if error.hint else "") for error in errors]
    return UsageError("\n".join([f"{len(errors)} bounds are wrong", *lines]))


def known_metric(name: str) -> Spec:
    """The facts of a metric of two sides.

    Raises:
        UsageError: for an unknown name, with the nearest spelling, and for a metric of three sides.
    """
    known = {metric for metric, spec in SPECS.items() if spec.kinds != ("threeway",)}
    if name not in SPECS:
        raise UsageError(f"no metric {name!r}", hint=nearest(name, known) or "list them with: paritygate metrics")
    if name not in known:
        raise UsageError(f"{name} compares three sides", hint="see: paritygate threeway --help")
    return SPECS[name]


def check_kinds(names: Iterable[str], kinds: Iterable[Kind]) -> None:
    """Refuse metrics that are defined for nothing that is compared.

    Raises:
        UsageError: naming the metric, what it is defined for, and what was given.
    """
    given = sorted(set(kinds))
    for name in dict.fromkeys(names):
        spec = SPECS[name]
        if given and not set(given) & set(spec.kinds):
            known = [other.name for other in SPECS.values() if set(other.kinds) & set(given)]
            raise UsageError(
                f"{name} is measured on {' and '.join(spec.kinds)}, and what is compared is {' and '.join(given)}",
                hint=nearest(name, known) or f"list what is: paritygate metrics --kind {given[0]}",
            )


def judge(bounds: Sequence[Bound], parts: Iterable[Part]) -> tuple[Outcome, ...]:
    """Each bound against the aggregate of all values of its metric. A value that is NaN meets nothing."""
    measured = tuple(parts)
    return tuple(_outcome(bound, measured) for bound in bounds)


def _parse(text: str) -> Bound:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no bound", hint='write it like --bound "ssim>=0.97" or --bound "psnr_db.mean>=30"'
        )
    spec = known_metric(match["metric"])
    how = match["how"] or "all"
    if how not in AGGREGATES:
        raise UsageError(f"{text!r}: no aggregate {how!r}", hint=nearest(how, AGGREGATES))
    if spec.direction == "none":
        raise UsageError(f"{spec.name} describes, and neither more nor less of it is better: no bound can judge it")
    expected = _OPERATORS[spec.direction]
    if match["operator"] != expected:
        why = "would let every bad value pass" if match["operator"] in _OPERATORS.values() else "is no operator here"
        raise UsageError(
            f"{text!r}: {spec.name} is better when {spec.direction}, and {match['operator']} {why}",
            hint=f"write {spec.name}{expected}{match['limit']}",
        )
    return Bound(
        text="".join(text.split()),
        metric=spec.name,
        aggregate=how,
        relation="at_least" if expected == ">=" else "at_most",
        limit=_limit(match["limit"], spec, text=text),
    )


def _limit(written: str, spec: Spec, *, text: str) -> float:
    number = float(written) if _NUMBER.fullmatch(written) else math.nan
    if not math.isfinite(number):
        raise UsageError(
            f"{text!r}: the limit {written!r} is no finite number", hint="write digits, such as 0.97 or 1e-3"
        )
    if not spec.low <= number <= spec.high:
        raise UsageError(f"{text!r}: {number:g} is outside the range of {spec.name}, {spec.low:g} to {spec.high:g}")
    if number == (spec.low if spec.direction == "higher" else spec.high):
        raise UsageError(f"{text!r}: {number:g} is the worst value that {spec.name} has, so nothing can fail it")
    return number


def _outcome(bound: Bound, parts: tuple[Part, ...]) -> Outcome:
    spec = bound.spec
    places, numbers, problems = [], [], []
    for part in parts:
        for series in part.series:
            if series.metric == bound.metric:
                places += [place(part, key) for key in series.values]
                numbers += list(series.values.values())
                problems += [f"{place(part, key)}: {problem}" for key, problem in series.problems.items()]
    value = aggregate(numbers, bound.aggregate, direction=spec.direction)
    headroom = value - bound.limit if bound.relation == "at_least" else bound.limit - value
    if not numbers:
        problems = ["it judged nothing: no pair was measured with this metric"]
    return Outcome(
        bound=bound.text,
        metric=bound.metric,
        version=spec.version,
        aggregate=bound.aggregate,
        relation=bound.relation,
        limit=Real(bound.limit),
        unit=spec.unit,
        value=Real(value),
        headroom=Real(headroom),
        # Written so that NaN is not satisfied.
        satisfied=bool(value >= bound.limit if bound.relation == "at_least" else value <= bound.limit),
        values=len(numbers),
        worst=places[worst_index(numbers, direction=spec.direction)] if numbers else "",
        problem=problems[0] if problems else "",
    )


def place(part: Part, key: str) -> str:
    """What people call one value: ``a.png``, ``clip.mp4 frame 12``, ``model.safetensors tensor w``."""
    return f"{part.name} {part.keys} {key}" if key else part.name
