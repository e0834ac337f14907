"""Number formats of tensors: which there are, how they widen exactly, and how far apart their bits are.

NumPy has no bfloat16 and no 8-bit floats, so they come as raw bits with the format's name beside them. Every
supported float up to 32 bits widens to float32 without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.errors import MetricError
from paritygate.metrics.widen import widened

Array = npt.NDArray[Any]

#: Formats that NumPy lacks -> the unsigned integers that hold their bits.
RAW_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}

#: Integers up to here are float64 values.
EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class Format:
    """One number format: its ``name``, what it holds, and the ``bits`` of one value."""

    name: str
    kind: Literal["boolean", "float", "integer"]
    bits: int

    @property
    def has_ulps(self) -> bool:
        """Whether distances are counted in units in the last place: floats up to 32 bits."""
        return self.kind == "float" and self.bits <= 32

    @property
    def ulp(self) -> int:
        """One unit in the last place in ``ordered_bits``."""
        return 1 << (32 - self.bits)

    @property
    def may_exceed_float64(self) -> bool:
        """Whether some values are no float64."""
        return self.kind == "integer" and self.bits == 64


def format_of(array: Array, dtype: str | None) -> Format:
    """The declared format of an array, checked against how it is stored.

    Raises:
        MetricError: ``dtype`` is not what the array holds, or nothing is measured on such values.
    """
    stored = array.dtype.newbyteorder("=").name
    name = dtype or stored
    if name in RAW_BITS:
        if stored not in (name, RAW_BITS[name]):
            raise MetricError(f"{name} comes as {RAW_BITS[name]} bits, not as {stored}")
        return Format(name, "float", 8 * array.dtype.itemsize)
    if name != stored:
        raise MetricError(f"the array is {stored}, and was declared as {name}")
    kinds: dict[str, Literal["boolean", "float", "integer"]] = {
        "b": "boolean",
        "f": "float",
        "i": "integer",
        "u": "integer",
    }
    kind = kinds.get(array.dtype.kind)
    if kind is None or array.dtype.itemsize > 8:
        raise MetricError(f"nothing is measured on {name} values")
    return Format(name, kind, 8 * array.dtype.itemsize)


def stored(array: Array, kind: Format) -> Array:
    """The array as its unsigned bits when NumPy lacks the format, else as it is."""
    return array.view(RAW_BITS[kind.name]) if kind.name in RAW_BITS else array


def widen(values: Array, kind: Format) -> Array:
    """Stored values as NumPy computes with them: floats of 32 bits and less as float32, the rest unchanged."""
    if kind.kind == "float":
        return widened(values, kind.name)
    return _native(values)


def ordered_bits(values: Array, wide: Array, kind: Format) -> Array:
    """Sign and magnitude as int32, the format's bits at the top: neighbours of one sign are ``ulp`` apart."""
    if kind.name in ("bfloat16", "float32"):
        return wide.view(np.int32)
    signed = _native(values).view(f"int{kind.bits}").astype(np.int32)
    bits: Array = signed << np.int32(32 - kind.bits)
    return bits


def bit_distance(first: Array, second: Array, out: Array, scratch: Array) -> Array:
    """Distance of two ``ordered_bits`` arrays as uint32 in ``out`` (int32); -0 and +0 are 0 apart."""
    np.bitwise_xor(first, second, out=scratch)
    crossing = np.flatnonzero(scratch < 0) if scratch.min() < 0 else None
    np.subtract(first, second, out=out)
    distance = np.abs(out, out=out).view(np.uint32)
    if crossing is not None:
        magnitude = np.int32(0x7FFFFFFF)
        below, above = first[crossing] & magnitude, second[crossing] & magnitude
        distance[crossing] = below.view(np.uint32) + above.view(np.uint32)
    return distance


def _native(values: Array) -> Array:
    return values.astype(values.dtype.newbyteorder("="), copy=False)
