"""The compiled functions of ``native/image.c``, called with arrays. None: there is no kernel, or no memory for it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paritygate.metrics import kernel
from paritygate.metrics.pixels import Array
from paritygate.metrics.tiles import Floats, cell_count

_TYPES = {"uint8": 0, "uint16": 1, "float32": 2, "float64": 3}
_LUMA = -1
_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_int64
_PAIR = (_POINTER, _POINTER, ctypes.c_int, _SIZE, _SIZE, _SIZE)

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class LevelCounts:
    """How many values, pixels (their largest) and values of the last channel differ by each number of levels.

    ``signed``: candidate - reference added up for each channel. ``cell_sums``: absolute differences in each cell.
    ``last`` is empty where it was not asked for.
    """

    values: Counts
    pixels: Counts
    last: Counts
    signed: Counts
    cell_sums: Floats


def loss_sums(reference: Array, candidate: Array, *, data_range: float, channel: int | None) -> Floats | None:
    """As ``ssim.loss_sums``, of a channel, or of luma for None."""
    library = kernel.library()
    if library is None:
        return None
    function = library.pg_image_loss
    function.argtypes = (*_PAIR, _SIZE, ctypes.c_double, _POINTER)
    x, y = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
    sums: Floats = np.zeros((cell_count(x.shape[0]), cell_count(x.shape[1])))
    plane = _LUMA if channel is None else channel
    failed = function(x.ctypes.data, y.ctypes.data, _TYPES[x.dtype.name], *x.shape, plane, data_range, sums.ctypes.data)
    return None if failed else sums


def level_counts(reference: Array, candidate: Array, *, bins: int, last: bool) -> LevelCounts | None:
    """Count differences of uint8 or uint16 images; ``last``: those of the last channel too."""
    library = kernel.library()
    if library is None:
        return None
    function = library.pg_image_counts
    function.argtypes = (*_PAIR, *(_POINTER,) * 5)
    x, y = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
    found = LevelCounts(
        values=np.zeros(bins, np.int64),
        pixels=np.zeros(bins, np.int64),
        last=np.zeros(bins if last else 0, np.int64),
        signed=np.zeros(x.shape[2], np.int64),
        cell_sums=np.zeros((cell_count(x.shape[0]), cell_count(x.shape[1]))),
    )
    targets = (found.values, found.pixels, found.last, found.signed, found.cell_sums)
    pointers = [array.ctypes.data if array.size else None for array in targets]
    failed = function(x.ctypes.data, y.ctypes.data, _TYPES[x.dtype.name], *x.shape, *pointers)
    return None if failed else found
