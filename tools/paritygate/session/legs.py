"""The legs of a run, run here or read back from the machine where they ran."""

from __future__ import annotations

from pathlib import Path

import msgspec

from paritygate.errors import UsageError
from paritygate.manifest.case import Case, Item, Leg
from paritygate.records.codec import dumps, loads
from paritygate.records.model import DeviceProfile, Finding, LegRecord
from paritygate.records.store import write_text_atomic
from paritygate.runners.leg import Latents, run_leg
from paritygate.session.latents import change
from paritygate.session.progress import Progress, Watcher

_LEG_NAME = "leg.json"


class LegRun(msgspec.Struct, frozen=True, kw_only=True):
    """``<leg>/leg.json``: a leg as run, under which contract and on which device.

    ``findings``: what makes the run invalid and could only be seen before this leg started.
    """

    contract: str
    profile: DeviceProfile
    leg: LegRecord
    findings: tuple[Finding, ...] = ()


def run_one(
    case: Case,
    leg: Leg,
    *,
    items: tuple[Item, ...],
    run_dir: Path,
    model_dir: Path,
    latents: Latents | None,
    contract: str,
    profile: DeviceProfile,
    watch: Watcher,
) -> LegRun:
    """Run one leg and write its ``leg.json``.

    Raises:
        ArtifactError: when the run directory cannot be written, or has this leg already.
    """
    seen = -1

    def progress(done: int) -> None:
        nonlocal seen
        if done != seen:
            seen = done
            watch(Progress(case=case.id, stage=f"{leg.name} leg", done=done, total=len(items)))

    changed = change(latents, when=f"before the {leg.name} leg")
    progress(0)
    record = run_leg(case, leg, items=items, run_dir=run_dir, model_dir=model_dir, latents=latents, progress=progress)
    run = LegRun(contract=contract, profile=profile, leg=record, findings=(changed,) if changed else ())
    write_text_atomic(run_dir / leg.name / _LEG_NAME, dumps(run))
    return run


def read_legs(case: Case, run_dir: Path) -> tuple[LegRun, ...]:
    """The legs that a run directory holds, in the order in which a case runs them.

    Raises:
        UsageError: when the reference or the candidate is missing.
        ArtifactError: for a damaged file.
    """
    found = []
    for leg in case.legs:
        path = run_dir / leg.name / _LEG_NAME
        if not path.is_file():
            raise UsageError(
                f"the run {run_dir.name} of {case.id} has no {leg.name} leg",
                hint=f"run: paritygate run {case.id} --leg {leg.name} --run-id {run_dir.name}",
            )
        found.append(loads(path.read_bytes(), LegRun, source=str(path)))
    return tuple(found)


def contract_findings(legs: tuple[LegRun, ...], contract: str) -> tuple[Finding, ...]:
    """Why legs do not belong together: each was run for the case as it is now, or it proves nothing about it."""
    return tuple(
        Finding(
            code="other-contract",
            message=f"the {run.leg.name} leg ran under {run.contract[:19]}, the case has {contract[:19]} now",
        )
        for run in legs
        if run.contract != contract
    )
