"""What Pillow would change in a TIFF file without a word, and the exact pixels of those with 16-bit colours.

Pillow unpacks 16-bit colours to 8 bits. Each strip is shown to it as a grey picture of bytes, so that only its
decompression is used; bytes are put together, and differences of TIFF 6.0 section 14 are summed up, here.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paritygate.errors import MediaError

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 256, 257, 258, 259, 262, 266
_OFFSETS, _SAMPLES, _STRIP_ROWS, _COUNTS, _PLANAR, _PREDICTOR = 273, 277, 278, 279, 284, 317
_EXTRA_SAMPLES, _SAMPLE_FORMAT = 338, 339
_UNPACKED = 1
# None, LZW, Deflate by its two numbers, PackBits.
_COMPRESSIONS = (_UNPACKED, 5, 8, 32946, 32773)
# Of faxes: a damaged row is guessed, not reported.
_FAX = (2, 3, 4)
_PREMULTIPLIED = 1


def check_tiff(image: Any, *, name: str) -> None:
    """Refuse what Pillow would drop, invert, scale or guess.

    Raises:
        MediaError: ``kind="mode"``.
    """
    tags = image.tag_v2
    depths = set(tags.get(_BITS, (1,)))
    refused = {
        f"values of {max(depths)} bits, expected 8 or 16": image.mode == "I" or max(depths) > 16,
        f"{tags.get(_SAMPLES, 1)} values a pixel, of which {len(image.getbands())} have a meaning": (
            tags.get(_SAMPLES, 1) != len(image.getbands())
        ),
        "premultiplied alpha, expected straight": _PREMULTIPLIED in tags.get(_EXTRA_SAMPLES, ()),
        "a fax compression, in which damage does not show": tags.get(_COMPRESSION, _UNPACKED) in _FAX,
        "16-bit grey with 0 as white": image.mode.startswith("I;16") and tags.get(_PHOTOMETRIC) == 0,
    }
    for what, is_so in refused.items():
        if is_so:
            raise MediaError(f"{name}: has {what}", kind="mode")


def has_wide_colours(image: Any) -> bool:
    """Whether an open TIFF file has several values a pixel, of more than 8 bits."""
    return len(image.getbands()) > 1 and max(image.tag_v2.get(_BITS, (1,))) > 8


def decode_tiff16(image: Any, data: bytes, *, name: str) -> NDArray[np.uint16]:
    """``(height, width, 3 | 4)`` of a file with 16-bit colours, as stored; its size was checked.

    Raises:
        MediaError: for tiles, planes, numbers other than unsigned ones, rare compressions, and damage.
    """
    tags = image.tag_v2
    width, height, samples = tags[_WIDTH], tags[_HEIGHT], tags[_SAMPLES]
    compression, predictor = tags.get(_COMPRESSION, _UNPACKED), tags.get(_PREDICTOR, 1)
    is_plain = (
        set(tags[_BITS]) == {16}
        and set(tags.get(_SAMPLE_FORMAT, (1,))) == {1}
        and tags.get(_PLANAR, 1) == tags.get(_FILL_ORDER, 1) == 1
        and compression in _COMPRESSIONS
        and predictor in (1, 2)
        and _OFFSETS in tags
    )
    if not is_plain:
        raise MediaError(
            f"{name}: 16-bit colours stored in a way that is not read (compression {compression}, predictor "
            f"{predictor}); strips of whole pixels are, and so is 16-bit PNG",
            kind="mode",
        )
    step = min(tags.get(_STRIP_ROWS, height), height)
    starts = range(0, height, step)
    if not len(starts) == len(tags[_OFFSETS]) == len(tags[_COUNTS]):
        raise MediaError(f"{name}: damaged TIFF (its strips do not make up its height)", kind="unreadable")
    pixels = np.empty((height, width, samples), np.uint16)
    for start, offset, count in zip(starts, tags[_OFFSETS], tags[_COUNTS], strict=True):
        packed, rows = data[offset : offset + count], min(step, height - start)
        raw = _unpacked(packed, rows=rows, row_bytes=2 * width * samples, compression=compression)
        if len(packed) != count or raw.size != rows * width * samples * 2:
            raise MediaError(f"{name}: truncated or damaged TIFF (rows from {start} on)", kind="unreadable")
        part = raw.view("<u2" if data[:2] == b"II" else ">u2").reshape(rows, width, samples)
        pixels[start : start + rows] = part.cumsum(axis=1, dtype=np.uint16) if predictor == 2 else part
    return pixels


def _unpacked(packed: bytes, *, rows: int, row_bytes: int, compression: int) -> NDArray[np.uint8]:
    if compression == _UNPACKED:
        return np.frombuffer(packed, np.uint8)
    entries = {
        _WIDTH: row_bytes,
        _HEIGHT: rows,
        _BITS: 8,
        _COMPRESSION: compression,
        _PHOTOMETRIC: 1,
        _OFFSETS: 8,
        _SAMPLES: 1,
        _STRIP_ROWS: rows,
        _COUNTS: len(packed),
    }
    body = packed + b"\0" * (len(packed) % 2)
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items())
    head = b"II*\0" + struct.pack("<I", 8 + len(body))
    file = io.BytesIO(head + body + struct.pack("<H", len(entries)) + directory + b"\0\0\0\0")
    with Image.open(file, formats=["TIFF"]) as grey:
        return np.asarray(grey).reshape(-1)
