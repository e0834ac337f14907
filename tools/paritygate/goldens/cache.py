"""The verified local copy of goldens that lie elsewhere, by digest: nothing gets its name before it is checked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from paritygate.errors import GoldenError
from paritygate.goldens.fetch import Limits, download
from paritygate.goldens.store import Found, Ref, read_golden
from paritygate.media.frozen import name_problems
from paritygate.records.canonical import sha256_bytes, sha256_file
from paritygate.records.golden import GOLDEN_NAME, MAX_GOLDEN_BYTES, Golden, GoldenFile, parse_golden

#: Another process may be fetching the same golden.
_LOCK_S = 3600.0
_SPARE_BYTES = 64 << 20


def cached(ref: Ref, url: str, *, limits: Limits | None = None) -> Found:
    """The local copy of a golden that is published below ``url``, verified now; fetched when it is not there.

    A copy that was altered is thrown away and fetched again. Without a copy nothing works offline; with one, no
    request is made.

    Args:
        ref: which one; its digest pins every byte.
        url: the base address.
        limits: how long the server may take.

    Raises:
        GoldenError: when what the server gives is not that golden, or the cache cannot be used.
        InfrastructureError: when the server cannot be reached, or is too slow.
    """
    root = _root()
    final = root / ref.digest.removeprefix("sha256:")
    # Before the lock: a cache that only serves may be read-only.
    if (found := _copy(final, ref)) is not None:
        return found
    with _usable(root), _locked(root, final.name):
        if (found := _copy(final, ref)) is not None:
            return found
        _remove(final)
        partial = root / f"{final.name}.partial"
        _fetch(ref, f"{url.rstrip('/')}/{urllib.parse.quote(ref.path)}", partial, limits=limits)
        try:
            golden = read_golden(partial, ref=ref)
        except GoldenError:
            _remove(partial)
            raise
        partial.rename(final)
    return Found(final, golden)


def _copy(final: Path, ref: Ref) -> Found | None:
    """The copy, verified; None when there is none, or it was altered."""
    if not os.path.lexists(final):
        return None
    try:
        return Found(final, read_golden(final, ref=ref))
    except GoldenError:
        return None


def in_cache(ref: Ref) -> bool:
    """Whether there is a copy, verified or not."""
    return os.path.lexists(_base() / ref.digest.removeprefix("sha256:"))


def _fetch(ref: Ref, url: str, partial: Path, *, limits: Limits | None) -> None:
    if partial.is_symlink() or (partial.exists() and not _is_private(partial)):
        _remove(partial)
    partial.mkdir(mode=0o700, exist_ok=True)
    golden = _fetch_list(ref, f"{url}/{GOLDEN_NAME}", partial / GOLDEN_NAME, limits=limits)
    if unusable := name_problems(golden.files, beside=(GOLDEN_NAME,)):
        raise GoldenError(f"golden {ref} lists files that cannot be: {'; '.join(unusable)}")
    lacking = sum(file.size for file in golden.files.values())
    if shutil.disk_usage(partial).free < lacking + _SPARE_BYTES:
        raise GoldenError(
            f"golden {ref} needs {lacking >> 20} MiB in {partial.parent}, which are not free",
            hint="free space, or set XDG_CACHE_HOME to another folder",
        )
    for name, file in golden.files.items():
        (partial / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _fetch_file(f"{url}/{urllib.parse.quote(name)}", partial / name, file, limits=limits)


def _fetch_list(ref: Ref, url: str, target: Path, *, limits: Limits | None) -> Golden:
    """``golden.json``, whose digest the manifest states: the names and sizes in it are then as reviewed."""
    _remove(target)
    download(url, target, size=MAX_GOLDEN_BYTES, exact=False, limits=limits)
    data = target.read_bytes()
    if (found := sha256_bytes(data)) != ref.digest:
        target.unlink()
        raise GoldenError(
            f"golden {ref}: {url} has the digest {found}, the manifest says {ref.digest}",
            hint="what is published is another golden; publish this one again, or name that version and its digest",
        )
    return parse_golden(data, source=f"golden {ref}: {GOLDEN_NAME}")


def _fetch_file(url: str, target: Path, file: GoldenFile, *, limits: Limits | None) -> None:
    was_there = target.exists()
    download(url, target, size=file.size, limits=limits)
    if sha256_file(target) == file.sha256:
        return
    target.unlink()
    if was_there:
        # What an earlier attempt left may have been from another file: once more, from the start.
        _fetch_file(url, target, file, limits=limits)
        return
    raise GoldenError(
        f"{url} is not the file that the golden's list names: its digest differs", hint="publish the golden again"
    )


def _root() -> Path:
    """The cache folder, made where it is missing: ours, and nobody else's.

    Raises:
        GoldenError: when it cannot be made, or others could change what lies in it.
    """
    folder = _base()
    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        private = _is_private(folder)
    except OSError as error:
        raise GoldenError(
            f"cannot make the cache {folder}: {error.strerror or error}",
            hint="set XDG_CACHE_HOME to a folder that is writable",
        ) from error
    if not private:
        raise GoldenError(
            f"others can change the cache {folder}, so it proves nothing", hint=f"remove it, or run: chmod 700 {folder}"
        )
    return folder


def _base() -> Path:
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(stated) if stated.startswith("/") else Path.home() / ".cache") / "paritygate" / "goldens"


@contextlib.contextmanager
def _usable(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GoldenError(
            f"cannot write to the cache {root}: {error.strerror or error}",
            hint="make it writable, free space, or set XDG_CACHE_HOME to another folder",
        ) from error


def _is_private(folder: Path) -> bool:
    state = folder.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


@contextlib.contextmanager
def _locked(root: Path, name: str) -> Iterator[None]:
    """One process at a time fetches a golden; the lock goes with the process that holds it."""
    handle = os.open(root / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        ends_s = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > ends_s:
                    raise GoldenError(
                        f"another process holds {root / name}.lock for an hour", hint="end that process"
                    ) from error
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)
