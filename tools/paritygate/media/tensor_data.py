"""What a tensor read from a file is, and the checks that every format of tensor files shares."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError
from paritygate.media.npy import MAX_AXES

Bytes = NDArray[np.uint8]

#: dtype -> the NumPy type that holds it, little-endian. NumPy has no bfloat16 and float8, so these stay raw bits.
DTYPES = MappingProxyType(
    {
        "bfloat16": np.dtype("<u2"),
        "bool": np.dtype("?"),
        "float16": np.dtype("<f2"),
        "float32": np.dtype("<f4"),
        "float64": np.dtype("<f8"),
        "float8_e4m3fn": np.dtype("u1"),
        "float8_e5m2": np.dtype("u1"),
        "int16": np.dtype("<i2"),
        "int32": np.dtype("<i4"),
        "int64": np.dtype("<i8"),
        "int8": np.dtype("i1"),
        "uint16": np.dtype("<u2"),
        "uint32": np.dtype("<u4"),
        "uint64": np.dtype("<u8"),
        "uint8": np.dtype("u1"),
    }
)
#: The dtypes whose arrays hold raw bits.
RAW_BITS = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
#: The name of a tensor in a file that holds one and gives it none.
UNNAMED = "tensor"


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor of a file.

    ``array`` is read-only and, where the format allows, mapped: its bytes are read when they are used. ``dtype`` is a
    key of ``DTYPES``; for one of ``RAW_BITS`` the array holds the bits as uint16 or uint8, otherwise values.
    """

    name: str
    array: NDArray[Any]
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.array.shape


def map_file(path: Path) -> Bytes:
    """All bytes of a file, mapped read-only: ``(bytes,)`` uint8.

    Raises:
        MediaError: when it is missing, unreadable, empty or no regular file (reading a pipe would wait for ever).
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise MediaError(f"{path} is not a regular file", kind="path")
            if status.st_size == 0:
                raise MediaError(f"{path}: the file is empty", kind="unreadable")
            return np.memmap(stream, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise MediaError(f"{path}: {getattr(error, 'strerror', None) or error}", kind="unreadable") from error


def checked_bytes(shape: Sequence[object], *, dtype: str, name: str) -> int:
    """The number of bytes that this many values take.

    Raises:
        MediaError: for lengths that are no positive integers, and for too many axes.
    """
    if len(shape) > MAX_AXES or any(type(length) is not int or length < 1 for length in shape):
        text = f"{name}: shape {list(shape)!s:.80}, expected at most {MAX_AXES} positive integers"
        raise MediaError(text, kind="size")
    return math.prod(shape) * DTYPES[dtype].itemsize  # type: ignore[arg-type]


def placed(
    data: Bytes, *, dtype: str, shape: tuple[int, ...], name: str, order: Literal["C", "F"] = "C"
) -> NDArray[Any]:
    """These bytes as a read-only array, without a copy where the processor can read them in place.

    Raises:
        MediaError: when the bytes are more or fewer than the shape needs.
    """
    needed = checked_bytes(shape, dtype=dtype, name=name)
    if data.size != needed:
        raise MediaError(
            f"{name}: holds {data.size} bytes, {dtype} {shape!s:.80} takes {needed!s:.40}", kind="unreadable"
        )
    array = data.view(DTYPES[dtype])
    if not array.flags.aligned:
        array = array.copy()
    array = array.reshape(shape, order=order)
    array.flags.writeable = False
    return array
