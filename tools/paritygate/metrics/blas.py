"""Matrix products on one thread. With more, a busy neighbour makes them up to fifty times slower."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_holders = 0
_before: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold the BLAS libraries to one thread, until the last of the callers at this moment is done.

    The number is one per process, so callers in several threads share it: who came first must not set it back while
    others still compute.
    """
    global _holders, _before  # noqa: PLW0603 - the setting is global too
    with _lock:
        _holders += 1
        if _holders == 1:
            _before = _controller().limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _before.restore_original_limits()


@functools.cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")
