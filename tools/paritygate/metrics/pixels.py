"""What a pair of images must be before anything is measured on it. Not for files or bounds.

Nothing is broadcast, resized, clipped or rounded: arrays that do not fit, values outside the declared range and values
that are not finite raise ``MetricError``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MetricError

Array = NDArray[Any]
Mode = Literal["L", "LA", "RGB", "RGBA"]

#: declared mode -> channels of an image.
CHANNELS: Mapping[str, int] = MappingProxyType({"L": 1, "LA": 2, "RGB": 3, "RGBA": 4})
#: declared mode -> the channels before alpha.
COLOURS: Mapping[str, int] = MappingProxyType({"L": 1, "LA": 1, "RGB": 3, "RGBA": 3})
#: dtype of stored levels -> the only range that they can have.
LEVELS: Mapping[str, int] = MappingProxyType({"uint8": 255, "uint16": 65535})

_DTYPES = ("uint8", "uint16", "float32", "float64")


def check_pair(reference: Array, candidate: Array, *, data_range: float) -> None:
    """Pass when both are ``(height, width, channels)`` of one shape and dtype, finite, within ``[0, data_range]``.

    Raises:
        MetricError: otherwise.
    """
    for side, array in (("reference", reference), ("candidate", candidate)):
        check_array(array, side=side)
    if reference.shape != candidate.shape:
        raise MetricError(f"shapes differ: reference {reference.shape}, candidate {candidate.shape}")
    if reference.dtype != candidate.dtype:
        raise MetricError(f"dtypes differ: reference {reference.dtype.name}, candidate {candidate.dtype.name}")
    for side, array in (("reference", reference), ("candidate", candidate)):
        check_range(array, data_range, side=side)


def check_mode(array: Array, *, mode: str) -> None:
    """Pass when ``mode`` is known and the array has its channels.

    Raises:
        MetricError: otherwise.
    """
    if mode not in CHANNELS:
        raise MetricError(f"the mode is {mode!r}, expected {', '.join(CHANNELS)}")
    if array.shape[2] != CHANNELS[mode]:
        raise MetricError(f"the images have {array.shape[2]} channels; {mode} has {CHANNELS[mode]}")


def check_array(array: object, *, side: str) -> None:
    """Pass when this is a non-empty ``(height, width, channels)`` array of a known dtype.

    Raises:
        MetricError: otherwise.
    """
    if not isinstance(array, np.ndarray):
        raise MetricError(f"the {side} is a {type(array).__name__}, expected a numpy array")
    if array.dtype.name not in _DTYPES or not array.dtype.isnative:
        raise MetricError(f"the {side} has dtype {array.dtype}, expected {', '.join(_DTYPES)}")
    if array.ndim != 3 or array.size == 0:
        raise MetricError(f"the {side} has shape {array.shape}, expected a non-empty (height, width, channels)")


def check_range(array: Array, data_range: float, *, side: str) -> None:
    """Pass when the range fits the dtype, and every value lies in it.

    Raises:
        MetricError: otherwise.
    """
    if not (math.isfinite(data_range) and data_range > 0):
        raise MetricError(f"the data range is {data_range}, expected a positive number")
    stored = LEVELS.get(array.dtype.name)
    if stored is not None:
        if data_range != stored:
            raise MetricError(f"{array.dtype.name} pixels have the data range {stored}, not {data_range}")
        return
    low, high = float(np.min(array)), float(np.max(array))  # both propagate NaN
    if not (math.isfinite(low) and math.isfinite(high)):
        bad = ~np.isfinite(array)
        first = tuple(int(index) for index in np.argwhere(bad)[0])
        raise MetricError(f"the {side} holds {int(bad.sum())} values that are not finite, the first at {first}")
    if low < 0 or high > data_range:
        raise MetricError(f"the {side} spans [{low:g}, {high:g}], outside the declared range [0, {data_range:g}]")
