"""Rules on gate files: bounds that belong to the case, that can fail, and that can be met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from paritygate.errors import Problem
from paritygate.manifest.build import measurement_id
from paritygate.manifest.loader import Pointer
from paritygate.manifest.rules.context import GateContext
from paritygate.manifest.wording import nearest
from paritygate.metrics.specs import SPECS, Spec

#: Direction of a metric -> the key of a bound that makes sense for it.
RELATION = {"higher": "at_least", "lower": "at_most"}


def gate_case(gate: GateContext) -> Iterable[Problem]:
    """The file names the case beside it."""
    expected = next(iter(gate.nodes.values()))["id"]
    if gate.document.data["case"] != expected:
        message = f"the gate is of {gate.document.data['case']!r}, but the case beside it is {expected!r}"
        yield gate.at(("case",), "gate-case", message, hint=f"write case: {expected}")


def gate_variant(gate: GateContext) -> Iterable[Problem]:
    """A profile names a variant that exists, and none where there are none."""
    names = [name for name in gate.nodes if name is not None]
    for pointer, profile in _profiles(gate):
        name = profile.get("variant")
        if name in gate.nodes:
            continue
        if name is None:
            message, hint = "the case has variants, and this profile names none", f"add variant: {' or '.join(names)}"
            yield gate.at(pointer, "gate-variant", message, hint=hint)
        else:
            hint = nearest(name, names) if names else "remove it: the case has no variants"
            yield gate.at((*pointer, "variant"), "gate-variant", f"the case has no variant {name!r}", hint=hint)


def gate_device(gate: GateContext) -> Iterable[Problem]:
    """The device is one of the hardware registry, which is how a run names its own, cards included."""
    known = gate.registries.hardware
    for pointer, profile in _profiles(gate):
        place, sku, cards = (*pointer, "device"), profile["device"]["sku"], profile["device"].get("cards", 0)
        if sku not in known:
            hint = nearest(sku, known) or "the project has no hardware.yml; run: paritygate init"
            yield gate.at((*place, "sku"), "gate-device", f"no SKU {sku!r} in hardware.yml", hint=hint)
        elif known[sku].platform == "cpu":
            if cards:
                hint = "remove cards"
                yield gate.at((*place, "cards"), "gate-device", f"{sku} has no cards to count", hint=hint)
        elif cards not in known[sku].cards:
            offered = " or ".join(map(str, known[sku].cards))
            message = f"{sku} is not offered with {cards} cards" if cards else f"{sku} has cards, and none are counted"
            yield gate.at((*place, "cards"), "gate-device", message, hint=f"write cards: {offered}")


def gate_duplicate(gate: GateContext) -> Iterable[Problem]:
    """One profile for each variant, contract and device."""
    seen: set[tuple[Any, ...]] = set()
    for pointer, profile in _profiles(gate):
        device = profile["device"]
        contract = profile.get("contract", gate.document.data["contract"])
        key = (profile.get("variant"), contract, device["sku"], device.get("arch"), device.get("cards"))
        if key in seen:
            message = "an earlier profile is for the same variant, contract and device"
            yield gate.at(pointer, "gate-duplicate", message, hint="keep one of the two")
        seen.add(key)


def gate_selected(gate: GateContext) -> Iterable[Problem]:
    """A selection was made on a day of the calendar; the schema has seen to its form."""
    for pointer, profile in _profiles(gate):
        day = profile.get("selected", {}).get("on")
        try:
            day is None or date.fromisoformat(day)
        except ValueError:
            yield gate.at((*pointer, "selected", "on"), "gate-selected", f"the calendar has no day {day}")


def gate_measurement(gate: GateContext) -> Iterable[Problem]:
    """A bound limits a measurement that the case makes, once."""
    for pointer, profile in _profiles(gate):
        known = _measurements(gate, profile)
        seen: set[str] = set()
        for index, bound in enumerate(profile["bounds"]):
            place, name = (*pointer, "bounds", index, "measurement"), bound["measurement"]
            if known is not None and name not in known:
                message = f"the case has no measurement {name!r}"
                yield gate.at(place, "gate-measurement", message, hint=nearest(name, known))
            elif name in seen:
                yield gate.at(place, "gate-measurement", f"{name} has two bounds", hint="keep one of the two")
            seen.add(name)


def gate_direction(gate: GateContext) -> Iterable[Problem]:
    """Where higher is better the bound is a lower limit, and the other way round."""
    for pointer, bound, spec in _bounds(gate):
        expected = RELATION[spec.direction]
        if expected not in bound:
            wrong = "at_most" if expected == "at_least" else "at_least"
            message = f"{spec.name} is better when {spec.direction}: {wrong} would let every bad value pass"
            yield gate.document.problem(
                (*pointer, wrong), "gate-direction", message, hint=f"write {expected}", at_key=True
            )


def gate_range(gate: GateContext) -> Iterable[Problem]:
    """A limit lies within the range of its metric, where some value fails it and some value meets it."""
    for pointer, bound, spec in _bounds(gate):
        relation = RELATION[spec.direction]
        if relation not in bound:
            continue
        limit = bound[relation]
        worst = spec.low if spec.direction == "higher" else spec.high
        if not spec.low <= limit <= spec.high:
            message = f"{limit} is outside the range of {spec.name}, {spec.low:g} to {spec.high:g}"
            yield gate.at((*pointer, relation), "gate-range", message)
        elif limit == worst:
            message = f"{relation} {limit} is the worst value that {spec.name} has: nothing can fail it"
            yield gate.at((*pointer, relation), "gate-range", message, hint="set a bound that evidence supports")


def _profiles(gate: GateContext) -> Iterator[tuple[Pointer, Mapping[str, Any]]]:
    for index, profile in enumerate(gate.document.data["profiles"]):
        yield ("profiles", index), profile


def _measurements(gate: GateContext, profile: Mapping[str, Any]) -> dict[str, str] | None:
    """Measurement id -> metric of the variant that a profile is for; None when there is no such variant."""
    data = gate.nodes.get(profile.get("variant"))
    if data is None:
        return None
    return {measurement_id(entry): entry["metric"] for entry in data["measure"].get("output", ())}


def _bounds(gate: GateContext) -> Iterator[tuple[Pointer, Mapping[str, Any], Spec]]:
    """The bounds on known measurements that can have one, each with the facts of its metric."""
    for pointer, profile in _profiles(gate):
        known = _measurements(gate, profile) or {}
        for index, bound in enumerate(profile["bounds"]):
            spec = SPECS.get(known.get(bound["measurement"], ""))
            if spec is not None and spec.direction != "none":
                yield (*pointer, "bounds", index), bound, spec
