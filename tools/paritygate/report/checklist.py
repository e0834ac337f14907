"""The comparison checklist for people: everything that both sides must have in common, in one table by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from paritygate.compare.checklist import counted, same_value, shown
from paritygate.compare.exact import pending_stages
from paritygate.compare.groups import HEADINGS, group_of
from paritygate.compare.representation import representation_words
from paritygate.manifest.case import Case
from paritygate.records.model import LegRecord, RunRecord
from paritygate.report.text import code, details, escape, table

#: Rows of one table.
MAX_ROWS = 200
#: Verdict of a row -> what it means. The first ones need a reader's eye, in this order.
VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "undeclared": "differs, and no difference is declared",
        "different": "must be equal and differs",
        "not-exercised": "another value of this request key changed nothing",
        "pending": "an import can still bring it",
        "unreported": "a leg failed to report it",
        "declared": "differs as declared",
        "declared-but-equal": "declared as a difference and in fact equal",
        "information": "shown for the reader, compared by nothing",
        "exercised": "another value of this request key changed the output",
        "equal": "the same on both sides",
    }
)
#: Verdicts that a report folds away.
_QUIET = frozenset({"equal", "exercised", "information"})
_SIDES = ("reference", "candidate")
#: Runners of legs that were made before this run, from inputs that it cannot see.
_MADE_ELSEWHERE = ("golden", "import")
_HEADER = ("field", "reference", "candidate", "verdict", "evidence or declared difference")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line: ``verdict`` is a key of ``VERDICTS``, ``group`` one of ``compare.groups.HEADINGS``."""

    group: str
    field: str
    reference: str
    candidate: str
    verdict: str
    note: str = ""


def checklist_rows(record: RunRecord, case: Case | None) -> tuple[Row, ...]:
    """Every row of a run, by group, and within a group what needs an eye first.

    Args:
        record: the run.
        case: the case that was run; None when it has changed since, and its inputs are then left out.
    """
    rows = [*_sources(record, case), *_exact(record), *_settings(record), *_effects(record), *_versions(record)]
    groups, verdicts = list(HEADINGS), list(VERDICTS)
    return tuple(sorted(rows, key=lambda row: (groups.index(row.group), verdicts.index(row.verdict), row.field)))  # type: ignore[arg-type]


def checklist_section(record: RunRecord, case: Case | None) -> str:
    """The checklist as Markdown: what is not plainly equal by group, the rest folded."""
    rows = checklist_rows(record, case)
    if not record.comparison.checklist and not record.comparison.exact:
        return ""
    counts = Counter(row.verdict for row in rows)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    lines = ["### Checklist", "", f"{counted(len(rows), 'row')}: {verdicts}.", ""]
    for group, heading in HEADINGS.items():
        if loud := [row for row in rows if row.group == group and row.verdict not in _QUIET]:
            lines += [f"{heading}:", "", _table(loud), ""]
    if quiet := [row for row in rows if row.verdict in _QUIET]:
        lines.append(details(f"{counted(len(quiet), 'row')} more: equal, exercised or for information", _table(quiet)))
    return "\n".join(lines).rstrip()


def _table(rows: list[Row]) -> str:
    cells = [
        (code(row.field), code(row.reference), code(row.candidate), row.verdict, escape(row.note))
        for row in rows[:MAX_ROWS]
    ]
    left = f"\n\n{len(rows) - MAX_ROWS} more are in record.json." if len(rows) > MAX_ROWS else ""
    return table(_HEADER, cells) + left


def _sources(record: RunRecord, case: Case | None) -> Iterator[Row]:
    model = f"{record.model_id}@{record.model_revision}"
    note = "digest of the weights checked" if record.weights_verified else "the weights are not verified"
    yield Row(group="source", field="model", reference=model, candidate=model, verdict="equal", note=note)
    legs = {leg.name: leg.runner for leg in record.legs}
    yield _pair("source", "runner", legs.get("reference", ""), legs.get("candidate", ""))
    elsewhere = [name for name in _SIDES if legs.get(name) in _MADE_ELSEWHERE]
    for media in case.inputs if case else ():
        digests = {name: "" if name in elsewhere else media.sha256 for name in _SIDES}
        handed = f"the {' and the '.join(elsewhere)} leg was made elsewhere" if elsewhere else "both legs get this file"
        yield Row(
            group="source", field=f"input {media.path}", **digests, verdict="unreported" if elsewhere else "equal",
            note=f"role {media.role}; {handed}",
        )  # fmt: skip
    # Without legs nothing was stored.
    if case and legs:
        stored = [_stored(leg) for name in _SIDES for leg in record.legs if leg.name == name and leg.items]
        if len(stored) == len(_SIDES):
            pair = _pair("output", "representation", *stored)
            yield msgspec.structs.replace(pair, note=representation_words(case))


def _stored(leg: LegRecord) -> str:
    """What a leg stored for its first request, in words."""
    item = leg.items[0]
    words = ["8-bit pixels and floats" if file.float_path else "8-bit pixels" for file in item.images]
    words += [f"{media.role} ({media.representation})" for media in item.media]
    return ", ".join(dict.fromkeys(words))


def _exact(record: RunRecord) -> Iterator[Row]:
    for entry in record.comparison.exact:
        # Its settings have rows of their own.
        if entry.name != "config":
            yield Row(
                group=group_of(entry.name), field=entry.name, reference="", candidate="", verdict=entry.status,
                note=entry.detail,
            )  # fmt: skip
    judged = {entry.name for entry in record.comparison.exact}
    for stage in pending_stages(record.comparison.exact, record.legs):
        if stage not in judged:
            yield Row(group=group_of(stage), field=stage, reference="", candidate="", verdict="pending")


def _settings(record: RunRecord) -> Iterator[Row]:
    for row in record.comparison.checklist:
        yield Row(
            group=row.group or group_of(row.field), field=row.field, reference=row.reference, candidate=row.candidate,
            verdict=row.verdict, note=row.note,
        )  # fmt: skip


def _effects(record: RunRecord) -> Iterator[Row]:
    for entry in record.comparison.effects:
        verdict = "exercised" if entry.exercised else "not-exercised"
        sides = {entry.leg: verdict}
        yield Row(
            group=group_of(entry.field), field=f"effect of {entry.field}", reference=sides.get("reference", ""),
            candidate=sides.get("candidate", ""), verdict=verdict, note=entry.detail,
        )  # fmt: skip


def _versions(record: RunRecord) -> Iterator[Row]:
    """Libraries that both legs report."""
    found = {leg.name: _libraries(leg) for leg in record.legs}
    left, right = found.get("reference", {}), found.get("candidate", {})
    for name in sorted(left.keys() & right.keys()):
        yield _pair("source", f"version of {name}", left[name], right[name])


def _libraries(leg: LegRecord) -> dict[str, Any]:
    versions = leg.effective.environment.get("versions") if leg.effective else None
    return versions if isinstance(versions, dict) else {}


def _pair(group: str, field: str, left: Any, right: Any) -> Row:
    verdict = "equal" if same_value(left, right) else "information"
    return Row(group=group, field=field, reference=shown(left), candidate=shown(right), verdict=verdict)
