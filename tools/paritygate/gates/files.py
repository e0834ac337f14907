"""``<name>.gate.yaml`` -> Gate. A bound that could never fail, or never be met, is refused here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from paritygate.errors import ManifestError, Problem
from paritygate.manifest.case import Case
from paritygate.manifest.loader import Document, Pointer, load_yaml
from paritygate.manifest.schemas import check
from paritygate.metrics.specs import SPECS, Spec

_Relation = Literal["at_least", "at_most"]
_PREFIXES = ("output.float.", "output.")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One limit on one measurement."""

    measurement: str
    relation: _Relation
    limit: float


@dataclass(frozen=True, kw_only=True)
class GateProfile:
    """The bounds of one variant on one device under one contract. ``exact`` lists items shown at selection."""

    sku: str
    arch: str | None
    variant: str | None
    contract: str
    status: Literal["proposed", "accepted"]
    exact: tuple[str, ...]
    bounds: tuple[Bound, ...]
    evidence: str
    selected: str
    pointer: Pointer = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One gate file. ``path`` is project-relative; ``document`` keeps positions for later checks."""

    case: str
    path: str
    profiles: tuple[GateProfile, ...]
    document: Document = field(compare=False, repr=False)


def load_gate(case: Case) -> Gate | None:
    """The gate file beside the case's manifest; None when there is none.

    Raises:
        ManifestError: with every problem of the file, at its line.
    """
    path = case.gate_file
    if not path.exists() and not path.is_symlink():
        return None
    display = path.relative_to(case.root).as_posix()
    document = load_yaml(path, display=display, root=case.root)
    if problems := check(document, "gate"):
        raise ManifestError(problems)
    gate = Gate(
        case=document.data["case"],
        path=display,
        profiles=tuple(
            _profile(entry, document.data["contract"], ("profiles", index))
            for index, entry in enumerate(document.data["profiles"])
        ),
        document=document,
    )
    if problems := list(_problems(gate, case)):
        raise ManifestError(problems)
    return gate


def metric_of(measurement: str, case: Case) -> Spec | None:
    """The facts of the metric behind a measurement id; None when neither the case nor the id itself names one."""
    for entry in case.measure.output:
        if entry.id == measurement:
            return SPECS.get(entry.metric)
    for prefix in _PREFIXES:
        if measurement.startswith(prefix):
            return SPECS.get(measurement.removeprefix(prefix).rpartition(".")[0])
    return None


def _profile(entry: dict[str, Any], contract: str, pointer: Pointer) -> GateProfile:
    selected = entry.get("selected")
    return GateProfile(
        sku=entry["device"]["sku"],
        arch=entry["device"].get("arch"),
        variant=entry.get("variant"),
        contract=entry.get("contract", contract),
        status=entry["status"],
        exact=tuple(entry.get("exact", ())),
        bounds=tuple(_bound(bound) for bound in entry["bounds"]),
        evidence=entry["evidence"],
        selected=f"selected by {selected['by']} on {selected['on']}: {selected['reason']}" if selected else "",
        pointer=pointer,
    )


def _bound(entry: dict[str, Any]) -> Bound:
    relation: _Relation = "at_least" if "at_least" in entry else "at_most"
    return Bound(measurement=entry["measurement"], relation=relation, limit=float(entry[relation]))


def _problems(gate: Gate, case: Case) -> Iterator[Problem]:
    if gate.case != case.base_id:
        yield gate.document.problem(
            ("case",),
            "gate-case",
            f"the gate is for the case {gate.case!r}, the manifest beside it is {case.base_id!r}",
            hint=f"write: case: {case.base_id}",
        )
    seen: dict[tuple[object, ...], int] = {}
    for number, profile in enumerate(gate.profiles, 1):
        key = (profile.sku, profile.arch, profile.variant, profile.contract)
        if key in seen:
            yield gate.document.problem(
                profile.pointer, "gate-profile", f"profile {number} repeats the device and contract of {seen[key]}"
            )
        seen.setdefault(key, number)
        if profile.variant == case.variant:
            yield from _bound_problems(gate.document, profile, case)


def _bound_problems(document: Document, profile: GateProfile, case: Case) -> Iterator[Problem]:
    limits: dict[tuple[str, str], float] = {}
    for index, bound in enumerate(profile.bounds):
        pointer = (*profile.pointer, "bounds", index)
        if (bound.measurement, bound.relation) in limits:
            yield document.problem(pointer, "gate-bound", f"{bound.measurement} has two {bound.relation} bounds")
        limits[bound.measurement, bound.relation] = bound.limit
        spec = metric_of(bound.measurement, case)
        if fault := _fault(bound, spec):
            yield document.problem((*pointer, bound.relation), "gate-bound", f"{bound.measurement}: {fault}")
    for index, bound in enumerate(profile.bounds):
        spec = metric_of(bound.measurement, case)
        needed = "at_least" if spec and spec.direction == "higher" else "at_most"
        if spec and (bound.measurement, needed) not in limits:
            message = f"{bound.measurement} has no {needed} bound, so a bad output cannot fail it"
            yield document.problem((*profile.pointer, "bounds", index), "gate-bound", message)
        low, high = (limits.get((bound.measurement, relation)) for relation in ("at_least", "at_most"))
        if low is not None and high is not None and low > high and bound.relation == "at_most":
            message = f"{bound.measurement}: no value is at least {low:g} and at most {high:g}"
            yield document.problem((*profile.pointer, "bounds", index), "gate-bound", message)


def _fault(bound: Bound, spec: Spec | None) -> str:
    if not math.isfinite(bound.limit):
        return f"the limit {bound.limit} is not a finite number"
    if spec is None:
        return ""
    span = f"{spec.name} lies between {spec.low:g} and {spec.high:g}"
    words = bound.relation.replace("_", " ")
    lower = bound.relation == "at_least"
    if bound.limit <= spec.low if lower else bound.limit >= spec.high:
        return f"{words} {bound.limit:g} can never fail: {span}"
    if bound.limit > spec.high if lower else bound.limit < spec.low:
        return f"{words} {bound.limit:g} can never be met: {span}"
    return ""
