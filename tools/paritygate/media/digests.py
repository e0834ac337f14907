"""One digest for a directory tree: the revision of a model that ships with a project."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from paritygate.errors import MediaError
from paritygate.media.paths import list_files

_CHUNK_BYTES = 1 << 20


def tree_digest(folder: Path) -> str:
    r"""``sha256:<64 hex>`` over the lines ``<sha256 of file>  <relative path>``, sorted by path.

    Nothing is ignored, so a stray file changes the digest. The shell says the same with
    ``find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum``. Empty directories do
    not count.

    Raises:
        MediaError: ``kind="path"`` for a symbolic link (its target may lie outside the tree), a device, or a name
            with a line break; ``kind="unreadable"`` for a missing, empty or unreadable tree.
    """
    if not folder.is_dir():
        raise MediaError(f"{folder} is not a directory", kind="unreadable")
    names = sorted(list_files(folder), key=lambda name: name.encode("utf-8", "surrogateescape"))
    if not names:
        raise MediaError(f"{folder} holds no files", kind="unreadable")
    total = hashlib.sha256()
    for name in names:
        line = f"{_file_hex(folder, name)}  {name}\n"
        total.update(line.encode("utf-8", "surrogateescape"))
    return f"sha256:{total.hexdigest()}"


def _file_hex(folder: Path, name: str) -> str:
    path = folder / name
    if "\n" in name or "\r" in name or "\\" in name:
        raise MediaError(f"{name!r} holds a line break or backslash; a digest line cannot name it", kind="path")
    digest = hashlib.sha256()
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise MediaError(f"{path} is a link or device; a tree digest covers plain files only", kind="path")
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise MediaError(f"{path}: {error.strerror or error}", kind="unreadable") from error
    return digest.hexdigest()
