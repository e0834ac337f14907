"""The ``golden`` runner: a promoted golden instead of a running reference. What made it is never imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from paritygate.errors import GoldenError, LegError, MediaError
from paritygate.media.frozen import frozen_problems
from paritygate.media.paths import read_contained
from paritygate.records.canonical import canonical_json, sha256_bytes
from paritygate.records.golden import GOLDEN_NAME, Golden, parse_golden
from paritygate.records.model import OUTPUTS_FOLDER
from paritygate.runners import delivery
from paritygate.runners.job import Job, Writer


def run(job: Job, writer: Writer) -> None:
    """Verify the golden, then store what it holds, with its generator's effective settings.

    Raises:
        LegError: when it is not the golden that the leg names, was altered, or answers other requests.
    """
    if job.golden is None:
        raise _refusal(job, "it is not on this machine", hint="run: paritygate preflight CASE")
    folder = Path(job.golden)
    found = _checked(job, folder)
    if problems := frozen_problems(folder, found.files, beside=(GOLDEN_NAME,)):
        raise _refusal(job, "; ".join(problems))
    if difference := next(_differences(job, found), ""):
        raise _refusal(job, f"it answers another request: {difference}", hint="create and promote a new version")
    outputs = folder / OUTPUTS_FOLDER
    with delivery.collecting(problems, "", folder):
        effective = delivery.read_effective(outputs)
        settings = {**effective.settings, **found.settings}
        delivery.report(msgspec.structs.replace(effective, settings=settings), writer)
    writer.environment("golden", {"case": found.case, "digest": job.spec["golden"]["digest"], "name": found.name,
                                  "version": found.version})  # fmt: skip
    problems += delivery.read_outputs(outputs, writer)
    delivery.refuse(problems, kind="golden")


def _checked(job: Job, folder: Path) -> Golden:
    """What ``golden.json`` says, when it is the one that the leg names."""
    named = job.spec["golden"]
    try:
        data = read_contained(folder, GOLDEN_NAME)
        if (digest := sha256_bytes(data)) != named["digest"]:
            raise _refusal(job, f"{GOLDEN_NAME} has the digest {digest}, the leg names {named['digest']}")
        found = parse_golden(data, source=GOLDEN_NAME)
    except (GoldenError, MediaError) as error:
        raise _refusal(job, error.message) from error
    for field, stated in (("name", found.name), ("version", found.version)):
        if stated != named[field]:
            raise _refusal(job, f"its {field} is {stated!r}, the leg names {named[field]!r}")
    return found


def _differences(job: Job, found: Golden) -> Iterator[str]:
    """Where the golden's requests and those of the job part, first place first."""
    inputs = [[(media.role, media.sha256) for media in side] for side in (found.inputs, job.inputs)]
    if inputs[0] != inputs[1]:
        yield f"its conditioning files are {inputs[0]!s:.200}, those of the case {inputs[1]!s:.200}"
    wanted = {item.id: dict(item.request) for item in job.items}
    held = {item.id: item.request for item in found.items}
    for item_id in sorted({*wanted, *held}):
        if item_id not in held or item_id not in wanted:
            yield f"item {item_id} is only in the {'golden' if item_id in held else 'case'}"
            continue
        here, there = wanted[item_id], held[item_id]
        for key in sorted({*here, *there}):
            case, golden = (canonical_json(side[key]).decode() if key in side else "absent" for side in (here, there))
            if case != golden:
                yield f"item {item_id}: {key} is {golden:.200} in the golden, {case:.200} in the case"


def _refusal(job: Job, text: str, *, hint: str = "restore it from git, or promote a new version") -> LegError:
    named = job.spec["golden"]
    return LegError(f"the golden {named['name']} v{named['version']} is refused: {text}", kind="golden", hint=hint)
