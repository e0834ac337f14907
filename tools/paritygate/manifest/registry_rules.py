"""What the schemas of the registries cannot say, as named rules with the author's line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paritygate.errors import Problem
from paritygate.manifest.loader import Document, Pointer
from paritygate.manifest.shell_lines import setup_fault, upload_fault

#: The volume that every pod with shared memory has.
SHARED_MEMORY = "shared-memory"


def hardware_problems(document: Document, reserved: frozenset[str]) -> Iterable[Problem]:
    """Clashing names, impossible card counts, pods without memory, lines that would not run."""
    seen: dict[str, str] = {}
    for sku, entry in document.data["skus"].items():
        pointer: Pointer = ("skus", sku)
        if sku in reserved:
            message = f"the SKU {sku!r} would be a mark that is taken"
            yield document.problem(pointer, "mark-clash", message, hint="rename it", at_key=True)
        if sku.lower() in seen:
            message = f"the SKUs {seen[sku.lower()]!r} and {sku!r} would share their preset names"
            yield document.problem(pointer, "preset-clash", message, hint="rename one of the two", at_key=True)
        seen[sku.lower()] = sku
        yield from _count_problems(document, pointer, entry)
        yield from _text_problems(document, pointer, entry)


def _count_problems(document: Document, pointer: Pointer, entry: Mapping[str, Any]) -> Iterable[Problem]:
    without = entry["platform"] == "cpu"
    expected = "0 cards on the cpu platform" if without else f"at least 1 card on {entry['platform']}"
    for index, count in enumerate(entry["cards"]):
        if without != (count == 0):
            yield document.problem((*pointer, "cards", index), "cards", f"expected {expected}, found {count}")
    parts = ("base",) if without else ("base", "per_card")
    if "image" in entry and not any(entry.get(part, {}).get("memory_gib") for part in parts):
        message = f"{pointer[-1]} has an image but no memory: its pods would have no limit"
        hint = f"add {parts[-1]}: {{memory_gib: ...}}"
        yield document.problem(pointer, "resources", message, hint=hint, at_key=True)


def _text_problems(document: Document, pointer: Pointer, entry: Mapping[str, Any]) -> Iterable[Problem]:
    for index, line in enumerate(entry.get("setup", ())):
        if fault := setup_fault(line):
            yield document.problem((*pointer, "setup", index), "setup", fault[0], hint=fault[1])
    names = [SHARED_MEMORY]
    for index, mount in enumerate(entry.get("mounts", ())):
        if mount["name"] in names:
            message = f"the volume name {mount['name']!r} is taken"
            yield document.problem((*pointer, "mounts", index, "name"), "mounts", message, hint="rename it")
        names.append(mount["name"])
    for key, value in entry.get("env", {}).items():
        if key == "CI" or key.startswith(("BUILDKITE_", "PARITYGATE_")):
            owner = "every step" if key == "CI" else key.partition("_")[0].lower()
            message = f"the variable {key!r} is set by {owner}"
            yield document.problem((*pointer, "env", key), "env", message, hint="remove it", at_key=True)
        elif fault := upload_fault(value):
            yield document.problem((*pointer, "env", key), "env", fault[0], hint=fault[1])


def lane_problems(document: Document, reserved: frozenset[str]) -> Iterable[Problem]:
    """Lanes whose name is another mark, and texts that would not survive the upload."""
    for name, entry in document.data["lanes"].items():
        # cards_N is the mark of a card count; a lane of that form would select by accident.
        if name in reserved or name.startswith("cards_"):
            message = f"the lane {name!r} would be a mark that is taken"
            yield document.problem(("lanes", name), "mark-clash", message, hint="rename it", at_key=True)
        for key in ("if", "group"):
            if fault := upload_fault(entry[key]):
                yield document.problem(("lanes", name, key), "upload", fault[0], hint=fault[1])


def source_problems(document: Document, root: Path) -> Iterable[Problem]:
    """Paths that lead out of the project or match nothing in it."""
    lists: list[tuple[Pointer, list[Any]]] = [(("shared",), document.data.get("shared", []))]
    lists += [(("sources", name), entries) for name, entries in document.data.get("sources", {}).items()]
    for pointer, entries in lists:
        for index, entry in enumerate(entries):
            external = not isinstance(entry, str)
            path = entry["path"] if external else entry
            elsewhere = "write {path: ..., external: true} for another repository"
            if fault := source_fault(path, None if external else root, elsewhere=elsewhere):
                yield document.problem((*pointer, index), "source-path", fault[0], hint=fault[1])


def source_fault(path: str, root: Path | None, *, elsewhere: str) -> tuple[str, str] | None:
    """Why a path prefix cannot be a source, as (message, hint); None when it can.

    Args:
        path: the prefix.
        root: where it must match something; None when nothing can be known about that.
        elsewhere: what to do about a path of another repository.
    """
    if path.startswith("/") or ".." in path.split("/"):
        return f"the path {path!r} leads out of the project", "name a path relative to the root of the project"
    reason = missing_source(path, root) if root is not None else None
    return None if reason is None else (reason, f"correct it, or {elsewhere}")


def missing_source(path: str, root: Path) -> str | None:
    """Why a path prefix matches nothing beneath ``root``; None where it matches.

    A prefix that ends with a slash is a folder; another is a file, a folder or the start of their names.
    """
    full = root / path
    try:
        if path.endswith("/"):
            return None if full.is_dir() else f"there is no folder {path!r}"
        if full.exists() or (full.parent.is_dir() and any(p.name.startswith(full.name) for p in full.parent.iterdir())):
            return None
    except OSError as error:
        return f"the path {path!r} cannot be read: {error.strerror}"
    return f"no path starts with {path!r}"
