"""NumPy's ``.npy`` format, read without NumPy's reader: that believes the header first and may run a pickle."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError

#: As many bytes at the start of a file hold any header that is read.
MAX_HEADER_BYTES = 10_012
#: More axes than this are no tensor, and more than NumPy 1 can hold.
MAX_AXES = 32

_NPY = b"\x93NUMPY"
# Version of the format -> bytes of the header's length, and the header's encoding.
_VERSIONS = MappingProxyType({(1, 0): (2, "latin-1"), (2, 0): (4, "latin-1"), (3, 0): (4, "utf-8")})
_MAX_TEXT_BYTES = 10_000


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a ``.npy`` file says of its values, which begin at byte ``start``. Nothing but the types is checked."""

    descr: object
    fortran_order: bool
    shape: tuple[int, ...]
    start: int

    @property
    def order(self) -> Literal["C", "F"]:
        """The order of the values, as ``reshape`` takes it."""
        return "F" if self.fortran_order else "C"


def decode_float(data: bytes, *, name: str, ndim: int | None = 3) -> NDArray[np.float32]:
    """A read-only float32 array from the bytes of a ``.npy`` file; values are not judged here.

    Args:
        data: the file's content.
        name: used in messages.
        ndim: the number of axes, 3 for ``(height, width, channels)``; None takes any from 1.

    Raises:
        MediaError: for pickles, other dtypes and shapes, and headers that promise more or less than the bytes hold.
    """
    header = read_header(data, name=name)
    if header.descr != "<f4":
        raise MediaError(f"{name}: dtype {header.descr!r:.40}, expected little-endian float32", kind="format")
    shape = header.shape
    axes = ndim or "some"
    if not 1 <= len(shape) <= MAX_AXES or len(shape) != (ndim or len(shape)) or min(shape) < 1:
        raise MediaError(f"{name}: shape {shape!s:.80}, expected {axes} axes and at least one value", kind="size")
    if len(data) - header.start != 4 * math.prod(shape):
        raise MediaError(f"{name}: holds {len(data) - header.start} bytes for shape {shape!s:.80}", kind="unreadable")
    flat: NDArray[np.float32] = np.frombuffer(data, dtype=np.dtype("<f4"), offset=header.start)
    return flat.reshape(shape, order=header.order)


def read_header(data: bytes, *, name: str) -> Header:
    """The header of a ``.npy`` file: plain literals, never evaluated.

    Args:
        data: the file's content, or its first ``MAX_HEADER_BYTES``.
        name: used in messages.

    Raises:
        MediaError: when it is no such file.
    """
    try:
        if not data.startswith(_NPY):
            raise ValueError("no magic bytes")
        size, encoding = _VERSIONS[data[6], data[7]]
        start = 8 + size
        end = start + int.from_bytes(data[8:start], "little")
        if end - start > _MAX_TEXT_BYTES or end > len(data):
            raise ValueError("its header is cut off or too long")
        header = ast.literal_eval(data[start:end].decode(encoding).strip())
        sound = isinstance(header, dict) and header.keys() == {"descr", "fortran_order", "shape"}
        if not sound or not isinstance(header["fortran_order"], bool) or not isinstance(header["shape"], tuple):
            raise ValueError("its header is no description of an array")
        if any(type(length) is not int for length in header["shape"]):
            raise ValueError("its shape is not made of integers")
    except (IndexError, KeyError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError) as error:
        text = f"version {data[6]}.{data[7]}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise MediaError(f"{name}: not a .npy file ({text:.80})", kind="unreadable") from error
    return Header(start=end, **header)
