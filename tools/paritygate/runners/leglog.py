"""The log of a leg: what its processes print, through a pipe into a file, and never a byte more than allowed.

A leg that wrote the file itself could fill the disk between two looks at its size. At the end of a full pipe it waits,
until it is ended.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import stat
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from paritygate.errors import ArtifactError

_PAUSE_S = 0.1
_CHUNK_BYTES = 1 << 20
_SETTLING_S = 2.0
#: How a system or a file system says that it moves nothing from a pipe into a file by itself.
_NO_SPLICE = (errno.EINVAL, errno.ENOSYS, errno.EPERM)


class LegLog:
    """``target`` is what a child process gets as standard output; ``flooded`` says that it printed too much."""

    def __init__(self, file: BinaryIO, *, limit: int) -> None:
        self._source, self.target = os.pipe()
        self.flooded = False
        self.error: OSError | None = None
        self._file = file
        self._left = limit
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._pump, name="leg log", daemon=True)
        self._thread.start()

    def handed_over(self) -> None:
        """The child has its copy of ``target``: the pipe ends when the last process that can print is gone."""
        if self.target >= 0:
            os.close(self.target)
            self.target = -1

    def finish(self) -> None:
        """Take what is in the pipe, and no more, even when somebody still holds its other end."""
        self.handed_over()
        self._ending.set()
        self._thread.join()
        os.close(self._source)

    def _pump(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        while True:
            found = poll.poll(_PAUSE_S * 1000)
            if not found and self._ending.is_set():
                return
            if not found:
                continue
            if not self._left:
                # At the limit: one byte more is too much, the end is not.
                self.flooded = bool(found[0][1] & select.POLLIN)
                return
            if not self._take():
                return

    def _take(self) -> bool:
        """Move some of what is in the pipe; whether there may be more."""
        count = min(self._left, _CHUNK_BYTES)
        try:
            moved = len(os.read(self._source, count)) if self.error else _move(self._source, self._file, count)
        except OSError as error:
            # A full disk: the leg must not wait for that, and whoever started it is told.
            self.error = error
            return True
        self._left -= moved
        return moved > 0


@contextlib.contextmanager
def leg_log(path: Path, *, limit: int) -> Iterator[LegLog]:
    """A file that receives what the processes of a leg print, up to ``limit`` bytes.

    Raises:
        ArtifactError: when the file cannot be opened, or could not be written.
    """
    hint = "free space, or choose a folder with --artifacts"
    try:
        file = path.open("wb", buffering=0)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}", hint=hint) from error
    with file:
        log = LegLog(file, limit=limit)
        try:
            yield log
        finally:
            log.finish()
    if log.error is not None:
        raise ArtifactError(f"cannot write {path}: {log.error.strerror}", hint=hint) from log.error


def settle() -> None:
    """Wait, within a leg, until what it and its children have printed so far stands in its log."""
    with contextlib.suppress(OSError):
        if not stat.S_ISFIFO(os.fstat(1).st_mode):
            return
        end = time.monotonic() + _SETTLING_S
        while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))) and time.monotonic() < end:
            time.sleep(0.001)


def _move(source: int, file: BinaryIO, count: int) -> int:
    """Move at most ``count`` bytes from a pipe into a file; 0 at the end of the pipe."""
    try:
        # Unlike reading and writing, this leaves no moment at which bytes are in neither.
        return os.splice(source, file.fileno(), count)
    except AttributeError:
        pass  # not Linux
    except OSError as error:
        if error.errno not in _NO_SPLICE:
            raise
    data = os.read(source, count)
    left = memoryview(data)
    while left:
        left = left[os.write(file.fileno(), left) :]
    return len(data)
