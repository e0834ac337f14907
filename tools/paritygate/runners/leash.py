"""The worker's side of the leash: when the harness is gone, so is everything the worker started."""

from __future__ import annotations

import os
import signal
import threading

from paritygate.runners.process import TOKEN_VARIABLE, end_tree


def hold() -> None:
    """Watch standard input in a thread; at its end, kill this process and its tree.

    Only the harness holds the other end of that pipe, so end-of-file means that it died without a chance to
    clean up. Standard input itself becomes empty, so that nothing in the leg can wait on it or use it up.
    """
    leash = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    threading.Thread(target=_watch, args=(leash,), name="leash", daemon=True).start()


def _watch(leash: int) -> None:
    while os.read(leash, 4096):
        pass
    if token := os.environ.get(TOKEN_VARIABLE):
        end_tree(os.getpgid(0), token, grace_s=0)
    os.kill(os.getpid(), signal.SIGKILL)
