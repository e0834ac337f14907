"""Reading files whose names come from a leg: the name may be hostile, and so may the tree."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from paritygate.errors import MediaError

#: No single output of a leg may be larger; a 16k x 16k float image is 3 GiB, so videos and tensors fit as files.
MAX_FILE_BYTES = 4 << 30


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
        MediaError: as ``contained``, and ``kind="size"`` above ``MAX_FILE_BYTES``.
    """
    path = contained(root, relative)
    try:
        # O_NOFOLLOW: the file may be exchanged for a link between the check and the read.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as stream:
            size = os.fstat(descriptor).st_size
            if size > MAX_FILE_BYTES:
                raise MediaError(f"{relative} has {size} bytes, more than the {MAX_FILE_BYTES} allowed", kind="size")
            return stream.read()
    except OSError as error:
        raise MediaError(f"{relative}: {error.strerror or error}", kind="unreadable") from error


def list_files(root: Path) -> tuple[str, ...]:
    """POSIX paths of everything below ``root`` that is not a directory, sorted; links are listed, not followed."""
    found = []
    for folder, directories, names in os.walk(root, followlinks=False):
        linked = [name for name in directories if (Path(folder) / name).is_symlink()]
        found += [(Path(folder) / name).relative_to(root).as_posix() for name in [*names, *linked]]
    return tuple(sorted(found))
