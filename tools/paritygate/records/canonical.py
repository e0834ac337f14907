"""Canonical JSON and SHA-256 digests, spelled ``sha256:<64 hex>``; the base of every fingerprint."""

from __future__ import annotations

import errno
import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 20
_EXACT_INTEGERS = 2**53


def canonical_json(data: Any) -> bytes:
    """One byte string per value: sorted keys, no blanks, UTF-8, ``3.0`` written as ``3``.

    Raises:
        TypeError: for a key that is not text, or a value that JSON does not know.
        ValueError: for infinity or NaN.
    """
    text = json.dumps(_plain(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_bytes(data: bytes) -> str:
    """``sha256:<64 hex>`` of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def sha256_file(path: Path) -> str:
    """``sha256:<64 hex>`` of a file's content, read in pieces.

    Raises:
        OSError: when the file cannot be read.
    """
    digest = hashlib.sha256()
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep its reader waiting for ever
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"a mapping has the key {wrong[0]!r}; keys are text")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    # YAML writers do not tell 3 from 3.0, and neither does JSON: both are one number.
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_INTEGERS:
        return int(value)
    return value
