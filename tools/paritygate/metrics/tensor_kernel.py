"""The compiled form of ``tensor_chunk``: the same row of totals, faster. Needs the kernel; see ``kernel``."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics import kernel
from paritygate.metrics.tensor_chunk import Scratch
from paritygate.metrics.tensor_formats import Array
from paritygate.metrics.tensor_tail import Tail
from paritygate.metrics.tensor_view import Chunk, View

#: The formats that native/tensor.c reads -> its name for them.
_FORMATS = {"bfloat16": 0, "float16": 1, "float32": 2}


def takes(view: View) -> bool:
    """Whether the kernel is there and knows the format."""
    return kernel.library() is not None and view.format.name in _FORMATS and view.reference.dtype.isnative


def fill_row(
    row: NDArray[np.float64], chunk: Chunk, view: View, scratch: Scratch, *, tail: Tail | None, ulps: bool
) -> None:
    """Write the totals of a chunk into its row, and its largest errors into the tail."""
    kept = _function()(
        _FORMATS[view.format.name],
        _address(chunk.reference),
        _address(chunk.candidate),
        chunk.reference.size,
        int(ulps and view.format.has_ulps),
        np.inf if tail is None else tail.threshold,
        _address(scratch.kept),
        _address(row),
    )
    if tail is not None and kept:
        tail.add(scratch.kept[:kept])


def _address(array: Array) -> int:
    return int(array.ctypes.data)


def _function() -> Any:
    library = kernel.library()
    assert library is not None
    function = library.pg_tensor_row
    function.restype = ctypes.c_int64
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int,
        ctypes.c_double,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return function
