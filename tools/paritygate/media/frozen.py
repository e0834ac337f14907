"""Folders that never change: what a list of digests says about them, and everything in which they differ from it."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from paritygate.errors import MediaError
from paritygate.media.paths import open_contained

#: Bounds of a frozen folder: files, characters of a name, folders below each other, bytes of a file.
MAX_FILES = 20_000
MAX_NAME = 400
MAX_DEPTH = 16
MAX_FILE_BYTES = 16 << 30
#: Problems that are told; the rest is counted.
_TOLD = 20
_CHUNK_BYTES = 1 << 20
#: How a file begins that stands for another one, and more bytes than it has.
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024

Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
Size = Annotated[int, msgspec.Meta(ge=0, le=MAX_FILE_BYTES)]


class Frozen(Protocol):
    """What a list says about one file."""

    @property
    def sha256(self) -> str:
        """``sha256:<64 hex>``."""

    @property
    def size(self) -> int:
        """Bytes."""


class FrozenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a frozen folder: its digest and its size in bytes."""

    sha256: Digest
    size: Size


def frozen_problems(folder: Path, files: Mapping[str, Frozen], *, beside: tuple[str, ...]) -> list[str]:
    """Everything in which a folder differs from its list, a sentence each; nothing when it is what was frozen.

    No file is read that is not listed, lies elsewhere or has another size, and none beyond its size.

    Args:
        folder: the frozen folder.
        files: relative POSIX path -> digest and size; untrusted, and so is the folder.
        beside: names that may be there besides.
    """
    if folder.is_symlink() or not folder.is_dir():
        return [f"{folder.name} is not a directory"]
    if named := name_problems(files, beside=beside):
        # A hostile list is not worth reading gigabytes for.
        return named
    return _few([*_stray_problems(folder, {*files, *beside}), *_file_problems(folder, files)])


def name_problems(files: Mapping[str, object], *, beside: tuple[str, ...] = ()) -> list[str]:
    """Why names cannot be those of a frozen folder, before any of them is looked at or made."""
    return _few(list(_name_problems(files, beside)))


def freeze(folder: Path) -> dict[str, FrozenFile]:
    """Digest and size of every file below ``folder``, by relative POSIX path, sorted.

    Raises:
        MediaError: for anything that ``frozen_problems`` would refuse later: links, devices, unusable names.
    """
    names: list[str] = []
    for name, problem in _walk(folder):
        if problem:
            raise MediaError(problem, kind="path")
        names.append(name)
        if len(names) > MAX_FILES:
            raise MediaError(f"{folder.name} has more than {MAX_FILES} files", kind="size")
    if problems := name_problems(dict.fromkeys(names)):
        raise MediaError("; ".join(problems), kind="path")
    frozen = {}
    for name in sorted(names):
        with open_contained(folder, name) as stream:
            size = os.fstat(stream.fileno()).st_size
            frozen[name] = FrozenFile(sha256=_sha256(stream.fileno(), size), size=size)
    return frozen


def _few(problems: list[str]) -> list[str]:
    more = len(problems) - _TOLD
    return problems if more <= 0 else [*problems[:_TOLD], f"and {more} more"]


def _name_problems(files: Mapping[str, object], beside: tuple[str, ...]) -> Iterator[str]:
    if len(files) > MAX_FILES:
        yield f"the list names {len(files)} files, at most {MAX_FILES} are read"
        return
    seen = {_same(name): name for name in beside}
    for name in files:
        if reason := _unusable(name):
            yield f"{name[:MAX_NAME]!r} {reason}"
        elif name in beside:
            yield f"{name!r} is the list itself"
        elif (other := seen.setdefault(_same(name), name)) != name:
            yield f"{name!r} and {other!r} are one name where letter case or Unicode form do not count"


def _unusable(name: str) -> str:
    parts = name.split("/")
    if len(name) > MAX_NAME or len(parts) > MAX_DEPTH:
        return f"is too long or too deep: at most {MAX_NAME} characters and {MAX_DEPTH} parts"
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or ":" in name:
        return "is not a plain relative path"
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in name):
        return "holds a character that does not show"
    return ""


def _same(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _stray_problems(folder: Path, known: set[str]) -> Iterator[str]:
    for count, (name, problem) in enumerate(_walk(folder)):
        if count > MAX_FILES + len(known):
            yield f"more than {count} files; the rest was not looked at"
            return
        if problem:
            yield problem
        elif name not in known:
            yield f"{name} is there and not in the list"


def _walk(folder: Path, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, str]]:
    """Every name below a folder that is not a directory, with what is wrong with it; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield prefix, f"{prefix or folder.name} cannot be listed: {error.strerror or error}"
        return
    for entry in found:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if depth == MAX_DEPTH:
                yield name, f"{name[:MAX_NAME]} is deeper than {MAX_DEPTH} folders"
            else:
                yield from _walk(folder / entry.name, f"{name}/", depth + 1)
        elif entry.is_symlink():
            yield name, f"{name} is a symbolic link"
        elif not entry.is_file(follow_symlinks=False):
            yield name, f"{name} is neither a file nor a folder"
        else:
            yield name, ""


def _file_problems(folder: Path, files: Mapping[str, Frozen]) -> Iterator[str]:
    for name, listed in files.items():
        if problem := _file_problem(folder, name, listed):
            yield problem


def _file_problem(folder: Path, name: str, listed: Frozen) -> str:
    try:
        with open_contained(folder, name) as stream:
            state = os.fstat(stream.fileno())
            if state.st_nlink > 1:
                return f"{name} has more than one name (hard link), so it can change elsewhere"
            if state.st_size != listed.size:
                pointer = state.st_size < _POINTER_BYTES and os.read(stream.fileno(), len(_POINTER)) == _POINTER
                how = "; it is a pointer of Git LFS, so run: git lfs pull" if pointer else ""
                return f"{name} has {state.st_size} bytes, the list says {listed.size}{how}"
            found = _sha256(stream.fileno(), listed.size)
    except MediaError as error:
        return f"{name} is missing" if not os.path.lexists(folder / name) else error.message
    return "" if found == listed.sha256 else f"{name} was altered: its digest is {found}, the list says {listed.sha256}"


def _sha256(handle: int, size: int) -> str:
    """The digest of the first ``size`` bytes; of one more when the file grows meanwhile."""
    digest = hashlib.sha256()
    left = size + 1
    while left and (chunk := os.read(handle, min(left, _CHUNK_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    return f"sha256:{digest.hexdigest()}"
