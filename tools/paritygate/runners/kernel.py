"""What Linux does about processes on request; elsewhere nothing happens, and strays are found by other signs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_lock = threading.Lock()
_adopting = 0


def adopt_orphans(*, on: bool = True) -> None:
    """Whether the orphans among this process's descendants become its children, instead of getting lost."""
    _control(_PR_SET_CHILD_SUBREAPER, int(on))


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Adopt orphans for a while; threads may overlap."""
    global _adopting  # noqa: PLW0603 - the setting belongs to the process, as this count does
    with _lock:
        _adopting += 1
        adopt_orphans()
    try:
        yield
    finally:
        with _lock:
            _adopting -= 1
            if not _adopting:
                adopt_orphans(on=False)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, whose id is given, ends; at once when it has."""
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _control(option: int, value: int) -> None:
    # Refused (an old kernel, a sandbox), a leg still runs: what then is missing is one of several nets.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
