"""Float pixels -> the 8-bit pixels that are stored and looked at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def to_stored(array: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.uint8]:
    """The 8-bit pixels of an image: floats in [0, 1] times 255, rounded half to even.

    NaN becomes 0 and infinity the nearest limit, only so that a picture can be looked at; the float file decides.
    """
    if array.dtype == np.uint8:
        return array  # type: ignore[return-value]
    finite = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(np.clip(finite, 0.0, 1.0) * 255.0).astype(np.uint8)
