"""What a case as a whole needs on this machine: a place for its run, weights, parts that compare, equal legs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paritygate import __version__
from paritygate.errors import EXTRA_OF
from paritygate.manifest.case import Case, Leg
from paritygate.metrics.specs import SPECS
from paritygate.runners import weights
from paritygate.runners.problems import PreflightProblem
from paritygate.runners.table import RUNNERS

_SPARE_BYTES = 64 << 20
#: Runners that need no weights: what they give was made before.
_WITHOUT_WEIGHTS = frozenset({"golden", "import"})
#: Settings of a ``diffusers`` leg that both legs may declare and that should then be the same.
_SHARED_SETTINGS = ("attention_backend", "call", "compile", "device", "offload", "scheduler", "threads")


def place_problems(case: Case, artifacts: Path, *, legs: int, items: int) -> Iterator[PreflightProblem]:
    """Whether run directories can be made, and whether their outputs fit."""
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


def needs_weights(legs: tuple[Leg, ...]) -> bool:
    """Whether any of these legs computes here; goldens and imports were made before, a running server has its own."""
    return any(leg.runner not in _WITHOUT_WEIGHTS and ("url" not in leg.spec or "server" in leg.spec) for leg in legs)


def model_problems(case: Case, folder: Path, legs: tuple[Leg, ...]) -> Iterator[PreflightProblem]:
    """Weights that are absent, cut off, altered or of another revision."""
    if not folder.is_dir():
        message = f"the weights of {case.model.id} at {case.model.revision} are not at {folder}"
        if folder.parent.name == "snapshots" and folder.parent.is_dir():
            others = sorted(path.name for path in folder.parent.iterdir())[:3]
            message += f"; other revisions are there: {', '.join(others)}" if others else ""
        yield PreflightProblem(code="weights", message=message, fix=weights.how_to_get(case))
        return
    pipeline = any(leg.runner == "diffusers" for leg in legs)
    try:
        found = [("weights", message) for message in weights.folder_problems(folder, pipeline=pipeline)]
        found += [("revision", message) for message in weights.revision_problems(case, folder)]
    except OSError as error:
        message = f"the weights in {folder} cannot be read: {error.strerror or error}"
        yield PreflightProblem(code="weights", message=message, fix=f"make {error.filename or folder} readable")
        return
    for code, message in found:
        yield PreflightProblem(code=code, message=message, fix=weights.how_to_get(case))


def ability_problems(case: Case, legs: tuple[Leg, ...]) -> Iterator[PreflightProblem]:
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


def extra_problems(case: Case) -> Iterator[PreflightProblem]:
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


def device_problems(legs: tuple[Leg, ...], wanted: str) -> Iterator[PreflightProblem]:
    """Legs that ask for another kind of device than that on which the case runs (``wanted``: ``cpu``, ``cuda``)."""
    for leg in legs:
        stated = leg.spec.get("device")
        if leg.runner == "diffusers" and stated and str(stated).partition(":")[0] != wanted:
            message = f"device: the leg asks for {stated}, the case runs on {wanted} here"
            fix = "leave device out, or correct ci.hardware"
            yield PreflightProblem(code="device", message=message, fix=fix, leg=leg.name)


def unequal_problems(case: Case) -> Iterator[PreflightProblem]:
    """Components that the manifest itself loads in two precisions without saying why."""
    if {case.reference.runner, case.candidate.runner} != {"diffusers"}:
        return
    left, right = (leg.spec.get("dtype") for leg in (case.reference, case.candidate))
    for field, (ours, theirs) in sorted(_unequal_dtypes(left, right).items()):
        if not _declared(case, field):
            message = f"{field}: the reference loads {ours}, the candidate {theirs}, and no difference is declared"
            fix = f"give both legs one dtype, or declare it: differences: [{{field: {field}, reason: ...}}]"
            yield PreflightProblem(code="unequal", message=message, fix=fix)


def unequal_notes(case: Case) -> Iterator[str]:
    """Other settings that the manifest itself gives two values; the checklist of the run decides on them."""
    if case.reference.runner != "diffusers" or case.candidate.runner != "diffusers":
        return
    for field in _SHARED_SETTINGS:
        left, right = (leg.spec.get(field) for leg in (case.reference, case.candidate))
        if left is not None and right is not None and left != right and not _declared(case, field):
            yield f"{field} is {left} in the reference and {right} in the candidate, and no difference is declared"


def _unequal_dtypes(left: Any, right: Any) -> dict[str, tuple[str, str]]:
    """Field -> both declared dtypes, where they differ; what a leg does not declare cannot differ."""
    if not left or not right:
        return {}
    if isinstance(left, str) and isinstance(right, str):
        return {"dtype": (left, right)} if left != right else {}
    parts = {name for spec in (left, right) if isinstance(spec, Mapping) for name in spec}
    fields = {name: "dtype" if name == "default" else f"dtype.{name}" for name in parts}
    pairs = {fields[name]: (_dtype_of(left, name), _dtype_of(right, name)) for name in parts}
    return {field: (ours, theirs) for field, (ours, theirs) in pairs.items() if ours and theirs and ours != theirs}


def _dtype_of(spec: Any, name: str) -> str:
    return spec if isinstance(spec, str) else str(spec.get(name, spec.get("default", "")))


def _declared(case: Case, field: str) -> bool:
    """Whether a difference is declared of a setting, of a part of it or of what it is a part of."""
    names = (entry.field for entry in case.differences)
    return any(f"{field}.".startswith(f"{name}.") or f"{name}.".startswith(f"{field}.") for name in names)


def _item_bytes(case: Case) -> int:
    """Upper estimate of one item on disk: 8-bit and float32 values of every picture, frame and sample."""
    out = case.output
    pictures = out.count * (out.layers or 1) * (out.frames or 1)
    pixels = pictures * (out.width or 0) * (out.height or 0) * len(out.mode) * 5
    seconds = (out.frames or 0) / out.fps if out.fps else 0.0
    return pixels + int(out.count * seconds * (out.sample_rate_hz or 0) * (out.channels or 0) * 4)
