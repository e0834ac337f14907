"""Whether a leg's interpreter can import every class that its pipeline needs: real classes, none that is a dummy."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from paritygate.errors import ArtifactError
from paritygate.manifest.cache import cache_folder
from paritygate.manifest.case import Case, Leg
from paritygate.records.canonical import canonical_json, sha256_bytes
from paritygate.records.store import write_text_atomic
from paritygate.runners import probe_imports
from paritygate.runners.asking import UnansweredError, ask_python
from paritygate.runners.leg import interpreter, leg_environment
from paritygate.runners.preflight_legs import Interpreter
from paritygate.runners.preflight_programs import program_environment
from paritygate.runners.problems import PreflightProblem
from paritygate.runners.table import RUNNERS
from paritygate.runners.weights import components

#: Importing torch and a pipeline takes seconds, and minutes from a cold network disk.
_TIMEOUT_S = 600
#: Variables that change what an import gives, besides those of Python itself; their beginnings.
_VARIABLES = ("CUDA", "DIFFUSERS", "HIP", "HSA", "LD_", "NVIDIA", "PYTHON", "ROCR", "TORCH", "TRANSFORMERS", "USE_")


def import_problems(
    case: Case, leg: Leg, *, folder: Path, device: str, found: Interpreter, environ: Mapping[str, str]
) -> list[PreflightProblem]:
    """What a leg's interpreter cannot import: what it requires, and every class of a ``diffusers`` leg's pipeline.

    A clean answer is kept in the user's cache and holds until a package, a variable or the question changes.

    Args:
        case: the case.
        leg: the leg.
        folder: where the weights are; its ``model_index.json`` names classes.
        device: where the leg runs (``cpu``, ``cuda``).
        found: what its interpreter has installed.
        environ: where variables are looked up.
    """
    request: dict[str, Any] = {
        "classes": _classes(leg, folder) if leg.runner == "diffusers" and _can_ask(found) else [],
        "modules": _modules(leg, found),
        "attention_backend": leg.spec.get("attention_backend") or "",
        "device": str(leg.spec.get("device") or device).partition(":")[0],
    }
    if not request["classes"] and not request["modules"]:
        return []
    in_leg = RUNNERS[leg.runner].in_leg_python
    python = interpreter(case, leg)
    environment = leg_environment(leg, environ) if in_leg else program_environment(case, leg, environ)
    key = _key(python, request, found.packages, environment)
    if answered(case.root, key):
        return []
    try:
        lacking = ask_python(
            python,
            probe_imports.__file__,
            request,
            list[tuple[str, str, str]],
            cwd=case.root,
            environment=environment,
            timeout_s=_TIMEOUT_S,
        )
    except UnansweredError as error:
        message = f"{python} died while it imported what the leg needs: {error}"
        fix = "run the imports there by hand, and reinstall what breaks"
        return [PreflightProblem(code="import", message=message, fix=fix, leg=leg.name)]
    if not lacking:
        keep_answer(case.root, key)
    return [PreflightProblem(code=code, message=message, fix=fix, leg=leg.name) for code, message, fix in lacking]


def _can_ask(found: Interpreter) -> bool:
    """Whether a question about the classes of Diffusers has a meaning; what is not installed was named already."""
    return all(found.distributions.get(name) for name in ("diffusers", "torch", "transformers"))


def _modules(leg: Leg, found: Interpreter) -> list[tuple[str, str]]:
    named = {name: found.distributions.get(name) for name in sorted(leg.requires)}
    return [(name, installed.module) for name, installed in named.items() if installed and installed.module]


def _classes(leg: Leg, folder: Path) -> list[tuple[str, str, str]]:
    """Every class that the leg will need: where it is named, its library and its name."""
    wanted = [("pipeline", "diffusers", str(leg.spec["pipeline"]))]
    wanted += [
        (f"{key}.class", "diffusers", str(leg.spec[key]["class"]))
        for key in ("scheduler", "cache")
        if leg.spec.get(key)
    ]
    wanted += [
        (f"model_index.json: {name}", library, kind)
        for name, (library, kind) in components(folder).items()
        if not (folder / name / f"{library}.py").is_file()
    ]
    return wanted


def _key(python: str, request: Any, packages: str, environment: Mapping[str, str]) -> str:
    source = Path(probe_imports.__file__).read_bytes()
    variables = {name: value for name, value in environment.items() if name.startswith(_VARIABLES)}
    return sha256_bytes(source + canonical_json([python, os.path.realpath(python), request, packages, variables]))


def answered(root: Path, key: str) -> bool:
    """Whether the question of this digest was answered before, with nothing missing.

    Only what nobody else can write counts.
    """
    folder = _place(root)
    with suppress(OSError):
        if folder is not None:
            state = folder.lstat()
            is_private = stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077
            return is_private and (folder / key.removeprefix("sha256:")).is_file()
    return False


def keep_answer(root: Path, key: str) -> None:
    """Remember that the question of this digest was answered, with nothing missing."""
    folder = _place(root)
    with suppress(OSError, ArtifactError):
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text_atomic(folder / key.removeprefix("sha256:"), "", durable=False)


def _place(root: Path) -> Path | None:
    """The folder of answers of all projects, beside the cache of manifests and as private; never in the checkout."""
    folder = cache_folder(root)
    return None if folder is None else folder.with_name("imports")
