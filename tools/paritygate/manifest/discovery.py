"""Which files of a project are manifests and gate files."""

from __future__ import annotations

import os
import stat
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
        UsageError: when one of ``only`` does not exist, lies outside the project or is no file of ours.
    """
    found: list[Found] = []
    problems: list[Problem] = []
    starts = [start for path in only for start in _starts(project, path)] if only else project.cases
    for start in starts:
        full = project.root / start
        is_folder = os.path.isdir(full)  # noqa: PTH112 - Path.is_dir raises where a folder above cannot be read
        if is_folder and not full.resolve().is_relative_to(project.root):
            problems.append(Problem(start, 1, 1, "file", "the link leads out of the project", "name a folder of it"))
        elif is_folder and not start.endswith((CASE_SUFFIX, GATE_SUFFIX)):
            found += _walk(str(full), f"{start}/" if start != "." else "", problems)
        else:
            found += _single(full, start, problems)
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
    if os.path.isdir(full) or relative.endswith(tuple(_MISNAMED)):  # noqa: PTH112 - as above
        return [relative]
    if not relative.endswith((CASE_SUFFIX, GATE_SUFFIX)):
        raise UsageError(f"{only} is not a *{CASE_SUFFIX}", hint="name a manifest, or a folder of manifests")
    # A manifest and its gate file are checked together, whichever was named.
    stem = relative.removesuffix(CASE_SUFFIX).removesuffix(GATE_SUFFIX)
    return [name for name in (stem + CASE_SUFFIX, stem + GATE_SUFFIX) if os.path.lexists(project.root / name)]


def _single(full: Path, path: str, problems: list[Problem]) -> Iterator[Found]:
    try:
        yield Found(path, stat.S_ISREG(full.lstat().st_mode))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.append(_unreadable(path, error))


def _walk(folder: str, prefix: str, problems: list[Problem]) -> Iterator[Found]:
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError as error:
        problems.append(_unreadable(prefix.rstrip("/") or ".", error))
        return
    for entry in listed:
        name = _decoded(entry.name)
        if name.endswith((CASE_SUFFIX, GATE_SUFFIX)):
            yield Found(prefix + name, entry.is_file(follow_symlinks=False))
        elif entry.is_dir(follow_symlinks=False):
            if not name.startswith(".") and name != "__pycache__":
                yield from _walk(entry.path, f"{prefix}{name}/", problems)
        elif name.endswith(tuple(_MISNAMED)):
            yield Found(prefix + name, is_plain=True)


def _unreadable(path: str, error: OSError) -> Problem:
    return Problem(path, 1, 1, "file", f"the folder cannot be read: {error.strerror}", "check its permissions")


def _decoded(name: str) -> str:
    """A file name as text that can be printed; one that is not UTF-8 then leads to no file, which is reported."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _misnamed(path: str) -> Problem | None:
    for wrong, right in _MISNAMED.items():
        if path.endswith(wrong):
            name = path.rpartition("/")[2].removesuffix(wrong) + right
            return Problem(path, 1, 1, "name", f"files of this kind end with {right}", f"rename it to {name}")
    return None
