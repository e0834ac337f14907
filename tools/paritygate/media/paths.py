"""Reading files whose names come from a leg: the name may be hostile, and so may the tree."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO

from paritygate.errors import MediaError

#: Largest file that is read, by the ending of its name: the images and arrays of ``images.MAX_PIXELS`` and no more.
MAX_BYTES = MappingProxyType({".npy": (1 << 30) + (1 << 16), ".png": 300 << 20})
#: Any other file.
MAX_OTHER_BYTES = 64 << 20


def contained(root: Path, relative: str) -> Path:
    """``root / relative``, when that is a regular file inside ``root`` reached without a symbolic link.

    Args:
        root: a directory that we made.
        relative: a POSIX path as a leg wrote it.

    Raises:
        MediaError: ``kind="path"`` for an absolute path, ``..``, a link, a directory or device; ``unreadable`` when
            nothing is there.
    """
    parts = PurePosixPath(relative).parts
    if not parts or "\\" in relative or "\0" in relative or relative.startswith("/") or ".." in parts:
        raise MediaError(f"{relative!r} is not a plain relative path inside {root.name}/", kind="path")
    path = root
    for part in parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            raise MediaError(f"{relative}: {error.strerror or error}", kind="unreadable") from error
        if stat.S_ISLNK(mode):
            raise MediaError(f"{relative}: {part!r} is a symbolic link; outputs must be plain files", kind="path")
    if not stat.S_ISREG(mode):
        raise MediaError(f"{relative} is not a regular file", kind="path")
    return path


def read_contained(root: Path, relative: str) -> bytes:
    """The whole content of ``contained(root, relative)``.

    Raises:
        MediaError: as ``contained``, ``kind="path"`` for a file that has another name too (it may be the other
            leg's), and ``kind="size"`` above ``MAX_BYTES``, ``MAX_OTHER_BYTES``.
    """
    limit = MAX_BYTES.get(PurePosixPath(relative).suffix, MAX_OTHER_BYTES)
    with open_contained(root, relative) as stream:
        if os.fstat(stream.fileno()).st_nlink > 1:
            raise MediaError(
                f"{relative} has more than one name (hard link); outputs are files of their own", kind="path"
            )
        # A byte more than allowed: the file may be growing.
        data = stream.read(limit + 1) if os.fstat(stream.fileno()).st_size <= limit else None
    if data is None or len(data) > limit:
        raise MediaError(f"{relative} has more than the {limit} bytes allowed", kind="size")
    return data


def read_tail(root: Path, relative: str, *, limit: int) -> bytes:
    """The last ``limit`` bytes of ``contained(root, relative)``, for logs of any size.

    Raises:
        MediaError: as ``contained``.
    """
    with open_contained(root, relative) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit))
        return stream.read(limit)


@contextlib.contextmanager
def open_contained(root: Path, relative: str) -> Iterator[BinaryIO]:
    """``contained(root, relative)``, open for reading.

    Raises:
        MediaError: as ``contained``.
    """
    path = contained(root, relative)
    try:
        # The file may be exchanged for a link or a pipe between the check and the opening.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(path, flags), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise MediaError(f"{relative} is not a regular file", kind="path")
            yield stream
    except OSError as error:
        raise MediaError(f"{relative}: {error.strerror or error}", kind="unreadable") from error


def list_files(root: Path) -> tuple[str, ...]:
    """POSIX paths of everything below ``root`` that is not a directory, sorted; links are listed, not followed."""
    found = []
    for folder, directories, names in os.walk(root, followlinks=False):
        linked = [name for name in directories if (Path(folder) / name).is_symlink()]
        found += [(Path(folder) / name).relative_to(root).as_posix() for name in [*names, *linked]]
    return tuple(sorted(found))
