"""Report sections about the run: legs, logs, what was not measured, environment, how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paritygate.errors import MediaError
from paritygate.manifest.case import Case
from paritygate.media.paths import contained
from paritygate.records.model import LegRecord, RunRecord
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


def unmeasured_section(record: RunRecord, case: Case) -> str:
    """What this run says nothing about."""
    comparison = record.comparison
    lines = []
    silent = [entry for entry in comparison.exact if entry.status == "unreported"]
    lines += [f"- exact item {code(entry.name)}: {escape(entry.detail)}" for entry in silent]
    if not case.measure.exact:
        lines.append("- exact layer: the case does not ask for it")
    asked = ", ".join(sorted({str(part.get("component", "?")) for part in case.measure.parts}))
    why = f"asked for ({escape(asked)}) and not run by this version" if asked else "the case does not ask for it"
    lines.append(f"- parts layer (one component on identical inputs): {why}")
    if not comparison.measurements:
        why = "the case does not ask for it" if not case.measure.output else "the outputs could not be compared"
        lines.append(f"- output layer: {why}")
    lines += [f"- gap stated by the case: {escape(gap)}" for gap in case.coverage.gaps]
    covered = f"\n\nExercised: {escape(', '.join(case.coverage.exercises))}." if case.coverage.exercises else ""
    return "### Not measured\n\n" + "\n".join(lines) + covered


def environment_section(record: RunRecord, case: Case) -> str:
    """Device, model, contract and the harness's own environment."""
    profile = record.profile
    facts: dict[str, Any] = {
        "device": f"{profile.sku}, {profile.cards} cards, {profile.arch}, {profile.name} ({profile.platform})",
        "model": f"{case.model.id}@{case.model.revision} ({record.weights} weights)",
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
    """The last lines of a log inside the run directory; one line that says why when it cannot be read."""
    try:
        with contained(run_dir, relative).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - LOG_BYTES))
            lines = stream.read().decode("utf-8", "replace").rstrip().split("\n")
    except (MediaError, OSError) as error:
        return [f"(the log cannot be read: {error})"]
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
