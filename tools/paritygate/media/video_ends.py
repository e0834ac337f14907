"""Where a container says that its file ends. A demuxer takes a file that ends earlier for a shorter clip."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO


def missing_bytes(stream: BinaryIO, *, container: str) -> int:
    """How many bytes the file lacks of what its own headers state; 0 when nothing is missing or nothing is stated.

    Args:
        stream: the file, at any place; it is left at another one.
        container: a key of ``_ENDS``.
    """
    stream.seek(0)
    size = os.fstat(stream.fileno()).st_size
    return max(0, _ENDS[container](stream, size) - size)


def _mov(stream: BinaryIO, size: int) -> int:
    """Boxes of ``size type``, where a size of 1 is followed by a longer one and 0 means to the end."""
    end = 0
    while end < size:
        stream.seek(end)
        head = stream.read(16)
        length, header = int.from_bytes(head[:4], "big"), 8
        if length == 1:
            length, header = int.from_bytes(head[8:], "big"), 16
        if length == 0 or not head[4:8].isalnum():  # to the end, or something appended that is no box
            return size
        end += max(length, header)
    return end


def _matroska(stream: BinaryIO, _size: int) -> int:
    """A header and one segment; a live recording leaves the size of its segment open."""
    for _ in range(2):
        stream.read(4)  # both identifiers
        length = _variable(stream)
        if length is None:
            return 0
        end = stream.seek(length, os.SEEK_CUR)
    return end


def _variable(stream: BinaryIO) -> int | None:
    """A number whose leading zero bits say how many bytes follow; None for an unknown one."""
    first = stream.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    value = int.from_bytes(first + stream.read(more), "big") - (1 << 7 * (more + 1))
    return None if value == (1 << 7 * (more + 1)) - 1 else value


def _avi(stream: BinaryIO, size: int) -> int:
    """One or more RIFF chunks; a size of 0 was never filled in."""
    end = 0
    while end < size:
        stream.seek(end)
        head = stream.read(8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] != b"RIFF" or length == 0:
            return end
        end += 8 + length
    return end


_ENDS: dict[str, Callable[[BinaryIO, int], int]] = {"avi": _avi, "matroska": _matroska, "mov": _mov}
