"""The worker's side of the leash: a guard between harness and worker, under which everything stays.

The guard does nothing but wait, so no code of a leg can keep it from acting, not even by stopping the worker or
holding its interpreter lock. Orphans of the leg become the guard's children, in whatever session and with whatever
environment they run.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import threading
from pathlib import Path

import psutil

from paritygate.runners.kernel import adopt_orphans, die_with_parent
from paritygate.runners.process import TEMPORARY_PREFIX, is_alive

_PAUSE_S = 0.1
#: Held by whichever thread of the guard ends it: the other one then has nothing left to say.
_ending = threading.Lock()


def hold() -> None:
    """Go on as the worker in a child process; this process becomes its guard and ends as the worker ends.

    Only the harness holds the other end of standard input, so end-of-file there means that it died without a chance to
    clean up: the guard then kills whatever is below it. For the worker, standard input becomes empty, so that nothing
    in the leg can wait on it or use it up.
    """
    leash = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    adopt_orphans()
    guard = os.getpid()
    worker = os.fork()
    if worker:
        _end_like(_guard(leash, worker))
    os.close(leash)
    die_with_parent(guard)


def _guard(leash: int, worker: int) -> int:
    """Wait for the worker; its status as ``os.waitpid`` gives it. What it left is for the harness to end."""
    # The harness ends a leg by SIGTERM to all of it, and the worker has a grace period then.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(leash,), name="leash", daemon=True).start()
    pid, status = 0, 1
    # Without children: the other thread has collected the worker, and ends this process when it has cleaned up.
    with contextlib.suppress(ChildProcessError):
        while pid != worker:
            pid, status = os.waitpid(-1, 0)
    _ending.acquire()
    return status


def _watch(leash: int) -> None:
    while os.read(leash, 4096):
        pass
    with _ending:
        own = psutil.Process()
        # In rounds, because a dying process may still start others.
        while below := [process for process in own.children(recursive=True) if is_alive(process)]:
            for process in below:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(below, timeout=_PAUSE_S)
        if Path(folder := os.environ.get("TMPDIR", "")).name.startswith(TEMPORARY_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _end_like(status: int) -> None:
    """End this process as another ended, by the same signal if it was one."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
