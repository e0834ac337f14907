"""What the effect probes of the legs found: a request field that changes nothing was not exercised."""

from __future__ import annotations

from collections.abc import Iterable

from paritygate.records.model import EffectResult, LegRecord


def effect_results(legs: Iterable[LegRecord]) -> tuple[EffectResult, ...]:
    """One result for each request field that a leg probed, legs in the given order, fields sorted."""
    return tuple(
        EffectResult(leg=leg.name, field=field, exercised=effect.exercised, detail=effect.detail)
        for leg in legs
        if leg.effective is not None
        for field, effect in sorted(leg.effective.effects.items())
    )
