"""Parsed YAML by the hash of its text, so that an unchanged file is not parsed again.

Only what the strict loader accepted is kept, and schema and rules always run on it. It lies in the user's own cache
folder, never in the checkout: a change under review must not be able to bring one along that says something else
than its manifests. A cache that is broken, of another version or not private to the user is as good as none.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from paritygate import __version__

#: Sources that decide what a text means; a change of one makes the cache another.
_MEANING = ("cache.py", "loader.py", "scalars.py", "source.py")
_DIGEST_BYTES = 32
_FILE = "manifests.msgpack"


class ParseCache:
    """The cache file of one project.

    ``get`` and ``put`` work in memory; ``save`` writes when something changed.
    """

    def __init__(self, root: Path) -> None:
        self._folder = cache_folder(root)
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
        if self._folder is None:
            return
        payload = msgspec.msgpack.encode(entries)
        temporary = self._folder / f"manifests.{os.getpid()}.tmp"
        with suppress(OSError):
            self._folder.parent.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            if _is_private(self._folder):
                temporary.write_bytes(_stamp(payload) + payload)
                temporary.replace(self._folder / _FILE)

    def _load(self) -> dict[bytes, msgspec.Raw]:
        try:
            if self._folder is None or not _is_private(self._folder):
                return {}
            content = (self._folder / _FILE).read_bytes()
        except OSError:
            return {}
        stamp, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if stamp != _stamp(payload):
            return {}
        try:
            return msgspec.msgpack.decode(payload, type=dict[bytes, msgspec.Raw])
        except msgspec.MsgspecError:
            return {}


def cache_folder(root: Path) -> Path | None:
    """Where the cache of the project at ``root`` lies; None where that would be in the project, or is nowhere."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(stated) if stated.startswith("/") else Path.home() / ".cache"
        base = base.resolve()
    except (OSError, RuntimeError):  # no home, or a loop of links
        return None
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return None if base.is_relative_to(root) else base / "paritygate" / name


def _is_private(folder: Path) -> bool:
    """Whether a folder is ours, and nobody else can write or read in it."""
    state = folder.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _stamp(payload: bytes) -> bytes:
    """A digest over the payload, the package version and the sources that give the data its meaning."""
    digest = hashlib.sha256(f"{__version__} {msgspec.__version__}".encode())
    package = resources.files("paritygate.manifest")
    for name in _MEANING:
        digest.update((package / name).read_bytes())
    digest.update(payload)
    return digest.digest()
