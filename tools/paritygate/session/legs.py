"""The legs of a run, run here or read back from the machine where they ran."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from paritygate.errors import ArtifactError, ManifestError, MediaError, UsageError
from paritygate.manifest.case import Case, Item, Leg
from paritygate.manifest.contract import contract as contract_of
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps, loads
from paritygate.records.model import EFFECTIVE_NAME, OUTPUTS_NAME, DeviceProfile, Finding, LegRecord
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
    """``<leg>/leg.json``: a leg as run, of which run and case, and under what.

    ``digests``: the leg's own lists as it left them, file name -> sha256. ``findings``: what makes the run invalid and
    could only be seen before this leg started.
    """

    run_id: str
    case: str
    setting: Setting
    digests: dict[str, str]
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
    golden: Path | None = None,
    watch: Watcher,
) -> LegRun:
    """Run one leg and write its ``leg.json``, which holds the contract as it was when this leg started.

    Raises:
        UsageError: when the run has this leg already.
        ArtifactError: when the run directory cannot be written.
    """
    seen = -1

    def progress(done: int) -> None:
        nonlocal seen
        if done != seen:
            seen = done
            watch(Progress(case=case.id, stage=f"{leg.name} leg", done=done, total=len(items)))

    changed = change(latents, when=f"before the {leg.name} leg")
    setting = msgspec.structs.replace(setting, contract=contract_now(case))
    progress(0)
    record = run_leg(
        case,
        leg,
        items=items,
        run_dir=run_dir,
        model_dir=model_dir,
        latents=latents,
        device=DEVICES.get(setting.profile.platform, setting.profile.platform),
        golden=golden,
        progress=progress,
    )
    run = LegRun(
        run_id=run_dir.name,
        case=case.id,
        setting=setting,
        digests=_digests(run_dir, leg.name),
        leg=record,
        findings=(changed,) if changed else (),
    )
    write_text_atomic(run_dir / leg.name / _LEG_NAME, dumps(run))
    return run


def contract_now(case: Case) -> str:
    """The contract of the case as its files are now, or a text that no contract equals when one cannot be read."""
    try:
        return contract_of(case)
    except (OSError, ManifestError):
        return "unreadable"


def refuse_used_leg(case: Case, run_dir: Path, name: str) -> None:
    """Refuse to run a leg into a run that has it already, whole or in part.

    Raises:
        UsageError: saying which.
    """
    if os.path.lexists(run_dir / name):
        has = "has a" if os.path.lexists(run_dir / name / _LEG_NAME) else "has an incomplete"
        raise UsageError(
            f"the run {run_dir.name} of {case.id} {has} {name} leg already",
            hint="use another --run-id; runs are never reused",
        )


def read_legs(case: Case, run_dir: Path) -> tuple[LegRun, ...]:
    """The legs that a run directory holds, in the order in which a case runs them.

    Raises:
        UsageError: when the reference or the candidate is missing or incomplete.
        ArtifactError: for a damaged file.
    """
    found = []
    for leg in case.legs:
        if not os.path.lexists(run_dir / leg.name):
            raise UsageError(
                f"the run {run_dir.name} of {case.id} has no {leg.name} leg",
                hint=f"run: paritygate run {case.id} --leg {leg.name} --run-id {run_dir.name}",
            )
        if not os.path.lexists(run_dir / leg.name / _LEG_NAME):
            raise UsageError(
                f"the {leg.name} leg of the run {run_dir.name} of {case.id} is incomplete: it was interrupted, "
                "or still runs",
                hint=f"start a new run: paritygate run {case.id}",
            )
        found.append(read_leg(run_dir, leg.name))
    return tuple(found)


def read_leg(run_dir: Path, leg: str) -> LegRun:
    """A leg as run, from its file in the run directory.

    Raises:
        ArtifactError: when the file is missing or damaged.
    """
    name = f"{leg}/{_LEG_NAME}"
    try:
        return loads(read_contained(run_dir, name), LegRun, source=name)
    except MediaError as error:
        raise ArtifactError(f"{run_dir.name}: {error.message}", hint="start a new run") from error


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


def contract_findings(case: Case, legs: tuple[LegRun, ...], contract: str) -> tuple[Finding, ...]:
    """Why legs do not belong together: each was run for the case as it is now, or it proves nothing about it."""
    found = [
        Finding(
            code="leg-contract",
            message=f"the {run.leg.name} leg ran under {run.setting.contract[:19]}, the case has {contract[:19]}",
        )
        for run in legs
        if run.setting.contract != contract
    ]
    if (now := contract_now(case)) != contract:
        message = f"files of the case changed while it ran: its contract was {contract[:19]}, it is {now[:19]}"
        found.append(Finding(code="leg-contract", message=message))
    return tuple(found)


def binding_findings(case: Case, legs: tuple[LegRun, ...], run_dir: Path) -> tuple[Finding, ...]:
    """Why legs are not those that this run made: of another run or case, or with lists changed since."""
    found = []
    for run in legs:
        if (run.run_id, run.case) != (run_dir.name, case.id):
            message = f"the {run.leg.name} leg is one of the run {run.run_id} of {run.case}, not of {run_dir.name}"
            found.append(Finding(code="leg-of-another-run", message=message))
        now = _digests(run_dir, run.leg.name)
        for name in sorted(now.keys() | run.digests.keys()):
            if now.get(name) != run.digests.get(name):
                message = f"{run.leg.name}/{name} is not the file that the leg left"
                found.append(Finding(code="leg-changed", message=message))
    return tuple(found)


def _digests(run_dir: Path, leg: str) -> dict[str, str]:
    found = {}
    for name in (EFFECTIVE_NAME, OUTPUTS_NAME):
        # What cannot be read broke the leg already, or shows as a difference.
        with contextlib.suppress(MediaError):
            found[name] = sha256_bytes(read_contained(run_dir, f"{leg}/{name}"))
    return found


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
