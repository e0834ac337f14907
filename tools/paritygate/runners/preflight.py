"""Everything that a run needs, checked before anything loads; every problem is listed, with its fix."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from paritygate.manifest.case import Case, Leg
from paritygate.records.model import DeviceProfile
from paritygate.runners import devices, drivers, weights
from paritygate.runners.devices_memory import card_problems, main_memory_problems
from paritygate.runners.preflight_case import (
    ability_problems,
    device_problems,
    extra_problems,
    model_problems,
    needs_weights,
    place_problems,
    unequal_notes,
    unequal_problems,
)
from paritygate.runners.preflight_fingerprint import fingerprint
from paritygate.runners.preflight_imports import import_problems
from paritygate.runners.preflight_inputs import input_problems, leg_file_problems
from paritygate.runners.preflight_legs import LegState, Probes, leg_state
from paritygate.runners.preflight_programs import port_problems
from paritygate.runners.problems import PreflightProblem, PreflightReport


def check(
    case: Case,
    *,
    legs: tuple[Leg, ...],
    artifacts: Path,
    items: int,
    queue: str = "",
    earlier: PreflightReport | None = None,
    environ: Mapping[str, str] = os.environ,
) -> PreflightReport:
    """Check what a case needs on this machine, without loading weights and without the network.

    What may change from minute to minute is looked at each time: interpreters and what they have installed, hardware,
    free memory and disk space, ports. Only the content of files and the imports are taken from an earlier report.

    Args:
        case: the case.
        legs: the legs to run here; the device is checked when the candidate is one of them.
        artifacts: where run directories go; made when missing.
        items: how many requests the suite has, for the disk estimate.
        queue: the CI queue that has the hardware, for the fix.
        earlier: a report without problems, which holds while its fingerprint does.
        environ: where variables are looked up.
    """
    cards = drivers.cards(environ) if case.ci.cards else ()
    profile = devices.profile_for(case.ci, cards)
    folder = weights.model_folder(case, environ)
    problems = list(place_problems(case, artifacts, legs=len(legs), items=items))
    if profile is None and any(leg.name == "candidate" for leg in legs):
        problems.append(_hardware_problem(case, queue, cards, environ))
    problems += _memory_problems(case, legs, folder, cards, environ)
    problems += _manifest_problems(case, legs)
    states = _states(case, legs, environ)
    problems += [problem for state in states.values() for problem in state.problems]
    seen = fingerprint(case, legs, folder=folder, states=states, cards=cards, environ=environ)
    reused = earlier is not None and not earlier.problems and bool(seen) and earlier.fingerprint == seen
    if not reused:
        problems += _content_problems(case, legs, folder, states, profile=profile, environ=environ)
    bad_weights = {"weights", "revision"} & {entry.code for entry in problems}
    return PreflightReport(
        case=case.id,
        problems=tuple(problems),
        notes=(*_weight_notes(case, legs, folder), *unequal_notes(case)),
        weights_verified=needs_weights(legs) and weights.has_digest(case) and not bad_weights,
        model_dir=str(folder),
        profile=profile,
        interpreters={name: state.interpreter.versions() for name, state in states.items() if state.interpreter},
        fingerprint=seen,
        reused=reused,
    )


def _states(case: Case, legs: tuple[Leg, ...], environ: Mapping[str, str]) -> dict[str, LegState]:
    probes: Probes = {}
    found: dict[str, LegState] = {}
    for leg in legs:
        found[leg.name] = leg_state(case, leg, probes, environ)
        found[leg.name].problems += port_problems(leg)
    return found


def _manifest_problems(case: Case, legs: tuple[Leg, ...]) -> Iterator[PreflightProblem]:
    """What the manifest asks for and cannot be had in this version, or is not comparable."""
    yield from ability_problems(case, legs)
    if len(legs) == len(case.legs):
        yield from unequal_problems(case)
        yield from extra_problems(case)


def _content_problems(
    case: Case,
    legs: tuple[Leg, ...],
    folder: Path,
    states: Mapping[str, LegState],
    *,
    profile: DeviceProfile | None,
    environ: Mapping[str, str],
) -> Iterator[PreflightProblem]:
    """What only reading files and importing packages shows."""
    device = devices.DEVICES[profile.platform] if profile else "cpu"
    if profile is not None:
        yield from device_problems(legs, device)
    if needs_weights(legs):
        yield from model_problems(case, folder, legs)
    yield from input_problems(case)
    for leg in legs:
        yield from leg_file_problems(case, leg)
        found = states[leg.name].interpreter
        if found is not None:
            yield from import_problems(case, leg, folder=folder, device=device, found=found, environ=environ)


def _memory_problems(
    case: Case, legs: tuple[Leg, ...], folder: Path, cards: tuple[drivers.Card, ...], environ: Mapping[str, str]
) -> Iterator[PreflightProblem]:
    """Legs run one after the other, so the largest one counts."""
    loading = [leg for leg in legs if leg.runner == "diffusers"]
    if chosen := devices.cards_for(case.ci, cards):
        on_card = [leg for leg in loading if not leg.spec.get("offload") and leg.spec.get("device") != "cpu"]
        needed = max((weights.least_bytes(folder, leg) for leg in on_card), default=0)
        yield from card_problems(chosen, needed // len(chosen), environ)
    elif not case.ci.cards:
        yield from main_memory_problems(max((weights.least_bytes(folder, leg) for leg in loading), default=0))


def _weight_notes(case: Case, legs: tuple[Leg, ...], folder: Path) -> Iterator[str]:
    if not needs_weights(legs) or not folder.is_dir() or weights.has_digest(case):
        return
    revision = case.model.revision
    known = "only the name of the folder says" if folder.name == revision else "nothing in the folder shows"
    yield f"weights not verified: {known} that it is revision {revision}"


def _hardware_problem(
    case: Case, queue: str, found: tuple[drivers.Card, ...], environ: Mapping[str, str]
) -> PreflightProblem:
    silent = " and ".join(drivers.silent_tools(environ))
    nothing = f"no card ({silent} is installed and lists none)" if silent else "no card (no driver lists one)"
    here = ", ".join(card.name for card in found) or nothing
    fix = f"run it where CI does: lane {case.ci.lane}{f', queue {queue}' if queue else ''}"
    if unknown := [card.name for card in found if not card.sku]:
        fix += f"; {unknown[0]!r} is not in the table of runners/drivers.py"
    needed = f"{case.ci.cards} x {' or '.join(case.ci.sku)}"
    return PreflightProblem(code="hardware", message=f"needs {needed}; here: {here}", fix=fix)
