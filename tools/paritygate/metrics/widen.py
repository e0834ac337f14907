"""Values from the raw bits of bfloat16 and float8, which NumPy does not have. Every step is exact."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The dtypes of floating-point tensors -> the NumPy dtype that holds their values or bits.
FLOATS = MappingProxyType(
    {
        "bfloat16": "uint16",
        "float16": "float16",
        "float32": "float32",
        "float64": "float64",
        "float8_e4m3fn": "uint8",
        "float8_e5m2": "uint8",
    }
)


def widened(chunk: NDArray[Any], dtype: str) -> NDArray[np.float32] | NDArray[np.float64]:
    """The values of an array of any shape: float64 as it is, everything else as float32.

    Args:
        chunk: values, or uint16 and uint8 bits for bfloat16 and float8.
        dtype: one of ``FLOATS``.
    """
    if dtype == "float64":
        return chunk.astype(np.float64, copy=False)
    if dtype == "bfloat16":
        return (chunk.astype(np.uint32) << 16).view(np.float32)
    if dtype.startswith("float8"):
        values: NDArray[np.float32] = np.take(_float8_values(dtype), chunk)
        return values
    return chunk.astype(np.float32, copy=False)


@functools.cache
def _float8_values(dtype: str) -> NDArray[np.float32]:
    """The value of each of the 256 bytes, by the OCP specification of 8-bit floats (2023)."""
    codes = np.arange(256, dtype=np.uint16)
    # Read as the upper byte of a half float: all of e5m2, while e4m3fn has one mantissa bit more, an exponent whose
    # bias of 7 is then 8 too small, no infinity, and one NaN for each sign.
    halves = codes << 8 if dtype == "float8_e5m2" else ((codes & 0x80) << 8) | ((codes & 0x7F) << 7)
    values = np.asarray(halves.view(np.float16), np.float32)
    if dtype == "float8_e4m3fn":
        values *= 256
        values[[0x7F, 0xFF]] = np.nan
    return values
