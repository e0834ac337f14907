"""PNG files of 16 bits: Pillow cuts those with colours to 8 bits without a word, so their rows are decoded here.

The format is that of the PNG specification (W3C, third edition): one zlib stream of rows, each behind a byte that names
its filter, in seven passes when it is interlaced.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError

#: Colour type -> channels.
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# First column, first row, step across, step down of each pass.
_WHOLE = ((0, 0, 1, 1),)
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_MAX_CHUNK = 1 << 31


def chunks(data: bytes, *, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Type and content of every chunk up to the end of the image, checksums verified.

    Raises:
        MediaError: when the file ends before, or a chunk is damaged.
    """
    place = 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        stated = data[place + 8 + length : place + 12 + length]
        if length >= _MAX_CHUNK or len(stated) < 4:
            break
        if zlib.crc32(body, zlib.crc32(kind)) != int.from_bytes(stated, "big"):
            raise MediaError(f"{name}: damaged PNG (the checksum of {kind!r} does not hold)", kind="unreadable")
        yield kind, body
        if kind == b"IEND":
            return
        place += 12 + length
    raise MediaError(f"{name}: truncated PNG", kind="unreadable")


def decode_png16(data: bytes, *, name: str) -> NDArray[np.uint16]:
    """``(height, width, channels)`` of a PNG of 16 bits, whose header was checked.

    Raises:
        MediaError: when it is damaged or truncated, or holds more or less than its header says.
    """
    parts = list(chunks(data, name=name))
    header = parts[0][1]
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    channels, interlaced = CHANNELS[header[9]], header[12] == 1
    pixels = np.zeros((height, width, channels), np.dtype(">u2"))
    passes = [
        (pixels[top::down, left::across], top, left) for left, top, across, down in (_PASSES if interlaced else _WHOLE)
    ]
    wanted = sum(part.shape[0] * (1 + part.shape[1] * channels * 2) for part, _, _ in passes if part.size)
    raw = _inflated(b"".join(body for kind, body in parts if kind == b"IDAT"), wanted, name=name)
    place = 0
    for part, _, _ in passes:
        if part.size:
            rows, stride = part.shape[0], part.shape[1] * channels * 2
            block = raw[place : place + rows * (1 + stride)].reshape(rows, 1 + stride)
            part[...] = _unfiltered(block, step=2 * channels, name=name).view(">u2").reshape(part.shape)
            place += block.size
    return pixels.astype(np.uint16)


def _inflated(packed: bytes, wanted: int, *, name: str) -> NDArray[np.uint8]:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, wanted + 1)
    except zlib.error as error:
        raise MediaError(f"{name}: damaged PNG ({error})", kind="unreadable") from error
    if len(raw) != wanted:
        raise MediaError(f"{name}: damaged PNG (its rows are not of the size that it states)", kind="unreadable")
    return np.frombuffer(raw, np.uint8)


def _unfiltered(block: NDArray[np.uint8], *, step: int, name: str) -> NDArray[np.uint8]:
    """Rows without their filters; ``step`` is the bytes of a pixel.

    A pixel is predicted from those on its left and above it, so that a whole diagonal can be done at once: pixel
    ``turn - row`` of every row. In the flat array of bordered rows such a diagonal is a slice.
    """
    kinds, rows = block[:, 0], block.shape[0]
    if kinds.max() > 4:
        raise MediaError(f"{name}: damaged PNG (a row has the filter {kinds.max()})", kind="unreadable")
    width = (block.shape[1] - 1) // step
    coded = np.ascontiguousarray(block[:, 1:]).reshape(-1, step)
    done = np.zeros(((rows + 1) * (width + 1), step), np.uint8)
    for turn in range(rows + width - 1):
        first, last = max(0, turn - width + 1), min(rows, turn + 1)
        at = (first + 1) * (width + 1) + turn - first + 1
        count = last - first
        left, above, corner = (
            _diagonal(done, at - back, width, count).astype(np.int16) for back in (1, width + 1, width + 2)
        )
        predicted = _predicted(kinds[first:last, None], left, above, corner)
        # The coded rows have no border, so their diagonals are one shorter.
        values = _diagonal(coded, first * width + turn - first, width - 1, count)
        _diagonal(done, at, width, count)[...] = values + predicted.astype(np.uint8)
    return done.reshape(rows + 1, width + 1, step)[1:, 1:].reshape(rows, -1)


def _diagonal(flat: NDArray[np.uint8], start: int, stride: int, count: int) -> NDArray[np.uint8]:
    if count == 1:
        return flat[start : start + 1]
    return flat[start : start + (count - 1) * stride + 1 : stride]


def _predicted(
    kinds: NDArray[np.uint8], left: NDArray[np.int16], above: NDArray[np.int16], corner: NDArray[np.int16]
) -> NDArray[np.int16]:
    """What each filter expects of a pixel: nothing, left, above, their mean, or the nearest by Paeth."""
    from_left, from_above, from_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    nearest = np.where(
        (from_left <= from_above) & (from_left <= from_corner), left, np.where(from_above <= from_corner, above, corner)
    )
    found: NDArray[np.int16] = np.choose(kinds, [np.zeros_like(left), left, above, (left + above) >> 1, nearest])
    return found
