"""What the user declares where a file leaves it open, and files read under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError, UsageError
from paritygate.media.tensors import read_tensors
from paritygate.media.video_facts import MODE_OF_CHANNELS, check_size
from paritygate.metrics.specs import Kind

#: Axes of a raw array, frames, height, width, channels -> their order as one image or clip is measured.
LAYOUTS = MappingProxyType({"HW": "HW", "HWC": "HWC", "CHW": "HWC", "FHW": "FHW", "FHWC": "FHWC", "FCHW": "FHWC"})
#: dtype of raw pixels -> the range its format has; floats have none, so theirs is declared.
RANGES = MappingProxyType({"uint8": 255.0, "uint16": 65535.0})
_FLOATS = ("float32", "float64")


def nothing(_name: str, _done: int, _total: int) -> None:
    """A watcher of progress that says nothing."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Everything that is asked for beside the two paths.

    ``metrics``: names, None for the default ones. ``dtype``, ``shape``: of raw ``.bin`` files. ``layout`` (a key of
    ``LAYOUTS``) and ``data_range`` (values lie in ``[0, data_range]``): of arrays that are pixels. ``composite``: a
    colour ``#rrggbb`` that pictures with alpha are laid on. ``across``: why sides of different representations may be
    compared. ``watch(name, done, total)`` is told of progress; a total of 0 is unknown.
    """

    kind: Kind | None = None
    metrics: tuple[str, ...] | None = None
    bounded: tuple[str, ...] = ()
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    layout: str | None = None
    data_range: float | None = None
    composite: str | None = None
    across: str | None = None
    threads: int = 1
    watch: Callable[[str, int, int], object] = nothing

    def names(self, defaults: Sequence[str], *, kind: Kind) -> tuple[str, ...]:
        """What is measured on this kind, sorted: the metrics asked for, else the default ones; bounded ones always."""
        from paritygate.metrics.specs import SPECS  # noqa: PLC0415 - a table, needed here only

        wanted = defaults if self.metrics is None else self.metrics
        return tuple(sorted({name for name in (*wanted, *self.bounded) if kind in SPECS[name].kinds}))


@dataclass(frozen=True, kw_only=True)
class RawPixels:
    """An array that is declared to be pixels: ``frames`` is ``(frames, height, width, channels)``."""

    frames: NDArray[Any]
    mode: str
    data_range: float


def read_raw(path: Path, declared: Declared, *, has_frames: bool) -> RawPixels:
    """The pixels of an array file, as layout and range declare them. Nothing is guessed from the values.

    Raises:
        MediaError: when the file cannot be read, or its array does not fit what is declared.
        UsageError: when the declaration is missing or of the other kind.
    """
    expected = [layout for layout in LAYOUTS if layout.startswith("F") == has_frames]
    layout = declared.layout
    if layout not in expected:
        raise UsageError(
            f"{path.name} is an array: its layout is not declared", hint=f"add --layout {' or '.join(expected)}"
        )
    tensors = read_tensors(path, dtype=declared.dtype, shape=declared.shape)
    if len(tensors) != 1:
        raise MediaError(f"{path.name}: holds {len(tensors)} tensors, expected one array of pixels", kind="format")
    (tensor,) = tensors.values()
    array = tensor.array
    if array.ndim != len(layout):
        raise MediaError(f"{path.name}: shape {array.shape}, declared {layout}", kind="size")
    array = array.transpose([layout.index(axis) for axis in LAYOUTS[layout]])
    array = array if "C" in layout else array[..., np.newaxis]
    array = array if has_frames else array[np.newaxis]
    if array.shape[-1] not in MODE_OF_CHANNELS:
        raise MediaError(f"{path.name}: {array.shape[-1]} channels by layout {layout}, expected 1 to 4", kind="mode")
    check_size(array.shape[2], array.shape[1], name=path.name)
    return RawPixels(
        frames=array,
        mode=MODE_OF_CHANNELS[array.shape[-1]],
        data_range=_range(path, tensor.dtype, declared.data_range),
    )


def _range(path: Path, dtype: str, data_range: float | None) -> float:
    if dtype in RANGES:
        if data_range not in (None, RANGES[dtype]):
            raise UsageError(f"{path.name}: {dtype} pixels have the range {RANGES[dtype]:g}, not {data_range:g}")
        return RANGES[dtype]
    if dtype not in _FLOATS:
        known = ", ".join((*RANGES, *_FLOATS))
        raise MediaError(f"{path.name}: dtype {dtype} holds no pixels here, expected {known}", kind="format")
    if data_range is None:
        raise UsageError(f"{path.name}: the range of {dtype} pixels is not declared", hint="add --range 1 for [0, 1]")
    return data_range


def laid_on(pixels: NDArray[Any], mode: str, *, colour: str, data_range: float) -> tuple[NDArray[Any], str]:
    """Straight-alpha pixels in front of a colour ``#rrggbb``, and their mode; pixels without alpha as they are.

    Integers are rounded half to even.

    Raises:
        MediaError: for grey with alpha in front of a colour that is not grey.
    """
    if mode not in ("LA", "RGBA"):
        return pixels, mode
    background = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255.0
    if mode == "LA" and np.ptp(background):
        raise MediaError(f"a grey image cannot be laid on {colour}, which is not grey", kind="mode")
    shares = pixels.astype(np.float64) / data_range
    opacity = shares[..., -1:]
    laid = shares[..., :-1] * opacity + (1.0 - opacity) * background[: shares.shape[-1] - 1]
    scaled = laid * data_range
    kept = np.rint(scaled) if pixels.dtype.kind == "u" else np.clip(scaled, 0.0, data_range)
    return kept.astype(pixels.dtype), mode.removesuffix("A")
