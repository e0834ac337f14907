"""The legs of a run, run here or read back from the machine where they ran."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from paritygate.errors import ArtifactError, MediaError, UsageError
from paritygate.manifest.case import Case, Item, Leg
from paritygate.media.paths import read_contained
from paritygate.records.codec import dumps, loads
from paritygate.records.model import DeviceProfile, Finding, LegRecord
from paritygate.records.store import write_text_atomic
from paritygate.runners.devices import DEVICES
from paritygate.runners.leg import Latents, run_leg
from paritygate.session.latents import change
from paritygate.session.progress import Progress, Watcher

_LEG_NAME = "leg.json"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Under what a leg runs: the contract, the device, and where and when, in the words of ``RunRecord``."""

    contract: str
    profile: DeviceProfile
    weights_verified: bool
    started: str
    attempt: int
    environment: dict[str, Any]


class LegRun(msgspec.Struct, frozen=True, kw_only=True):
    """``<leg>/leg.json``: a leg as run, and under what.

    ``findings``: what makes the run invalid and could only be seen before this leg started.
    """

    setting: Setting
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
    setting: Setting,
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
    record = run_leg(
        case,
        leg,
        items=items,
        run_dir=run_dir,
        model_dir=model_dir,
        latents=latents,
        device=DEVICES.get(setting.profile.platform, setting.profile.platform),
        progress=progress,
    )
    run = LegRun(setting=setting, leg=record, findings=(changed,) if changed else ())
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
        if not os.path.lexists(run_dir / leg.name / _LEG_NAME):
            raise UsageError(
                f"the run {run_dir.name} of {case.id} has no {leg.name} leg",
                hint=f"run: paritygate run {case.id} --leg {leg.name} --run-id {run_dir.name}",
            )
        name = f"{leg.name}/{_LEG_NAME}"
        try:
            found.append(loads(read_contained(run_dir, name), LegRun, source=name))
        except MediaError as error:
            raise ArtifactError(f"{run_dir.name}: {error.message}", hint="run the leg again") from error
    return tuple(found)


def joined(legs: tuple[LegRun, ...], *, contract: str) -> Setting:
    """Under what legs ran that ran apart: the candidate's device and environment, and how those of others differ.

    Args:
        legs: every leg, the candidate last.
        contract: the contract of the case as it is now.
    """
    last = legs[-1].setting
    others = {
        f"{run.leg.name}_leg": run.setting.environment for run in legs if run.setting.environment != last.environment
    }
    return Setting(
        contract=contract,
        profile=last.profile,
        weights_verified=all(run.setting.weights_verified for run in legs),
        started=min(run.setting.started for run in legs),
        attempt=max(run.setting.attempt for run in legs),
        environment={**last.environment, **others},
    )


def contract_findings(legs: tuple[LegRun, ...], contract: str) -> tuple[Finding, ...]:
    """Why legs do not belong together: each was run for the case as it is now, or it proves nothing about it."""
    return tuple(
        Finding(
            code="leg-contract",
            message=f"the {run.leg.name} leg ran under {run.setting.contract[:19]}, the case has {contract[:19]} now",
        )
        for run in legs
        if run.setting.contract != contract
    )


def device_findings(legs: tuple[LegRun, ...]) -> tuple[Finding, ...]:
    """Why legs did not run on the device that the verdict would speak for; a leg that reports none says nothing."""
    found = []
    for run in legs:
        profile = run.setting.profile
        device = run.leg.effective.settings.get("device") if run.leg.effective else None
        wanted = DEVICES.get(profile.platform, profile.platform)
        if device is not None and str(device).partition(":")[0] != wanted:
            message = f"the {run.leg.name} leg ran on {device}, the run is for {wanted} ({profile.sku})"
            found.append(Finding(code="wrong-device", message=message))
    return tuple(found)
