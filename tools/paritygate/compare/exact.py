"""The exact layer: what must be equal is compared for equality, and the first difference is named.

Token ids, timesteps, initial latents and configuration are equal or they are not. Noise levels alone have a
tolerance, because two correct programs round them differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from paritygate.compare.checklist import declared_reason, same_value, shown
from paritygate.manifest.case import Difference
from paritygate.records.model import Effective, ExactResult

#: Two sigmas are equal when they differ by no more than ``SIGMA_RELATIVE`` of the larger plus ``SIGMA_ABSOLUTE``.
#: A sigma comes from a product of up to 1,000 float32 factors (rounding grows to about 2^-17 of its value) and for
#: the last steps from 1 minus such a product (absolute rounding of some 2^-18). The mildest real fault on record,
#: one step more or less, moves sigmas by more than 1e-3.
SIGMA_RELATIVE = 2.0**-16
SIGMA_ABSOLUTE = 2.0**-17

_Status = Literal["equal", "different", "unreported"]
_Sides = tuple[Effective, Effective]


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the exact items need beside the two legs.

    ``item_ids`` in suite order. ``shared``: item id -> digest of the latents that the job handed to every leg, a
    text when they cannot be read, or None when the case has no shared latents.
    """

    item_ids: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    shared: Mapping[str, str] | str | None = None


def compare_exact(
    names: tuple[str, ...], reference: Effective | None, candidate: Effective | None, context: Context
) -> tuple[ExactResult, ...]:
    """One result for each name in ``names`` (the manifest's ``measure.exact``); others are not judged."""
    sides = (reference or Effective(), candidate or Effective())
    results = []
    for name in names:
        status, detail = EXACT[name](sides, context)
        results.append(ExactResult(name=name, status=status, detail=detail))
    return tuple(results)


def _token_ids(sides: _Sides, context: Context) -> tuple[_Status, str]:
    def difference(item: str, left: list[list[int]], right: list[list[int]]) -> str:
        if len(left) != len(right):
            return f"item {item}: the reference has {len(left)} rows of token ids, the candidate {len(right)}"
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            if place := _first_difference(a, b):
                return f"item {item}, row {row}, {place}"
        return ""

    return _by_item(sides[0].token_ids, sides[1].token_ids, context, difference)


def _initial_latents(sides: _Sides, context: Context) -> tuple[_Status, str]:
    shared = context.shared
    if isinstance(shared, str):
        return "different", f"the shared latents cannot be checked: {shared}"

    def difference(item: str, left: str, right: str) -> str:
        digests = {"reference": _hex(left), "candidate": _hex(right)}
        if shared is not None:
            wanted = _hex(shared.get(item, ""))
            wrong = [f"the {leg} started from {digest[:12]}" for leg, digest in digests.items() if digest != wanted]
            return f"item {item}: {' and '.join(wrong)}, the job handed out {wanted[:12]}" if wrong else ""
        if digests["reference"] == digests["candidate"]:
            return ""
        return f"item {item}: reference {digests['reference'][:12]}, candidate {digests['candidate'][:12]}"

    return _by_item(sides[0].initial_latents, sides[1].initial_latents, context, difference)


def _timesteps(sides: _Sides, _: Context) -> tuple[_Status, str]:
    left, right = sides[0].timesteps, sides[1].timesteps
    if not left or not right:
        return "unreported", _lacking(left, right, "timesteps")
    place = _first_difference(left, right)
    return ("different", place) if place else ("equal", f"{len(left)} timesteps")


def _sigmas(sides: _Sides, _: Context) -> tuple[_Status, str]:
    left, right = sides[0].sigmas, sides[1].sigmas
    if not left or not right:
        return "unreported", _lacking(left, right, "sigmas")
    if len(left) != len(right):
        return "different", f"the reference has {len(left)} sigmas, the candidate {len(right)}"
    excess = [_sigma_excess(a, b) for a, b in zip(left, right, strict=True)]
    # `not <= 1` is also true for NaN, which must never count as close.
    outside = [index for index, share in enumerate(excess) if not share <= 1.0]
    if not outside:
        return "equal", f"{len(left)} sigmas within float32 rounding (at most {max(excess):.2g} of the tolerance)"
    worst = max(outside, key=lambda index: (excess[index] != excess[index], excess[index]))
    detail = f"{len(outside)} of {len(left)} sigmas differ, most at index {worst}"
    return "different", f"{detail}: reference {left[worst]:.9g}, candidate {right[worst]:.9g}"


def _sigma_excess(left: float, right: float) -> float:
    if left == right:
        return 0.0
    return abs(left - right) / (SIGMA_RELATIVE * max(abs(left), abs(right)) + SIGMA_ABSOLUTE)


def _config(sides: _Sides, context: Context) -> tuple[_Status, str]:
    left, right = ({k: v for k, v in side.settings.items() if k.startswith("config.")} for side in sides)
    both = sorted(left.keys() & right.keys())
    one_sided = len(left.keys() ^ right.keys())
    if not both:
        return "unreported", f"no configuration name is shown by both legs ({one_sided} by one leg only)"
    unequal = [name for name in both if not same_value(left[name], right[name])]
    undeclared = [name for name in unequal if declared_reason(name, context.differences) is None]
    if undeclared:
        listed = [f"{name}: reference {shown(left[name])}, candidate {shown(right[name])}" for name in undeclared]
        return "different", "; ".join(listed)
    tail = f", {len(unequal)} declared differences" if unequal else ""
    return "equal", f"{len(both) - len(unequal)} settings equal{tail}, {one_sided} shown by one leg only"


def _by_item(
    left: Mapping[str, object], right: Mapping[str, object], context: Context, difference: Callable[..., str]
) -> tuple[_Status, str]:
    """Compare per suite item; a difference in what is shown counts even when not everything is shown."""
    strangers = sorted((left.keys() | right.keys()) - set(context.item_ids))
    if strangers:
        return "different", f"item {strangers[0]} is reported and not in the suite"
    both = [item for item in context.item_ids if item in left and item in right]
    found = [detail for item in both if (detail := difference(item, left[item], right[item]))]
    if found:
        return "different", found[0] + (f" (first of {len(found)} items that differ)" if len(found) > 1 else "")
    total = len(context.item_ids)
    if len(both) < total or not total:
        counts = [sum(item in side for item in context.item_ids) for side in (left, right)]
        return "unreported", f"of {total} items the reference shows {counts[0]}, the candidate {counts[1]}"
    return "equal", f"{total} items"


def _first_difference(left: list[int] | list[int | float], right: list[int] | list[int | float]) -> str:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):  # lengths are compared below
        if not a == b:  # noqa: SIM201 - NaN differs from everything, itself included
            return f"position {index}: reference {a}, candidate {b}"
    if len(left) != len(right):
        return f"length: the reference has {len(left)} entries, the candidate {len(right)}"
    return ""


def _lacking(left: object, right: object, what: str) -> str:
    lacking = [name for name, side in (("reference", left), ("candidate", right)) if not side]
    return f"the {' and the '.join(lacking)} leg shows no {what}"


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:").lower()


#: exact item -> comparison; sorted. The manifest's schema lists the same names.
EXACT: Mapping[str, Callable[[_Sides, Context], tuple[_Status, str]]] = MappingProxyType(
    {
        "config": _config,
        "initial_latents": _initial_latents,
        "sigmas": _sigmas,
        "timesteps": _timesteps,
        "token_ids": _token_ids,
    }
)
