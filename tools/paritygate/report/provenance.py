"""Report sections about the run: legs, logs, what was not measured, environment, how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paritygate.compare.checklist import counted
from paritygate.errors import MediaError
from paritygate.manifest.case import Case
from paritygate.media.paths import read_tail
from paritygate.records.model import LegRecord, RunRecord
from paritygate.records.redact import redact
from paritygate.report.text import block, code, details, escape, table

#: Of a broken leg's log, the report shows this many last lines from this many last bytes.
LOG_LINES = 40
LOG_BYTES = 32 << 10
#: Facts of one environment.
MAX_FACTS = 100


def legs_section(record: RunRecord, run_dir: Path) -> str:
    """One row a leg; a broken leg's message and last log lines stand open, versions are folded."""
    if not record.legs:
        return ""
    rows = [
        (leg.name, escape(leg.runner), f"**{escape(leg.failure)}**" if leg.failure else "complete",
         "" if leg.exit_code is None else str(leg.exit_code), str(len(leg.items)), f"{leg.duration_s:.1f} s",
         code(leg.interpreter), code(leg.log))
        for leg in record.legs
    ]  # fmt: skip
    header = ("leg", "runner", "result", "exit code", "items", "duration", "interpreter", "log")
    parts = ["### Legs", "", table(header, rows)]
    for leg in record.legs:
        if leg.failure is not None or leg.exit_code not in (0, None):
            parts += ["", _failure(leg, run_dir)]
    for leg in record.legs:
        if leg.effective and leg.effective.environment:
            parts += ["", details(f"Environment of the {leg.name} leg", _facts(leg.effective.environment))]
    return "\n".join(parts)


def unmeasured_section(record: RunRecord, case: Case | None) -> str:
    """What this run says nothing about. Without the case, what it asked for is not known."""
    comparison = record.comparison
    silent = [entry for entry in comparison.exact if not entry.is_shown]
    lines = [f"- exact item {code(entry.name)}: {escape(entry.detail)}" for entry in silent]
    if case is not None and not case.measure.exact:
        lines.append("- exact layer: the case does not ask for it")
    if case is not None:
        asked = ", ".join(sorted({str(part.get("component", "?")) for part in case.measure.parts}))
        why = f"asked for ({escape(asked)}) and not run by this version" if asked else "the case does not ask for it"
        lines.append(f"- parts layer (one component on identical inputs): {why}")
    if not comparison.measurements:
        unasked = case is not None and not case.measure.output
        why = "the case does not ask for it" if unasked else "the outputs could not be compared"
        lines.append(f"- output layer: {why}")
    covered = ""
    if case is not None:
        lines += [f"- gap stated by the case: {escape(gap)}" for gap in case.coverage.gaps]
        exercised = case.coverage.exercises
        covered = f"\n\nExercised: {escape(', '.join(exercised))}." if exercised else ""
    return "### Not measured\n\n" + "\n".join(lines) + covered if lines or covered else ""


def environment_section(record: RunRecord) -> str:
    """Device, model, contract and the harness's own environment."""
    profile = record.profile
    cards = counted(profile.cards, "card")
    facts: dict[str, Any] = {
        "device": f"{profile.sku}, {cards}, {profile.arch}, {profile.name} ({profile.platform})",
        "model": f"{record.model_id}@{record.model_revision} ({record.weights} weights)",
        "contract": record.contract,
        "run": f"{record.run_id}, started {record.started}, {record.duration_s:.1f} s, attempt {record.attempt}",
        "purpose": f"{record.purpose}{', in CI' if record.in_ci else ''}",
        **record.environment,
    }
    return "### Environment\n\n" + _facts(facts)


def reproduce_section(record: RunRecord) -> str:
    """The commands that run the case again, and that judge this run again without running the legs."""
    name = shlex.quote(record.case)
    commands = [
        f"paritygate run {name}",
        f"paritygate run {name} --compare --run-id {shlex.quote(record.run_id)}",
    ]
    return "### Reproduce\n\n" + block(commands)


def log_tail(run_dir: Path, relative: str) -> list[str]:
    """The last lines of a log inside the run directory, without secrets; one line says why it cannot be read."""
    try:
        data = read_tail(run_dir, relative, limit=LOG_BYTES)
    except MediaError as error:
        return [f"(the log cannot be read: {error})"]
    if len(data) == LOG_BYTES:
        # Its first line is a part of one: half a secret is not known as one.
        data = data.partition(b"\n")[2] or data
    lines = redact(data.decode("utf-8", "replace")).rstrip().split("\n")
    return lines[-LOG_LINES:] if any(lines) else ["(the log is empty)"]


def _failure(leg: LegRecord, run_dir: Path) -> str:
    head = f"The {leg.name} leg broke ({escape(leg.failure or f'exit code {leg.exit_code}')}): {escape(leg.message)}"
    return f"{head}\n\nLast lines of {code(leg.log)}:\n\n{block(log_tail(run_dir, leg.log))}"


def _facts(facts: Mapping[str, Any]) -> str:
    flat = list(_flatten(facts).items())
    rows = [(escape(name), code(value)) for name, value in flat[:MAX_FACTS]]
    left = f"\n\n{len(flat) - MAX_FACTS} more are in record.json." if len(flat) > MAX_FACTS else ""
    return table(("fact", "value"), rows) + left


def _flatten(facts: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return flat
