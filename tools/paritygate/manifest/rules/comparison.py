"""Rules on what is compared and measured: claim, legs, differences and measures."""

from __future__ import annotations

from collections.abc import Iterable

from paritygate.errors import Problem
from paritygate.manifest.build import measurement_id
from paritygate.manifest.paths import LEGS
from paritygate.manifest.rules.context import CaseContext

#: A node id becomes a folder, a CI step key and a pytest id. The schemas of case and gate files say the same.
MAX_ID_LENGTH = 100


def id_length(case: CaseContext) -> Iterable[Problem]:
    """The id with its variant fits a step key and a folder name."""
    if len(case.id) > MAX_ID_LENGTH:
        message = f"the node id {case.id} has {len(case.id)} characters; at most {MAX_ID_LENGTH}"
        yield case.at(("id",), "id-length", message, hint="shorten the id or the variant's id")


def acceleration_feature(case: CaseContext) -> Iterable[Problem]:
    """An acceleration says which feature it switches on and how a run shows that it ran."""
    if case.data["claim"] == "acceleration" and not case.data["candidate"].get("feature"):
        message = "the claim acceleration needs candidate.feature"
        hint = (
            "add feature: {name, baseline, enabled_by, exercised_by}; an acceleration that never fires scores perfectly"
        )
        yield case.at_key(("candidate",), "acceleration-feature", message, hint=hint)


def golden_leg(case: CaseContext) -> Iterable[Problem]:
    """A golden regression compares with a golden."""
    runners = [case.data[name]["runner"] for name in LEGS if name in case.data]
    if case.data["claim"] == "golden-regression" and "golden" not in runners:
        message = "the claim golden-regression needs a leg with runner: golden"
        yield case.at_key(("reference",), "golden-leg", message, hint="write reference: {runner: golden, golden: ...}")


def duplicate_difference(case: CaseContext) -> Iterable[Problem]:
    """A settings name is excused once."""
    seen: set[str] = set()
    for index, entry in enumerate(case.data.get("differences", ())):
        if entry["field"] in seen:
            message = f"the difference in {entry['field']!r} is declared twice"
            yield case.at(("differences", index, "field"), "duplicate-difference", message, hint="keep one reason")
        seen.add(entry["field"])


def duplicate_measurement(case: CaseContext) -> Iterable[Problem]:
    """Every measurement has an id of its own: gates name it by that."""
    seen: set[str] = set()
    for index, entry in enumerate(case.data["measure"].get("output", ())):
        name = measurement_id(entry)
        if name in seen:
            message = f"two measurements have the id {name}"
            yield case.at(
                ("measure", "output", index), "duplicate-measurement", message, hint="remove one, or give it an id"
            )
        seen.add(name)
