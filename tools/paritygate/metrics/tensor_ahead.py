"""Reading ahead in mapped files that are not in memory yet, so that the disk works while the processor does.

A pass over a mapping waits for each small piece of it otherwise. For files in memory nothing is done: asking would cost
a twentieth of the compiled pass.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from paritygate.metrics.tensor_formats import Array
from paritygate.metrics.tensor_view import View

#: Bytes of each file that are asked for in advance.
_WINDOW = 16 << 20
#: The wish to read on; Windows does not know it.
_WANTED: int | None = getattr(mmap, "MADV_WILLNEED", None)


def pages_read() -> int:
    """How often this process waited for a page of a file; always 0 where the system does not tell."""
    try:
        import resource  # noqa: PLC0415 - Unix only
    except ModuleNotFoundError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


class Ahead:
    """What one thread has asked for. ``pages_before``: ``pages_read()`` before the first look at the tensors."""

    def __init__(self, view: View, *, pages_before: int) -> None:
        sides = (_mapping(view.reference), _mapping(view.candidate))
        self._mappings = [side for side in sides if side is not None]
        self._itemsize = view.reference.dtype.itemsize
        self._pages_before = pages_before
        self._asked = 0

    def reach(self, start: int) -> None:
        """The thread is at this element and goes up from here."""
        if _WANTED is None or not self._mappings or self._itemsize * start + _WINDOW // 2 < self._asked:
            return
        if pages_read() == self._pages_before:
            return
        first = max(self._asked, self._itemsize * start)
        self._asked = self._itemsize * start + _WINDOW
        for mapped, offset in self._mappings:
            begin = (offset + first) // mmap.PAGESIZE * mmap.PAGESIZE
            end = min(offset + self._asked, len(mapped))
            if begin < end:
                mapped.madvise(_WANTED, begin, end - begin)


def _mapping(array: Array) -> tuple[mmap.mmap, int] | None:
    """The mapping that an array lies in, and where in it; None for an array in memory."""
    owner: Any = array.base
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    if not isinstance(owner, mmap.mmap):
        return None
    return owner, array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
