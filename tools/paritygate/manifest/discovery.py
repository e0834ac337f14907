"""Which files of a project are manifests and gate files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paritygate.errors import Problem, UsageError
from paritygate.manifest.project import Project

CASE_SUFFIX = ".case.yaml"
GATE_SUFFIX = ".gate.yaml"
#: A near miss of a suffix -> the suffix. A case that is silently not found would be a silent pass.
_MISNAMED = {
    ".case.yml": CASE_SUFFIX,
    ".case.json": CASE_SUFFIX,
    ".gate.yml": GATE_SUFFIX,
    ".gate.json": GATE_SUFFIX,
}


class Found(NamedTuple):
    """One file by its project-relative path. ``is_plain``: a regular file, no link."""

    path: str
    is_plain: bool


class Listing(NamedTuple):
    """The manifests and gate files found, each sorted by path, and what is wrong with names."""

    cases: tuple[Found, ...]
    gates: tuple[Found, ...]
    problems: tuple[Problem, ...]


def discover(project: Project, only: Sequence[Path] = ()) -> Listing:
    """The files beneath the project's case folders, or beneath ``only`` (folders and files).

    Hidden folders and linked folders are not searched.

    Raises:
        UsageError: when one of ``only`` does not exist or lies outside the project.
    """
    found: list[Found] = []
    problems: list[Problem] = []
    starts = [start for path in only for start in _starts(project, path)] if only else project.cases
    for start in starts:
        full = project.root / start
        if full.is_dir() and not full.resolve().is_relative_to(project.root):
            problems.append(Problem(start, 1, 1, "file", "the link leads out of the project", "name a folder of it"))
        elif full.is_dir() and not start.endswith((CASE_SUFFIX, GATE_SUFFIX)):
            found += _walk(str(full), f"{start}/" if start != "." else "")
        elif os.path.lexists(full):
            found.append(Found(start, full.is_file() and not full.is_symlink()))
    unique = sorted(set(found))
    cases = tuple(file for file in unique if file.path.endswith(CASE_SUFFIX))
    gates = tuple(file for file in unique if file.path.endswith(GATE_SUFFIX))
    problems += [problem for file in unique if (problem := _misnamed(file.path))]
    return Listing(cases, gates, tuple(problems))


def _starts(project: Project, only: Path) -> list[str]:
    # The folder is resolved, the name is not: a link to a manifest is judged as a link.
    full = only.absolute()
    full = full.parent.resolve() / full.name if full.name != ".." else full.resolve()
    if full != project.root and not full.is_relative_to(project.root):
        raise UsageError(f"{only} is outside the project {project.root}", hint="name a path inside it")
    if not os.path.lexists(full):
        raise UsageError(f"there is no file or folder {only}", hint="check the path")
    relative = full.relative_to(project.root).as_posix()
    if full.is_dir() or not relative.endswith((CASE_SUFFIX, GATE_SUFFIX)):
        return [relative]
    # A manifest and its gate file are checked together, whichever was named.
    stem = relative.removesuffix(CASE_SUFFIX).removesuffix(GATE_SUFFIX)
    return [name for name in (stem + CASE_SUFFIX, stem + GATE_SUFFIX) if os.path.lexists(project.root / name)]


def _walk(folder: str, prefix: str) -> Iterator[Found]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = _printable(entry.name)
            if name.endswith((CASE_SUFFIX, GATE_SUFFIX)):
                yield Found(prefix + name, entry.is_file(follow_symlinks=False))
            elif entry.is_dir(follow_symlinks=False):
                if not name.startswith(".") and name != "__pycache__":
                    yield from _walk(entry.path, f"{prefix}{name}/")
            elif name.endswith(tuple(_MISNAMED)):
                yield Found(prefix + name, is_plain=True)


def _printable(name: str) -> str:
    """A file name as text that can be printed; one that is not UTF-8 then leads to no file, which is reported."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _misnamed(path: str) -> Problem | None:
    for wrong, right in _MISNAMED.items():
        if path.endswith(wrong):
            name = path.rpartition("/")[2].removesuffix(wrong) + right
            return Problem(path, 1, 1, "name", f"files of this kind end with {right}", f"rename it to {name}")
    return None
