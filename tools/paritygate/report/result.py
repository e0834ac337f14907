"""Report sections about the result: verdict, gate, worst pairs, exact layer, acceleration, values."""

from __future__ import annotations

from typing import Any

from paritygate.compare.checklist import counted
from paritygate.compare.exact import OTHER_NOISE
from paritygate.manifest.case import Case
from paritygate.metrics.specs import SPECS
from paritygate.records.model import BoundResult, MeasurementResult, RunRecord, Status, unit_suffix
from paritygate.report.pictures import Picture
from paritygate.report.text import code, details, escape, number, table

#: verdict -> what it means, for a reader who sees one for the first time.
MEANINGS = {
    Status.ERROR: "A leg or the harness broke, so nothing was compared. This says nothing about accuracy.",
    Status.INVALID: "The outputs cannot be compared, or the run did not exercise what it claims. No number counts.",
    Status.FAILED: "Something that must hold does not hold.",
    Status.UNVALIDATED: "The numbers were measured and recorded. No gate holds for this device and contract, so "
    "nothing was judged: this is not a pass.",
    Status.PROVISIONAL: "Nothing failed, and this is not a pass: proposed bounds were measured and not yet accepted by "
    "a person, or the run is limited as stated below. CI is red on it unless the lane allows provisional results.",
    Status.PASSED: "An accepted gate for this device and contract was met, and nothing spoke against it.",
}
#: Rows of one table.
MAX_ROWS = 200
#: Of a list that a metric tells of its worst value, this many entries.
MAX_TOLD = 4


def verdict_section(record: RunRecord, *, changed: bool = False) -> str:
    """Verdict, what it means, reasons, gate and scope; ``changed`` says that the case is another one by now."""
    verdict = record.verdict
    lines = [
        f"## {escape(record.case)}: {verdict.status.value}",
        "",
        f"{escape(record.title)} (claim: {escape(record.claim)})",
        "",
        f"**{verdict.status.value}**: {MEANINGS[verdict.status]}",
        "",
    ]
    lines += [f"- {code(finding.code)} {escape(finding.message, limit=2000)}" for finding in verdict.reasons]
    if verdict.failure_class:
        lines.append(f"\nClass of failure: {escape(verdict.failure_class)}")
    lines += ["", f"Gate: {escape(verdict.gate)}", "", f"Scope: {escape(verdict.scope, limit=2000)}"]
    if changed:
        lines += ["", "**The case has changed since this run**: what its manifest says now is left out."]
    return "\n".join(lines)


def gate_section(record: RunRecord) -> str:
    """Every bound with value and headroom, then the measurements that no bound judges."""
    entries = {entry.id: entry for entry in record.comparison.measurements}
    if not entries and not record.verdict.bounds:
        return ""
    rows = [_bound_row(bound, entries.get(bound.measurement)) for bound in record.verdict.bounds]
    bounded = {bound.measurement for bound in record.verdict.bounds}
    rows += [_free_row(entry) for entry in entries.values() if entry.id not in bounded]
    header = ("measurement", "value", "bound", "headroom", "met", "typical", "worst item", "target")
    notes = [f"- {code(entry.id)}: {escape(entry.problem)}" for entry in entries.values() if entry.problem]
    notes += [_worst_note(entry) for entry in entries.values() if entry.worst_detail and not entry.problem]
    infinite = [_infinite_note(entry) for entry in entries.values() if entry.aggregate == "mean"]
    notes += [note for note in infinite if note]
    noise = any(entry.name == "initial_latents" and entry.status == "different" for entry in record.comparison.exact)
    warning = [f"**Not comparable**: {OTHER_NOISE}.", ""] if noise else []
    return "\n".join(["### Measurements", "", *warning, table(header, rows[:MAX_ROWS]), "", *notes]).rstrip()


def pictures_section(pictures: tuple[Picture, ...], failures: tuple[str, ...], prompts: dict[str, str]) -> str:
    """The worst pairs: reference, candidate, amplified difference, and the request behind them."""
    if not pictures and not failures:
        return ""
    lines = ["### Worst pairs", ""]
    for picture in pictures:
        worst = f", worst by {', '.join(code(name) for name in picture.measurements)}" if picture.measurements else ""
        enlarged = f", enlarged {picture.enlargement}x (nearest neighbour)" if picture.enlargement > 1 else ""
        if picture.largest_difference:
            shown = f"difference x{picture.amplification} (largest: {picture.largest_difference} of 255 levels)"
        else:
            shown = "no difference in the stored pixels"
        item = picture.key.partition("/")[0]
        lines += [
            f"Item {code(picture.key)}{worst}: reference | candidate | {shown}{enlarged}",
            "",
            f"![reference, candidate and difference of item {escape(picture.key)}]({picture.path})",
            "",
        ]
        if item in prompts:
            lines += [f"Request: {escape(prompts[item])}", ""]
    lines += [f"- {escape(failure)}" for failure in failures]
    return "\n".join(lines).rstrip()


def exact_section(record: RunRecord) -> str:
    """The exact layer, one row an item."""
    if not record.comparison.exact:
        return ""
    rows = [(code(entry.name), entry.status, escape(entry.detail)) for entry in record.comparison.exact]
    return "### Exact layer\n\n" + table(("item", "status", "detail"), rows)


def acceleration_section(record: RunRecord, case: Case | None) -> str:
    """For acceleration claims: what shows that the feature ran, what fidelity it costs, and how long the legs took."""
    if record.claim != "acceleration":
        return ""
    feature, evidence = case.candidate.feature if case else None, record.comparison.feature
    lines = ["### Acceleration", ""]
    if feature is not None:
        lines.append(f"Feature {code(feature.name)} against {escape(feature.baseline)}, by {code(feature.enabled_by)}.")
    lines += [f"Evidence that it ran: {escape(evidence.message) if evidence else 'none was looked for'}.", ""]
    if record.comparison.measurements:
        rows = [
            (code(entry.id), number(identical, entry.unit), number(entry.typical, entry.unit),
             number(entry.value, entry.unit))
            for entry in record.comparison.measurements
            if entry.metric in SPECS and (identical := SPECS[entry.metric].identical) is not None
        ]  # fmt: skip
        lines += ["Fidelity lost:", "", table(("measurement", "without loss", "typical", "aggregate"), rows), ""]
    legs = {leg.name: leg.duration_s for leg in record.legs}
    if legs.get("reference") and legs.get("candidate"):
        ratio = legs["reference"] / legs["candidate"]
        lines.append(
            f"Wall time of the legs: reference / candidate = {ratio:.2f}. It includes start-up and never judges."
        )
    return "\n".join(lines).rstrip()


def values_section(record: RunRecord) -> str:
    """Every value behind every aggregate, folded."""
    columns: dict[tuple[str, str], MeasurementResult] = {}
    for entry in record.comparison.measurements:
        columns.setdefault((entry.metric, entry.pixels), entry)
    keys = list(dict.fromkeys(key for entry in columns.values() for key in entry.values))
    if not keys:
        return ""
    header = ["item", *(f"{escape(metric)}{' (float)' if pixels == 'float' else ''}" for metric, pixels in columns)]
    rows = [
        [
            code(key),
            *(number(entry.values[key], entry.unit) if key in entry.values else "" for entry in columns.values()),
        ]
        for key in keys[:MAX_ROWS]
    ]
    left = f"\n\n{len(keys) - MAX_ROWS} more are in record.json." if len(keys) > MAX_ROWS else ""
    return details(f"Values of {'1 pair' if len(keys) == 1 else f'all {len(keys)} pairs'}", table(header, rows) + left)


def _bound_row(bound: BoundResult, entry: MeasurementResult | None) -> tuple[str, ...]:
    unit = entry.unit if entry else ""
    words = f"{bound.words}{unit_suffix(unit)}"
    met = "yes" if bound.satisfied else "**no**"
    return (
        code(bound.measurement), number(bound.value, unit), words, number(bound.headroom, unit), met, *_tail(entry)
    )  # fmt: skip


def _free_row(entry: MeasurementResult) -> tuple[str, ...]:
    return (code(entry.id), number(entry.value, entry.unit), "none", "", "", *_tail(entry))


def _tail(entry: MeasurementResult | None) -> tuple[str, str, str]:
    if entry is None:
        return "", "", ""
    target = "" if entry.target is None else number(entry.target, entry.unit)
    return number(entry.typical, entry.unit), code(entry.worst_item), target


def _worst_note(entry: MeasurementResult) -> str:
    """Where or how the worst value came to be, as its metric tells it."""
    told = "; ".join(f"{name.replace('_', ' ')} {_told(value)}" for name, value in entry.worst_detail.items())
    return f"- {code(entry.id)} is worst at {code(entry.worst_item)}: {escape(told)}"


def _told(value: Any) -> str:
    """JSON data in one line: numbers to five digits, and of long lists the beginning."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_told(entry)}" for name, entry in value.items()) + ")"
    if isinstance(value, list):
        more = ", ..." if len(value) > MAX_TOLD else ""
        return "[" + ", ".join(_told(entry) for entry in value[:MAX_TOLD]) + f"{more}]"
    return str(value)


def _infinite_note(entry: MeasurementResult) -> str:
    count = sum(value == float("inf") for value in entry.values.values())
    return f"- {code(entry.id)}: the mean leaves out {counted(count, 'equal pair')} (infinite)" if count else ""
