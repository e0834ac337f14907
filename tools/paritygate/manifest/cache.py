"""Parsed YAML by the hash of its text, so that an unchanged file is not parsed again.

Only what the strict loader accepted is kept, and schema and rules always run on it: the cache can make a load
faster, never more lenient. A cache that is broken, of another version or not writable is as good as none.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from paritygate import __version__

#: Sources that decide what a text means; a change of one makes the cache another.
_MEANING = ("cache.py", "loader.py", "scalars.py", "source.py")
_DIGEST_BYTES = 32


class ParseCache:
    """The cache file of one project.

    ``get`` and ``put`` work in memory; ``save`` writes when something changed.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / ".paritygate" / "cache"
        self._path = self._folder / "manifests.msgpack"
        self._entries = self._load()
        self._used: dict[bytes, msgspec.Raw] = {}
        self._is_changed = False

    def get(self, source: bytes) -> tuple[bytes, Any]:
        """``(key, data)``; data is None when the text is not known. A manifest is never None."""
        key = hashlib.sha256(source).digest()
        raw = self._entries.get(key)
        if raw is None:
            return key, None
        self._used[key] = raw
        return key, msgspec.msgpack.decode(raw)

    def put(self, key: bytes, data: Any) -> None:
        """Keep the data of a text that parsed without a problem."""
        self._used[key] = msgspec.Raw(msgspec.msgpack.encode(data))
        self._is_changed = True

    def save(self, *, is_complete: bool) -> None:
        """Write the cache. A complete load drops entries that it did not use; another keeps them."""
        entries = self._used if is_complete else self._entries | self._used
        if not self._is_changed and entries.keys() == self._entries.keys():
            return
        payload = msgspec.msgpack.encode(entries)
        temporary = self._folder / f"manifests.{os.getpid()}.tmp"
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore = self._folder.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            temporary.write_bytes(_stamp(payload) + payload)
            temporary.replace(self._path)

    def _load(self) -> dict[bytes, msgspec.Raw]:
        try:
            content = self._path.read_bytes()
        except OSError:
            return {}
        stamp, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if stamp != _stamp(payload):
            return {}
        try:
            return msgspec.msgpack.decode(payload, type=dict[bytes, msgspec.Raw])
        except msgspec.MsgspecError:
            return {}


def _stamp(payload: bytes) -> bytes:
    """A digest over the payload, the package version and the sources that give the data its meaning."""
    digest = hashlib.sha256(f"{__version__} {msgspec.__version__}".encode())
    package = resources.files("paritygate.manifest")
    for name in _MEANING:
        digest.update((package / name).read_bytes())
    digest.update(payload)
    return digest.digest()
