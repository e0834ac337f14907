"""Files of a run: written whole or not at all, read back typed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec

from paritygate.errors import ArtifactError
from paritygate.records.codec import dumps, loads
from paritygate.records.model import RECORD_SCHEMA_VERSION, RunRecord

RECORD_NAME = "record.json"


class _Versioned(msgspec.Struct):
    schema_version: int


def write_bytes_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part.

    Args:
        path: the file.
        data: its whole content.
        durable: wait until the content and its name would survive a power cut; surviving the process needs no
            waiting.

    Raises:
        ArtifactError: when the folder is read-only, full or missing; the old file is then untouched.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            # mkstemp makes files private; artifacts are read by CI agents under other users.
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        if durable:
            _sync_folder(path.parent)
    except OSError as error:
        raise ArtifactError(
            f"cannot write {path}: {error.strerror or error}", hint="free space, or choose a folder with --artifacts"
        ) from error


def write_text_atomic(path: Path, text: str, *, durable: bool = True) -> None:
    """``write_bytes_atomic`` for text as UTF-8; lone surrogates, which it does not know, become backslash escapes."""
    write_bytes_atomic(path, text.encode("utf-8", "backslashreplace"), durable=durable)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable: the new name is in the folder, not in the file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_record(run_dir: Path, record: RunRecord) -> Path:
    """Write ``record.json`` into the run directory and return its path.

    Raises:
        ArtifactError: when it cannot be written.
    """
    path = run_dir / RECORD_NAME
    write_text_atomic(path, dumps(record))
    return path


def read_record(path: Path) -> RunRecord:
    """The record in a file: ``RECORD_NAME`` in a run directory, or committed evidence under any name.

    Raises:
        ArtifactError: when there is none, when it is not valid, or when a later version of this program wrote it.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error.strerror or error}", hint="the run did not finish, or this is no run directory"
        ) from error
    return parse_record(text, source=str(path))


def parse_record(text: bytes, *, source: str) -> RunRecord:
    """The record that a file holds; ``source`` names the file in messages.

    Raises:
        ArtifactError: when it is not valid, or when a later version of this program wrote it.
    """
    version = loads(text, _Versioned, source=source).schema_version
    if version > RECORD_SCHEMA_VERSION:
        raise ArtifactError(
            f"{source}: schema_version is {version}; this version reads up to {RECORD_SCHEMA_VERSION}",
            hint="upgrade with: pip install --upgrade paritygate",
        )
    return loads(text, RunRecord, source=source)
