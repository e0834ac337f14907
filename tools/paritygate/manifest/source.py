"""Files a person wrote -> text: regular, small, UTF-8, and inside the project."""

from __future__ import annotations

import stat
from pathlib import Path

from paritygate.errors import ManifestError, Problem

#: A hand-written file is a few kilobytes; more is a mistake, and costs everybody time.
MAX_BYTES = 1 << 20


def read_source(path: Path, *, display: str, root: Path) -> bytes:
    """The bytes of a hand-written file: a regular file of at most 1 MiB within ``root``.

    Raises:
        ManifestError: with one problem.
    """

    def refuse(message: str, hint: str) -> ManifestError:
        return ManifestError([Problem(display, 1, 1, "file", message, hint)])

    try:
        if path.is_symlink() and not path.exists():
            raise refuse("the link leads nowhere", "point it at a file of the project, or remove it")
        if not path.resolve().is_relative_to(root.resolve()):
            raise refuse("the link leads out of the project", "copy the file into the project")
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise refuse("expected a file, found a folder", "rename the folder: this name is for files")
        if not stat.S_ISREG(status.st_mode):
            raise refuse("expected a regular file, found a device, pipe or socket", "remove it")
        if status.st_size > MAX_BYTES:
            raise refuse(
                f"the file has {status.st_size} bytes; at most {MAX_BYTES} are read",
                "keep lists such as prompts in a file of their own",
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise refuse("there is no such file", "check the path") from None
    except OSError as error:
        raise refuse(f"the file cannot be read: {error.strerror}", "check its permissions") from None


def decode(source: bytes, *, display: str) -> str:
    """UTF-8 text, a byte order mark dropped.

    Raises:
        ManifestError: with one problem, at the first byte that is no text.
    """
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _byte_place(source, error.start)
        what = "is binary" if b"\0" in source[:4096] else "is not UTF-8"
        message = f"the file {what}: byte 0x{source[error.start]:02x} at offset {error.start}"
        raise ManifestError([Problem(display, line, column, "file", message, "save it as UTF-8 text")]) from None
    if "\0" in text:
        line, column = _byte_place(source, source.index(b"\0"))
        problem = Problem(display, line, column, "file", "the file is binary: it holds a NUL byte", "save it as text")
        raise ManifestError([problem])
    return text


def _byte_place(source: bytes, offset: int) -> tuple[int, int]:
    return source.count(b"\n", 0, offset) + 1, offset - (source.rfind(b"\n", 0, offset) + 1) + 1
