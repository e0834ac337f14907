"""The pixels of one output file, verified: digest, size, mode, finite, in range, and not degenerate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paritygate.compare.place import Refused
from paritygate.manifest.case import Output
from paritygate.media.images import decode_image
from paritygate.media.levels import to_stored
from paritygate.media.npy import decode_float
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.model import OutputFile

#: A channel whose standard deviation stays below one 8-bit level is flat.
FLAT_STD_LEVELS = 1.0
#: A channel is also flat when all but this share of its pixels lie within one level of its median.
FLAT_OUTLIER_SHARE = 1e-3
# No flat channel deviates more: within one level, but for the outliers at full range. Spares most images a median.
_FLAT_STD_LIMIT = math.sqrt(1.0 + FLAT_OUTLIER_SHARE * 255.0**2)
#: Float pixels may differ from the stored byte by rounding or truncation, not by more.
ROUNDING_LEVELS = 1.0 + 1e-3


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """One image ``(height, width, channels)``: ``stored`` uint8, and ``floats`` float32 in [0, 1] where given."""

    stored: NDArray[np.uint8]
    floats: NDArray[np.float32] | None

    def of(self, pixels: str) -> NDArray[np.uint8] | NDArray[np.float32] | None:
        """The ``stored`` or the ``float`` pixels; None where a leg gave no floats."""
        return self.stored if pixels == "stored" else self.floats


def load_pixels(output: Output, file: OutputFile, *, directory: Path) -> Pixels:
    """The verified pixels of one file of a leg.

    Raises:
        MediaError: when a file cannot be read as what it should be.
        Refused: the first other reason why they cannot be compared.
    """
    stored = _stored(output, file, directory)
    floats = _floats(file, directory, stored) if file.float_path else None
    if reason := degenerate(stored):
        raise Refused("degenerate", f"{file.path} is {reason}")
    return Pixels(stored=stored, floats=floats)


def laid_on(pixels: Pixels, colour: str, *, alpha: str) -> Pixels:
    """RGBA pixels as RGB ones in front of a colour, ``#rrggbb``; ``alpha`` is ``straight`` or ``premultiplied``."""
    background = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255.0
    floats = None if pixels.floats is None else _over(pixels.floats.astype(np.float64), background, alpha=alpha)
    stored = to_stored(_over(pixels.stored / 255.0, background, alpha=alpha).astype(np.float32))
    return Pixels(stored=stored, floats=None if floats is None else floats.astype(np.float32))


def _over(rgba: NDArray[np.float64], background: NDArray[np.float64], *, alpha: str) -> NDArray[np.float64]:
    opacity = rgba[..., 3:]
    colour = rgba[..., :3] * opacity if alpha == "straight" else rgba[..., :3]
    return np.clip(colour + (1.0 - opacity) * background, 0.0, 1.0)


def degenerate(pixels: NDArray[np.uint8]) -> str:
    """Why an image carries no picture (all black, one colour, nearly one colour); empty when it does.

    Every channel must be flat: an opaque alpha channel, or an empty blue one, is no fault.
    """
    if not pixels.any():
        return "all black"
    flat = pixels.astype(np.float64).reshape(-1, pixels.shape[-1])
    if not np.ptp(flat, axis=0).any():
        return f"one constant colour ({', '.join(f'{value:g}' for value in flat[0])})"
    deviation = flat.std(axis=0)
    largest = float(np.max(deviation))
    if largest > _FLAT_STD_LIMIT:
        return ""
    outliers = np.mean(np.abs(flat - np.median(flat, axis=0)) > 1.0, axis=0)
    nearly = (deviation < FLAT_STD_LEVELS) | (outliers < FLAT_OUTLIER_SHARE)
    return f"nearly constant (standard deviation {largest:.2g} of 255 levels)" if nearly.all() else ""


def _verified(directory: Path, path: str, sha256: str | None) -> bytes:
    data = read_contained(directory, path)
    if sha256 != (found := sha256_bytes(data)):
        raise Refused("digest", f"{path} is not the file that the leg recorded ({found[:19]}, not {str(sha256)[:19]})")
    return data


def _stored(output: Output, file: OutputFile, directory: Path) -> NDArray[np.uint8]:
    if not file.path.endswith(".png"):
        raise Refused("format", f"{file.path}: stored images are lossless PNG files ending in .png")
    data = _verified(directory, file.path, file.sha256)
    stored = decode_image(data, mode=output.mode, name=file.path)
    height, width = stored.shape[:2]
    wanted = (output.width or width, output.height or height)
    if (width, height) != wanted:
        raise Refused("size", f"{file.path} is {width}x{height}, declared {wanted[0]}x{wanted[1]}; nothing is resized")
    return stored


def _floats(file: OutputFile, directory: Path, stored: NDArray[np.uint8]) -> NDArray[np.float32]:
    path = str(file.float_path)
    floats = decode_float(_verified(directory, path, file.float_sha256), name=path)
    if floats.shape != stored.shape:
        raise Refused("size", f"{path} has shape {floats.shape}, its stored image {stored.shape}")
    # Before rounding: a NaN becomes a plain black byte.
    for reason in _float_faults(floats, stored):
        raise Refused(reason[0], f"{path} {reason[1]}")
    return floats


def _float_faults(floats: NDArray[np.float32], stored: NDArray[np.uint8]) -> Iterator[tuple[str, str]]:
    finite = np.isfinite(floats)
    if not finite.all():
        first = tuple(int(index) for index in np.argwhere(~finite)[0])
        yield "non-finite", f"holds {int((~finite).sum())} NaN or infinite values, the first at (y, x, channel) {first}"
        return
    low, high = float(np.min(floats)), float(np.max(floats))
    if low < 0.0 or high > 1.0:
        yield "range", f"spans [{low:g}, {high:g}], expected [0, 1]"
    worst = float(np.max(np.abs(floats.astype(np.float64) * 255.0 - stored)))
    if worst > ROUNDING_LEVELS:
        yield "float-mismatch", f"is not the stored image before rounding: they differ by {worst:.3g} levels"
