"""Rules on where and when CI runs a case."""

from __future__ import annotations

import re
from collections.abc import Iterable

from paritygate.errors import Problem
from paritygate.manifest.paths import LEGS
from paritygate.manifest.registries import Registries
from paritygate.manifest.registry_rules import source_fault
from paritygate.manifest.rules.context import CaseContext
from paritygate.manifest.shell_lines import setup_fault
from paritygate.manifest.wording import nearest

_UUID_LENGTH = 36
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_NO_REGISTRY = "the project has no {}; run: paritygate init"


def step_key(case: CaseContext) -> Iterable[Problem]:
    """The node id is a key that the CI takes."""
    if len(case.id) == _UUID_LENGTH and _UUID.match(case.id):
        message = f"the node id {case.id} reads as a UUID, which Buildkite refuses as a step key"
        yield case.at(("id",), "step-key", message, hint="choose an id of words")


def hardware(case: CaseContext) -> Iterable[Problem]:
    """Every SKU is in the registry and offers as many cards, for the case and for legs with hardware of their own."""
    places = ("ci", *(name for name in LEGS if "hardware" in case.data.get(name, {})))
    for place in places:
        wanted = case.data[place]["hardware"]
        for index, sku in enumerate(wanted["sku"]):
            unmet = case.registries.unmet(sku, wanted["cards"])
            if unmet is None:
                continue
            message, hint = unmet
            key = ("sku", index) if sku not in case.registries.hardware else ("cards",)
            if not case.registries.hardware:
                hint = _NO_REGISTRY.format("hardware.yml")
            yield case.at((place, "hardware", *key), "hardware", message, hint=hint)


def lane(case: CaseContext) -> Iterable[Problem]:
    """The lane is in the registry."""
    name = case.data["ci"]["lane"]
    if name not in case.registries.lanes:
        hint = nearest(name, case.registries.lanes) or _NO_REGISTRY.format("lanes.yml")
        yield case.at(("ci", "lane"), "lane", f"no lane {name!r} in lanes.yml", hint=hint)


def timeout(case: CaseContext) -> Iterable[Problem]:
    """The time limit fits the lane."""
    known = case.registries.lanes.get(case.data["ci"]["lane"])
    minutes = case.data["ci"].get("timeout_minutes", 0)
    if known is not None and minutes > known.max_timeout_minutes:
        message = f"{minutes} minutes; the lane {known.name} allows at most {known.max_timeout_minutes}"
        yield case.at(("ci", "timeout_minutes"), "timeout", message, hint="split the case, or use another lane")


def setup(case: CaseContext) -> Iterable[Problem]:
    """Setup lines are whole commands that leave the test command to run."""
    for index, line in enumerate(case.data["ci"].get("setup", ())):
        if fault := setup_fault(line):
            yield case.at(("ci", "setup", index), "setup", fault[0], hint=fault[1])


def sources(case: CaseContext) -> Iterable[Problem]:
    """``@name`` is in the registry, and a path leads to something in the project."""
    for index, source in enumerate(case.data["ci"].get("sources", ())):
        if source.startswith("@"):
            fault = _reference_fault(source, case.registries)
        else:
            fault = source_fault(source, case.files.root, elsewhere="list another repository's paths in sources.yml")
        if fault:
            yield case.at(("ci", "sources", index), "sources", fault[0], hint=fault[1])


def _reference_fault(source: str, registries: Registries) -> tuple[str, str] | None:
    if source[1:] in registries.sources:
        return None
    hint = nearest(source, [f"@{name}" for name in registries.sources]) or _NO_REGISTRY.format("sources.yml")
    return f"no entry {source[1:]!r} in sources.yml", hint
