"""PPM and PGM files: Pillow cuts those of 16 bits with colours to 8 bits without a word, so they are read here."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError

_GAP = rb"(?:\s|#[^\r\n]*[\r\n])+"
_NUMBER = rb"(\d{1,9})"
_HEADER = re.compile(rb"P([56])" + _GAP + _NUMBER + _GAP + _NUMBER + _GAP + _NUMBER + rb"\s")
_MAX_HEADER_BYTES = 1 << 16
_CHANNELS = {b"5": 1, b"6": 3}
# Greatest value -> how values are stored. Others would have to be scaled.
_STORED = {255: (">u1", np.uint8), 65535: (">u2", np.uint16)}


def decode_pnm(data: bytes, *, width: int, height: int, name: str) -> NDArray[Any]:
    """``(height, width, 1 | 3)`` uint8 or uint16 of a binary PGM or PPM file.

    Args:
        data: the file's content.
        width: pixels, already checked against the limit.
        height: likewise.
        name: for messages.

    Raises:
        MediaError: for text variants, whose last number may be cut off unseen, for values that end elsewhere than at
            255 or 65535, and for more or fewer bytes than the header promises.
    """
    header = _HEADER.match(data[:_MAX_HEADER_BYTES])
    if header is None:
        raise MediaError(f"{name}: expected a binary PGM (P5) or PPM (P6) file of one picture", kind="format")
    channels, top = _CHANNELS[header[1]], int(header[4])
    if top not in _STORED:
        raise MediaError(f"{name}: its values end at {top}, expected 255 or 65535", kind="range")
    stored, dtype = _STORED[top]
    wanted, held = height * width * channels * np.dtype(stored).itemsize, len(data) - header.end()
    if (int(header[2]), int(header[3])) != (width, height) or wanted != held:
        raise MediaError(f"{name}: holds {held} bytes of pixels, its header promises {wanted}", kind="unreadable")
    pixels: NDArray[Any] = np.frombuffer(data, stored, offset=header.end())
    return pixels.reshape(height, width, channels).astype(dtype)
