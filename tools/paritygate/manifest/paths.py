"""Every path that a manifest may hold, in one place: rules check them, the build makes them project-relative."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from paritygate.manifest.loader import Pointer

LEGS = ("reference", "candidate", "low_precision")


class PathValue(NamedTuple):
    """One path as written. ``expects``: a ``file`` or ``folder`` that must exist, or ``nothing`` yet."""

    pointer: Pointer
    text: str
    expects: Literal["file", "folder", "nothing"]


def path_values(data: Mapping[str, Any]) -> list[PathValue]:
    """The paths of a complete case, in the order of the schema."""
    found: list[PathValue] = []
    if "path" in data["model"]:
        found.append(PathValue(("model", "path"), data["model"]["path"], "folder"))
    for index, media in enumerate(data["request"].get("inputs", ())):
        found.append(PathValue(("request", "inputs", index, "path"), media["path"], "file"))
    suite = data.get("suite", {})
    files = (key for key in ("prompts", "negative_prompts") if isinstance(suite.get(key), str))
    found.extend(PathValue(("suite", key), suite[key], "file") for key in files)
    for name in LEGS:
        if name in data:
            _add_leg_paths(found, (name,), data[name])
    return found


def _add_leg_paths(found: list[PathValue], pointer: Pointer, leg: Mapping[str, Any]) -> None:
    if "adapter" in leg:
        found.append(PathValue((*pointer, "adapter"), leg["adapter"], "file"))
    if "folder" in leg:
        # An import may arrive later than its case; what it lacks is reported by the run.
        found.append(PathValue((*pointer, "folder"), leg["folder"], "nothing"))
    if "cwd" in leg:
        found.append(PathValue((*pointer, "cwd"), leg["cwd"], "folder"))
    for index, folder in enumerate(leg.get("pythonpath", ())):
        found.append(PathValue((*pointer, "pythonpath", index), folder, "folder"))
    for index, lora in enumerate(leg.get("lora", ())):
        found.append(PathValue((*pointer, "lora", index, "path"), lora["path"], "file"))
    for index, asset in enumerate(leg.get("assets", ())):
        found.append(PathValue((*pointer, "assets", index, "path"), asset["path"], "nothing"))
    if "golden" in leg and "generator" in leg["golden"]:
        _add_leg_paths(found, (*pointer, "golden", "generator"), leg["golden"]["generator"])


def project_path(folder: str, text: str) -> str:
    """A path relative to the project, from the folder of the file that states it; ``..`` in front means outside."""
    return posixpath.normpath(posixpath.join(folder, text))
