"""Goldens in a folder: which there are, and whether one is what its list and the manifest say."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paritygate.errors import GoldenError, MediaError
from paritygate.manifest.project import Project
from paritygate.media.frozen import frozen_problems
from paritygate.media.paths import open_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.golden import GOLDEN_NAME, MAX_GOLDEN_BYTES, NAME_PATTERN, Golden, parse_golden

_NAME = re.compile(NAME_PATTERN)
_VERSION = re.compile(r"v([1-9][0-9]{0,8})\Z")


class Ref(NamedTuple):
    """One version of a golden as a manifest names it; ``digest`` is that of ``golden.json``."""

    name: str
    version: int
    digest: str

    def __str__(self) -> str:
        """``<name> v<version>``."""
        return f"{self.name} v{self.version}"

    @property
    def path(self) -> str:
        """``<name>/v<version>``, below a folder of goldens or a base URL."""
        return f"{self.name}/v{self.version}"


class Found(NamedTuple):
    """A golden that was verified: its local folder, and what its list says."""

    folder: Path
    golden: Golden


def ref_of(data: Mapping[str, Any]) -> Ref:
    """The golden that a mapping of a manifest names.

    Raises:
        GoldenError: for a name that cannot be a folder.
    """
    check_name(data["name"])
    return Ref(data["name"], int(data["version"]), data["digest"])


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a golden: it is a folder, and part of a URL.

    Raises:
        GoldenError: saying what can.
    """
    if not _NAME.fullmatch(name):
        raise GoldenError(
            f"{name!r:.120} is no name of a golden",
            hint="use small letters, digits, dots, hyphens and underscores, at most 100, such as qwen-image-t2i",
        )


def goldens_folder(project: Project) -> Path:
    """Where the project keeps promoted goldens, absolute; it may not exist."""
    return project.root / project.goldens


def versions(folder: Path) -> tuple[int, ...]:
    """The versions below the folder of one golden, ascending.

    Raises:
        GoldenError: when it cannot be read.
    """
    return tuple(sorted(int(found[1]) for path in entries(folder) if (found := _VERSION.fullmatch(path.name))))


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, sorted; nothing when there is no such folder.

    Raises:
        GoldenError: when it cannot be read.
    """
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise GoldenError(f"{folder} cannot be read: {error.strerror or error}", hint="make it readable") from error


def local(project: Project, ref: Ref) -> Path | None:
    """The folder of a golden in the project, unverified; None when it is not there.

    Raises:
        GoldenError: when it cannot be looked for, or a link stands on the way: what a link leads to can change.
    """
    path = goldens_folder(project)
    for part in (None, *ref.path.split("/")):
        path = path / part if part else path
        try:
            linked = path.is_symlink()
        except OSError as error:
            text = f"golden {ref}: {_shown(project, path)} cannot be read: {error.strerror or error}"
            raise GoldenError(text, hint="make the folder of goldens readable") from error
        if linked:
            raise GoldenError(f"golden {ref}: {_shown(project, path)} is a symbolic link", hint="keep goldens as files")
    return path if os.path.lexists(path) else None


def read_golden(folder: Path, *, ref: Ref | None = None) -> Golden:
    """The golden in a folder, when every file in it is what its list says, and nothing else is there.

    Args:
        folder: holds ``golden.json``; untrusted.
        ref: what a manifest says it is.

    Raises:
        GoldenError: one error that lists everything wrong.
    """
    what = f"golden {ref}" if ref else f"the golden in {folder.name}"
    data = read_list(folder, what=what)
    if ref is not None and (found := sha256_bytes(data)) != ref.digest:
        raise GoldenError(
            f"{what}: its {GOLDEN_NAME} has the digest {found}, the manifest says {ref.digest}",
            hint="restore it from git; when another version is meant, name that version and its digest",
        )
    golden = parse_golden(data, source=f"{what}: {GOLDEN_NAME}")
    problems = frozen_problems(folder, golden.files, beside=(GOLDEN_NAME,))
    if not golden.files:
        problems.append("it lists no files")
    if ref is not None and (golden.name, golden.version) != (ref.name, ref.version):
        problems.append(f"{GOLDEN_NAME} says it is {golden.name} {version_name(golden.version)}")
    if problems:
        raise GoldenError(
            f"{what} is not what was frozen: {'; '.join(problems)}",
            hint="restore it from git, or from where it was published; a changed golden is a new version",
        )
    return golden


def read_list(folder: Path, *, what: str) -> bytes:
    """The bytes of ``golden.json`` in a folder.

    Raises:
        GoldenError: when it is missing, a link, or longer than such a list is.
    """
    try:
        with open_contained(folder, GOLDEN_NAME) as stream:
            data = stream.read(MAX_GOLDEN_BYTES + 1)
    except MediaError as error:
        raise GoldenError(f"{what}: {error.message}", hint="restore it from git") from error
    if len(data) > MAX_GOLDEN_BYTES:
        raise GoldenError(f"{what}: {GOLDEN_NAME} has more than {MAX_GOLDEN_BYTES >> 20} MiB")
    return data


def version_name(version: int | None) -> str:
    """``v<version>``, or ``draft``."""
    return "draft" if version is None else f"v{version}"


def _shown(project: Project, path: Path) -> str:
    return path.relative_to(project.root).as_posix()
