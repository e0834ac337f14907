"""The comparison checklist: every effective setting of both legs, side by side, with what was declared about it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from paritygate.compare.groups import group_of
from paritygate.manifest.case import Difference
from paritygate.records.model import AS_CALLED, ChecklistRow, Effective

#: So many names are listed before the rest is counted.
LISTED = 5

_Verdict = Literal["equal", "declared", "undeclared", "unreported", "declared-but-equal"]
#: (values are the same, a difference is declared) -> verdict of the row.
_VERDICTS: dict[tuple[bool, bool], _Verdict] = {
    (False, False): "undeclared",
    (False, True): "declared",
    (True, False): "equal",
    (True, True): "declared-but-equal",
}


def checklist(
    reference: Effective | None,
    candidate: Effective | None,
    differences: tuple[Difference, ...],
    *,
    require: tuple[str, ...] = (),
    stored: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({}),
) -> tuple[ChecklistRow, ...]:
    """One row for each setting that a leg reports, sorted by name.

    ``stored``: settings that the outputs themselves show, with their values on both sides for each pair; the first
    pair that differs stands for all, and what a leg reports under such a name does not count.

    A required or declared field that neither leg reports gets an ``unreported`` row of its own, which names the
    setting that may be meant.
    """
    stored_as = [{name: _of_pairs(pairs)[side] for name, pairs in stored.items()} for side in (0, 1)]
    left = {**(reference.settings if reference else {}), **stored_as[0]}
    right = {**(candidate.settings if candidate else {}), **stored_as[1]}
    names = left.keys() | right.keys()
    known = _with_prefixes(names)
    fields = [*require, *(difference.field for difference in differences)]
    absent = {field for field in fields if not any(covers(field, name) for name in names)}
    rows = [_row(name, left, right, differences) for name in names]
    rows = [_as_called(row, {"reference": reference, "candidate": candidate}) for row in rows]
    rows += [_absent_row(field, known, declared_reason(field, differences)) for field in absent]
    return tuple(sorted(rows, key=lambda row: row.field))


def covers(field: str, name: str) -> bool:
    """Whether ``field`` is the setting ``name`` or a dotted prefix of it: ``dtype`` covers ``dtype.unet``."""
    return name == field or name.startswith(f"{field}.")


def misspelt_fields(rows: tuple[ChecklistRow, ...], differences: tuple[Difference, ...]) -> dict[str, str]:
    """Reported setting, or prefix of some -> the declared field that names none and may mean it."""
    known = _with_prefixes(row.field for row in rows if row.verdict != "unreported" or row.reference or row.candidate)
    fields = [difference.field for difference in differences if difference.field not in known]
    return {meant: field for field in fields if (meant := _meant(field, known))}


def idle_differences(rows: tuple[ChecklistRow, ...], differences: tuple[Difference, ...]) -> tuple[str, ...]:
    """Declared fields whose settings are all equal on both sides: a difference that the legs do not have."""
    idle = []
    for difference in differences:
        verdicts = {row.verdict for row in rows if covers(difference.field, row.field)}
        if verdicts == {"declared-but-equal"}:
            idle.append(difference.field)
    return tuple(idle)


def declared_reason(name: str, differences: tuple[Difference, ...]) -> str | None:
    """Why the setting may differ, by the most specific declaration; None when nothing was declared."""
    matching = [difference for difference in differences if covers(difference.field, name)]
    return max(matching, key=lambda difference: len(difference.field)).reason if matching else None


def same_value(left: object, right: object) -> bool:
    """Equality of two JSON scalars: 3 equals 3.0, true is not 1, NaN equals nothing."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def shown(value: object) -> str:
    """A JSON scalar as text for people: words bare, everything else as JSON spells it."""
    return value if isinstance(value, str) else json.dumps(value)


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 setting``, ``2 settings``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listing(names: Sequence[str]) -> str:
    """Names for people: all of a few, the first and the number of the others where there are many."""
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def _of_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The values of the first pair that differs; else those of all pairs, the same on both sides."""
    alike = ", ".join(sorted({left for left, _ in pairs}))
    return next((pair for pair in pairs if pair[0] != pair[1]), (alike, alike))


def _with_prefixes(names: Iterable[str]) -> set[str]:
    """The names and every dotted prefix of them: what a declared field may be."""
    return {name[:end] for name in names for end in [*(i for i, c in enumerate(name) if c == "."), len(name)]}


def _meant(field: str, known: set[str]) -> str:
    close = difflib.get_close_matches(field, sorted(known), n=1, cutoff=0.6)
    return close[0] if close else ""


def _absent_row(field: str, known: set[str], reason: str | None) -> ChecklistRow:
    meant = _meant(field, known)
    note = "no leg reports such a setting" + (f"; did you mean {meant}?" if meant else "")
    note += f"; declared: {reason}" if reason else ""
    return ChecklistRow(field=field, reference="", candidate="", verdict="unreported", note=note, group=group_of(field))


def _as_called(row: ChecklistRow, legs: Mapping[str, Effective | None]) -> ChecklistRow:
    """The row with a note of the legs that say what they were called with, and saw nothing of what it did."""
    listed = {name: leg.environment.get(AS_CALLED) for name, leg in legs.items() if leg}
    repeating = [name for name, fields in listed.items() if isinstance(fields, list) and row.field in fields]
    if not repeating:
        return row
    notes = [row.note, f"the {' and the '.join(repeating)} leg: as called, not observed"]
    return msgspec.structs.replace(row, note="; ".join(filter(None, notes)))


def _row(name: str, left: dict[str, Any], right: dict[str, Any], differences: tuple[Difference, ...]) -> ChecklistRow:
    reason, group = declared_reason(name, differences), group_of(name)
    lacking = [leg for leg, side in (("reference", left), ("candidate", right)) if name not in side]
    values = {
        leg: shown(side[name]) if name in side else "" for leg, side in (("reference", left), ("candidate", right))
    }
    if lacking:
        note = f"not reported by the {' and the '.join(lacking)} leg" + (f"; declared: {reason}" if reason else "")
        return ChecklistRow(field=name, **values, verdict="unreported", note=note, group=group)
    same = same_value(left[name], right[name])
    verdict = _VERDICTS[same, reason is not None]
    return ChecklistRow(field=name, **values, verdict=verdict, note=reason or "", group=group)
