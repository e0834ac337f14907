"""The exact layer: what must be equal is compared for equality, and the first difference is named.

Token ids, initial latents, configuration and timesteps that are integers are equal or they are not. Sigmas, and
timesteps that are floats, have a tolerance, because two correct programs round them differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from paritygate.compare.checklist import counted, declared_reason, listing, same_value, shown
from paritygate.manifest.case import Difference
from paritygate.records.model import Effective, ExactResult, LegRecord

#: Two floats of a schedule are equal when they differ by no more than ``ROUNDING`` of the larger, sigmas by
#: ``SIGMA_ABSOLUTE`` more. A sigma comes from a product of up to 1,000 float32 factors (rounding grows to about 2^-17
#: of its value) and for the last steps from 1 minus such a product (absolute rounding of some 2^-18); a flow-matching
#: timestep is 1,000 times its sigma. The mildest real fault on record, one step more or less, moves sigmas by more
#: than 1e-3.
ROUNDING = 2.0**-16
SIGMA_ABSOLUTE = 2.0**-17
#: What it means for the output layer that the initial latents are different.
OTHER_NOISE = "the legs started from different noise, so no measure of their pixels says anything about accuracy"

_Status = Literal["equal", "different", "unreported", "pending"]
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
        if status == "unreported" and (legs := _pending_in(name, sides)):
            status, detail = "pending", f"still to come from the {' and the '.join(legs)} leg: {detail}"
        results.append(ExactResult(name=name, status=status, detail=detail))
    return tuple(results)


def pending_stages(exact: Iterable[ExactResult], legs: Iterable[LegRecord]) -> tuple[str, ...]:
    """What legs said is still to come, whether an exact item or another stage, and did not come all the same."""
    come = {entry.name for entry in exact if entry.is_shown}
    stages = (stage for leg in legs if leg.effective for stage in leg.effective.pending)
    return tuple(dict.fromkeys(stage for stage in stages if stage not in come))


def _pending_in(name: str, sides: _Sides) -> list[str]:
    """The legs that could still show an item; none when another one shows nothing of it, so that waiting is vain."""
    by_leg = dict(zip(("reference", "candidate"), sides, strict=True))
    pending = [leg for leg, side in by_leg.items() if name in side.pending]
    return pending if all(leg in pending or _shows(name, side) for leg, side in by_leg.items()) else []


def _shows(name: str, side: Effective) -> bool:
    if name == "config":
        return any(setting.startswith("config.") for setting in side.settings)
    return bool(getattr(side, name))


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
    return _numbers(sides[0].timesteps, sides[1].timesteps, "timesteps", absolute=0.0)


def _sigmas(sides: _Sides, _: Context) -> tuple[_Status, str]:
    return _numbers(sides[0].sigmas, sides[1].sigmas, "sigmas", absolute=SIGMA_ABSOLUTE)


def _numbers(
    left: Sequence[int | float] | None, right: Sequence[int | float] | None, what: str, *, absolute: float
) -> tuple[_Status, str]:
    """Two schedules of equal length whose floats may differ by rounding, with ``absolute`` on top, and no more."""
    if not left or not right:
        lacking = [name for name, side in (("reference", left), ("candidate", right)) if not side]
        return "unreported", f"the {' and the '.join(lacking)} leg shows no {what}"
    if len(left) != len(right):
        return "different", f"the reference has {counted(len(left), what[:-1])}, the candidate {len(right)}"
    excess = [_excess(a, b, absolute) for a, b in zip(left, right, strict=True)]
    # `not <= 1` is also true for NaN, which must never count as close.
    outside = [index for index, share in enumerate(excess) if not share <= 1.0]
    if outside:
        worst = max(outside, key=lambda index: (excess[index] != excess[index], excess[index]))
        detail = f"{len(outside)} of {len(left)} {what} differ, most at index {worst}"
        return "different", f"{detail}: reference {_text(left[worst])}, candidate {_text(right[worst])}"
    largest = max(excess)
    rounding = f" within float32 rounding (at most {largest:.2g} of the tolerance)" if largest else ""
    return "equal", f"{counted(len(left), what[:-1])}{rounding}"


def _excess(left: float, right: float, absolute: float) -> float:
    """The difference as a share of what rounding explains; integers are not rounded."""
    if left == right:
        return 0.0
    if isinstance(left, int) and isinstance(right, int):
        return math.inf
    try:
        return abs(left - right) / (ROUNDING * max(abs(left), abs(right)) + absolute)
    except (OverflowError, ZeroDivisionError):  # an integer beyond floats, or a tolerance below them
        return math.inf


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _config(sides: _Sides, context: Context) -> tuple[_Status, str]:
    left, right = ({k: v for k, v in side.settings.items() if k.startswith("config.")} for side in sides)
    both = sorted(left.keys() & right.keys())
    unequal = [name for name in both if not same_value(left[name], right[name])]
    undeclared = [name for name in unequal if declared_reason(name, context.differences) is None]
    if undeclared:
        listed = [f"{name}: reference {shown(left[name])}, candidate {shown(right[name])}" for name in undeclared]
        return "different", "; ".join(listed)
    hidden = sorted(name for name in left.keys() - right.keys() if declared_reason(name, context.differences) is None)
    if hidden:
        return "unreported", f"of {len(left)} names of the reference the candidate does not show {listing(hidden)}"
    if not both:
        return "unreported", "the reference leg shows no configuration that the candidate could match"
    tail = f", {counted(len(unequal), 'declared difference')}" if unequal else ""
    one_sided = len(left.keys() ^ right.keys())
    return "equal", f"{counted(len(both) - len(unequal), 'setting')} equal{tail}, {one_sided} shown by one leg only"


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
        return "unreported", f"of {counted(total, 'item')} the reference shows {counts[0]}, the candidate {counts[1]}"
    return "equal", counted(total, "item")


def _first_difference(left: list[int], right: list[int]) -> str:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):  # lengths are compared below
        if a != b:
            return f"position {index}: reference {a}, candidate {b}"
    if len(left) != len(right):
        return f"length: the reference has {len(left)} entries, the candidate {len(right)}"
    return ""


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
