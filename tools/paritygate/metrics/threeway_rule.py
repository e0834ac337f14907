"""When a target is as near to the exact reference as a low-precision reference is: the limits, and judging by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from paritygate.errors import MetricError
from paritygate.metrics.values import Value


@dataclass(frozen=True, kw_only=True)
class Rule:
    """``(bhattacharyya >= b or sigma_ratio <= s) and linf_ratio < m and l2_ratio < e``.

    The defaults are the limits of vLLM-Omni's Wan2.2 case on Neuron. ``floor`` is an absolute error that counts as
    none: smaller largest errors, root mean squares and deviations are taken for it on both sides. It is 0 unless the
    user declares one, so any error above an exact baseline is too much.
    """

    bhattacharyya_at_least: float = 0.99
    sigma_ratio_at_most: float = 1.0
    linf_ratio_below: float = 5.0
    l2_ratio_below: float = 3.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        """Refuse limits that everything or nothing meets.

        Raises:
            MetricError: naming the limit.
        """
        for field in fields(self):
            number = getattr(self, field.name)
            if not math.isfinite(number) or number < 0 or (number == 0 and field.name != "floor"):
                raise MetricError(f"{field.name} is {number}, expected a positive number")
        if self.bhattacharyya_at_least > 1:
            raise MetricError(f"bhattacharyya_at_least is {self.bhattacharyya_at_least}, at most 1 can be reached")


#: The rule when nobody declares another.
DEFAULT_RULE = Rule()


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One of the conditions that must all hold: its name, what it asks in words, whether it holds, what was found."""

    name: str
    text: str
    met: bool
    found: str


def clauses(values: Mapping[str, Value], rule: Rule) -> tuple[Clause, ...]:
    """The conditions of a rule on the four measured values. A value that is NaN meets nothing."""
    overlap, sigma = rule.bhattacharyya_at_least, rule.sigma_ratio_at_most
    distribution = (values["bhattacharyya"].number >= overlap, values["sigma_ratio"].number <= sigma)
    return (
        Clause(
            name="distribution",
            text=f"bhattacharyya >= {overlap:g} or sigma_ratio <= {sigma:g}",
            met=any(distribution),
            found=f"{_found('bhattacharyya', values)}, {_found('sigma_ratio', values)}",
        ),
        *(
            Clause(
                name=name,
                text=f"{name} < {limit:g}",
                met=values[name].number < limit,
                found=_found(name, values),
            )
            for name, limit in (("linf_ratio", rule.linf_ratio_below), ("l2_ratio", rule.l2_ratio_below))
        ),
    )


def _found(name: str, values: Mapping[str, Value]) -> str:
    value = values[name]
    if value.problem:
        return f"{name} has no value ({value.problem})"
    where = f" in input {value.detail['input']!r}" if "input" in value.detail else ""
    return f"{name} {value.number:.6g}{where}"
