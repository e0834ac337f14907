"""One run as Markdown, small enough for a Buildkite annotation, the verdict first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paritygate.manifest.case import Case
from paritygate.manifest.suite import AXES, items
from paritygate.records.model import RunRecord, Status
from paritygate.report.checklist import checklist_section
from paritygate.report.pictures import Picture
from paritygate.report.provenance import environment_section, legs_section, reproduce_section, unmeasured_section
from paritygate.report.result import (
    acceleration_section,
    exact_section,
    gate_section,
    pictures_section,
    values_section,
    verdict_section,
)

#: Buildkite refuses annotations of 1 MiB; the rest is head room for what an uploader adds.
MAX_BYTES = 1_000_000


def render(
    record: RunRecord,
    run_dir: Path,
    case: Case | None,
    *,
    pictures: tuple[Picture, ...] = (),
    failures: tuple[str, ...] = (),
) -> str:
    """The report of one run, at most ``MAX_BYTES`` of UTF-8.

    Args:
        record: the run, with its verdict.
        run_dir: where its logs are; they are not trusted.
        case: the case that was run; None when it has changed since.
        pictures: drawn pairs, by paths relative to ``run_dir``.
        failures: why some pairs could not be drawn.
    """
    sections: dict[str, Callable[[], str]] = {
        "verdict": lambda: verdict_section(record, changed=case is None),
        "measurements": lambda: gate_section(record),
        "worst pairs": lambda: pictures_section(pictures, failures, _requests(case)),
        "exact layer": lambda: exact_section(record),
        "acceleration": lambda: acceleration_section(record, case),
        "checklist": lambda: checklist_section(record, case),
        "legs": lambda: legs_section(record, run_dir),
        "not measured": lambda: unmeasured_section(record, case),
        "reproduce": lambda: reproduce_section(record),
        "environment": lambda: environment_section(record),
        "values": lambda: values_section(record),
    }
    order = list(sections)
    if record.verdict.status is Status.ERROR:
        # Where a leg broke, its log is what the reader came for.
        order.insert(1, order.pop(order.index("legs")))
    kept: list[str] = []
    left_out: list[str] = []
    size = 0
    for name in order:
        text = sections[name]()
        length = len(text.encode()) + 2
        if size + length > MAX_BYTES:
            left_out.append(name)
        elif text:
            kept.append(text)
            size += length
    if left_out:
        kept.append(f"Left out because the report would be too large: {', '.join(left_out)}. See record.json.")
    return "\n\n".join(kept) + "\n"


def _requests(case: Case | None) -> dict[str, str]:
    """Prompt, seed and what else the suite varies of each item, in words."""
    words: dict[str, str] = {}
    if case is None:
        return words
    varied = [key for axis, keys in AXES.items() if axis in case.document.get("suite", {}) for key in keys]
    told = dict.fromkeys(("prompt", "negative_prompt", *varied, "seed"))
    for item in items(case):
        keys = [key for key in told if item.request.get(key) not in (None, "")]
        words[item.id] = "; ".join(f"{key.replace('_', ' ')}: {item.request[key]}" for key in keys)
    return words
