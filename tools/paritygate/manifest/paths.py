"""Every path that a manifest may hold, in one place: rules check them, the build makes them project-relative."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from paritygate.manifest.loader import Pointer

LEGS = ("reference", "candidate", "low_precision")


class PathValue(NamedTuple):
    """One path as written. ``expects``: a ``file`` or ``folder`` that must exist, or ``nothing`` yet."""

    pointer: Pointer
    text: str
    expects: Literal["file", "folder", "nothing"]


def path_values(data: Mapping[str, Any]) -> Iterator[PathValue]:
    """The paths of a complete case, in the order of the schema."""
    if "path" in data["model"]:
        yield PathValue(("model", "path"), data["model"]["path"], "folder")
    for index, media in enumerate(data["request"].get("inputs", ())):
        yield PathValue(("request", "inputs", index, "path"), media["path"], "file")
    suite = data.get("suite", {})
    for key in ("prompts", "negative_prompts"):
        if isinstance(suite.get(key), str):
            yield PathValue(("suite", key), suite[key], "file")
    for name in LEGS:
        yield from _leg_paths((name,), data.get(name, {}))


def _leg_paths(pointer: Pointer, leg: Mapping[str, Any]) -> Iterator[PathValue]:
    if "adapter" in leg:
        yield PathValue((*pointer, "adapter"), leg["adapter"], "file")
    if "folder" in leg:
        # An import may arrive later than its case; what it lacks is reported by the run.
        yield PathValue((*pointer, "folder"), leg["folder"], "nothing")
    for index, asset in enumerate(leg.get("assets", ())):
        yield PathValue((*pointer, "assets", index, "path"), asset["path"], "nothing")
    if "generator" in leg.get("golden", {}):
        yield from _leg_paths((*pointer, "golden", "generator"), leg["golden"]["generator"])


def project_path(folder: str, text: str) -> str:
    """A path relative to the project, from the folder of the file that states it; ``..`` in front means outside."""
    return posixpath.normpath(posixpath.join(folder, text))
