"""Everything that a run needs, checked before anything loads; every problem is listed, with its fix."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

from paritygate import __version__
from paritygate.errors import EXTRA_OF, UsageError
from paritygate.manifest.case import Case, Leg
from paritygate.metrics.specs import SPECS
from paritygate.records.canonical import sha256_file
from paritygate.runners import devices, probe, weights
from paritygate.runners.leg import interpreter, leg_environment
from paritygate.runners.problems import PreflightProblem, PreflightReport
from paritygate.runners.table import RUNNERS, WORKER_DISTRIBUTIONS, find_runner

_PROBE_TIMEOUT_S = 60
_SPARE_BYTES = 64 << 20


class _Probe(msgspec.Struct, frozen=True):
    python: str
    versions: dict[str, str | None]
    paritygate: bool


def check(
    case: Case,
    *,
    legs: tuple[Leg, ...],
    artifacts: Path,
    items: int,
    queue: str = "",
    environ: Mapping[str, str] = os.environ,
) -> PreflightReport:
    """Check what a case needs on this machine, without importing a framework and without the network.

    Args:
        case: the case.
        legs: the legs to run here; the device is checked when the candidate is one of them.
        artifacts: where run directories go; made when missing.
        items: how many requests the suite has, for the disk estimate.
        queue: the CI queue that has the hardware, for the fix.
        environ: where variables are looked up.
    """
    cards = devices.cards(environ) if case.ci.cards else ()
    profile = devices.profile_for(case.ci, cards)
    probes: dict[tuple[str, ...], _Probe | PreflightProblem] = {}
    problems = list(_artifact_problems(case, artifacts, legs=len(legs), items=items))
    if any(leg.name == "candidate" for leg in legs) and profile is None:
        problems.append(_hardware_problem(case, queue, cards))
    folder = weights.model_folder(case, environ)
    problems += _model_problems(case, folder, legs)
    problems += _input_problems(case)
    problems += _ability_problems(case, legs)
    if len(legs) == len(case.legs):
        problems += _extra_problems(case)
    interpreters: dict[str, dict[str, str | None]] = {}
    for leg in legs:
        found, versions = _leg_problems(case, leg, probes, environ)
        problems += found
        interpreters[leg.name] = versions
    return PreflightReport(
        case=case.id,
        problems=tuple(problems),
        notes=() if not folder.is_dir() or weights.has_digest(case) else (_unverified(case, folder),),
        weights_verified=weights.has_digest(case) and not {"weights", "revision"} & {entry.code for entry in problems},
        model_dir=str(folder),
        profile=profile,
        interpreters=interpreters,
    )


def _unverified(case: Case, folder: Path) -> str:
    revision = case.model.revision
    known = "only the name of the folder says" if folder.name == revision else "nothing in the folder shows"
    return f"weights not verified: {known} that it is revision {revision}"


def _hardware_problem(case: Case, queue: str, found: tuple[devices.Card, ...]) -> PreflightProblem:
    here = ", ".join(card.name for card in found) if found else "no card (nvidia-smi finds none)"
    fix = f"run it where CI does: lane {case.ci.lane}{f', queue {queue}' if queue else ''}"
    if unknown := [card.name for card in found if not card.sku]:
        fix += f"; {unknown[0]!r} is not in the table of runners/devices.py"
    needed = f"{case.ci.cards} x {' or '.join(case.ci.sku)}"
    return PreflightProblem(code="hardware", message=f"needs {needed}; here: {here}", fix=fix)


def _artifact_problems(case: Case, artifacts: Path, *, legs: int, items: int) -> Iterator[PreflightProblem]:
    try:
        artifacts.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=artifacts):
            free = shutil.disk_usage(artifacts).free
    except OSError as error:
        yield PreflightProblem(
            code="artifacts",
            message=f"cannot write to {artifacts}: {error.strerror or error}",
            fix="make it writable, or choose another folder with --artifacts",
        )
        return
    needed = _SPARE_BYTES + legs * items * _item_bytes(case)
    if free < needed:
        yield PreflightProblem(
            code="disk",
            message=f"{artifacts} has {free >> 20} MiB free, the run may need {needed >> 20} MiB",
            fix="free space, or choose another folder with --artifacts",
        )


def _item_bytes(case: Case) -> int:
    """Upper estimate of one item on disk: 8-bit and float32 pixels of every image, layer and frame."""
    out = case.output
    pictures = out.count * (out.layers or 1) * (out.frames or 1)
    return pictures * (out.width or 0) * (out.height or 0) * len(out.mode) * 5


def _model_problems(case: Case, folder: Path, legs: tuple[Leg, ...]) -> Iterator[PreflightProblem]:
    if not folder.is_dir():
        message = f"the weights of {case.model.id} at {case.model.revision} are not at {folder}"
        yield PreflightProblem(code="weights", message=message, fix=weights.how_to_get(case))
        return
    pipeline = any(leg.runner != "python" for leg in legs)
    try:
        found = [("weights", message) for message in weights.folder_problems(folder, pipeline=pipeline)]
        found += [("revision", message) for message in weights.revision_problems(case, folder)]
    except OSError as error:
        message = f"the weights in {folder} cannot be read: {error.strerror or error}"
        yield PreflightProblem(code="weights", message=message, fix=f"make {error.filename or folder} readable")
        return
    for code, message in found:
        yield PreflightProblem(code=code, message=message, fix=weights.how_to_get(case))


def _input_problems(case: Case) -> Iterator[PreflightProblem]:
    for media in case.inputs:
        try:
            found = sha256_file(case.root / media.path)
        except OSError as error:
            message = f"the input {media.path} cannot be read: {error.strerror or error}"
            yield PreflightProblem(code="inputs", message=message, fix="restore it, or correct request.inputs")
            continue
        if found != media.sha256:
            message = f"the input {media.path} has the digest {found}, the manifest says {media.sha256}"
            yield PreflightProblem(code="inputs", message=message, fix="restore it, or correct its sha256")


def _ability_problems(case: Case, legs: tuple[Leg, ...]) -> Iterator[PreflightProblem]:
    """What the case asks of a runner that this version cannot do."""
    fix = "upgrade paritygate"
    for leg in legs:
        if leg.runner in RUNNERS and case.output.kind not in (kinds := RUNNERS[leg.runner].kinds):
            message = (
                f"the runner {leg.runner!r} cannot give {case.output.kind} in this version, only {', '.join(kinds)}"
            )
            yield PreflightProblem(code="output", message=message, fix=f"{fix}, or use an adapter", leg=leg.name)
        if case.initial_latents == "shared" and leg.runner in RUNNERS and not RUNNERS[leg.runner].takes_latents:
            message = f"the runner {leg.runner!r} cannot hand shared initial latents to the model"
            fix = "write initial_latents: seeded"
            yield PreflightProblem(code="latents", message=message, fix=fix, leg=leg.name)


def _extra_problems(case: Case) -> Iterator[PreflightProblem]:
    """What comparing needs beyond a plain run and is not installed here; legs that run apart are not compared there."""
    needed = {SPECS[entry.metric].extra for entry in case.measure.output} - {""}
    if case.output.compared_as == "encoded":
        needed.add("video" if case.output.has_video else "audio")
    for extra in sorted(needed):
        missing = [module for module, part in EXTRA_OF.items() if part == extra and find_spec(module) is None]
        if missing:
            message = f"comparing needs {' and '.join(missing)}, not installed here"
            fix = f"pip install 'paritygate[{extra}]=={__version__}'"
            yield PreflightProblem(code="extra", message=message, fix=fix)


def _leg_problems(
    case: Case, leg: Leg, probes: dict[tuple[str, ...], _Probe | PreflightProblem], environ: Mapping[str, str]
) -> tuple[list[PreflightProblem], dict[str, str | None]]:
    problems = [
        PreflightProblem(
            code="asset",
            message=f"{asset.path} does not exist",
            fix=f"run: {asset.made_by}",
            leg=leg.name,
        )
        for asset in leg.assets
        if not (case.root / asset.path).exists()
    ]
    if leg.adapter and not (case.root / leg.adapter).is_file():
        problems.append(
            PreflightProblem(
                code="adapter", message=f"{leg.adapter} does not exist", fix="restore it from git", leg=leg.name
            )
        )
    problems += _server_problems(leg, environ)
    try:
        find_runner(leg.runner)
    except UsageError as error:
        problems.append(PreflightProblem(code="runner", message=error.message, fix=error.hint, leg=leg.name))
    needed, python = _distributions(leg), interpreter(case, leg)
    key = (python, *needed)
    if key not in probes:
        probes[key] = _probe(python, needed, case=case, leg=leg, environ=environ)
    found = probes[key]
    if isinstance(found, PreflightProblem):
        return [*problems, msgspec.structs.replace(found, leg=leg.name)], {}
    return [*problems, *_version_problems(leg, found, needed)], {"python": found.python, **found.versions}


def _server_problems(leg: Leg, environ: Mapping[str, str]) -> Iterator[PreflightProblem]:
    program = next(iter(leg.spec.get("server") or ()), None)
    if program is not None and shutil.which(program, path=environ.get("PATH")) is None:
        message = f"the server's program {program!r} is not on PATH"
        yield PreflightProblem(code="server", message=message, fix="install it, or correct server", leg=leg.name)


def _distributions(leg: Leg) -> tuple[str, ...]:
    own = RUNNERS[leg.runner].distributions if leg.runner in RUNNERS else ()
    return tuple(dict.fromkeys((*WORKER_DISTRIBUTIONS, *own, *sorted(leg.requires))))


def _probe(
    python: str, distributions: tuple[str, ...], *, case: Case, leg: Leg, environ: Mapping[str, str]
) -> _Probe | PreflightProblem:
    source = Path(probe.__file__).read_text(encoding="utf-8")
    try:
        done = subprocess.run(
            [python, "-c", source, *distributions],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
            cwd=case.root,
            env=leg_environment(leg, environ),
        )
        return msgspec.json.decode(done.stdout, type=_Probe)
    except OSError as error:
        reason = error.strerror or str(error)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
    except (subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        reason = str(error).partition("\n")[0][:200]
    return PreflightProblem(
        code="interpreter",
        message=f"the interpreter {python} cannot be used: {reason}",
        fix="create that environment, or correct the leg's python",
        leg=leg.name,
    )


def _version_problems(leg: Leg, found: _Probe, needed: tuple[str, ...]) -> Iterator[PreflightProblem]:
    extra = RUNNERS[leg.runner].extra if leg.runner in RUNNERS else "run"
    missing = [name for name in needed if found.versions.get(name) is None]
    if not found.paritygate:
        missing.insert(0, "paritygate")
    for name in missing:
        own = name in leg.requires
        yield PreflightProblem(
            code="distribution",
            message=f"{name} is not installed in the leg's Python {found.python}",
            fix=f"pip install '{name}{leg.requires[name]}'"
            if own
            else f"pip install 'paritygate[{extra}]=={__version__}'",
            leg=leg.name,
        )
    for name, specifier in sorted(leg.requires.items()):
        version = found.versions.get(name)
        if version is not None and not _satisfies(version, specifier):
            yield PreflightProblem(
                code="version",
                message=f"{name} is {version}, the leg requires {specifier}",
                fix=f"pip install '{name}{specifier}'",
                leg=leg.name,
            )


def _satisfies(version: str, specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - part of the run extra, not of the core

    return SpecifierSet(specifier).contains(version, prereleases=True)
