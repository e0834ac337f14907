"""Image files of any common format, as a person has them: what changes the pixels' meaning is applied and said.

Unlike the outputs of a case (``images.decode_image``), these may be palettes, of 16 bits, lossy or turned by EXIF.
Depth and range are the file's own; colour profiles and gamma are told of, never applied. What a file is, is read from
its content, not from its name.
"""

from __future__ import annotations

import io
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from paritygate.errors import MediaError
from paritygate.media.images import DECODING_ERRORS, MAX_PIXELS
from paritygate.media.png16 import chunks, decode_png16
from paritygate.media.pnm import decode_pnm
from paritygate.media.tiff import check_tiff, decode_tiff16, has_wide_colours

#: Larger files are not read.
MAX_FILE_BYTES = 1 << 30
#: Bytes of texts, profiles and the like in one PNG.
_MAX_EXTRA_BYTES = 16 << 20
#: Chunks of one PNG: an image of ``MAX_PIXELS`` in pieces of 8 KiB has half as many.
_MAX_CHUNKS = 1 << 17
#: Scans of one JPEG, usually about ten. Each is a pass over all pixels, at the price of a few bytes.
_MAX_SCANS = 200

_ORIENTATION = 0x0112
# Formats as Pillow names them -> whether they can lose something.
_LOSSY = {"BMP": False, "JPEG": True, "PNG": False, "PPM": False, "TIFF": False, "WEBP": False}
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# Pillow's modes that hold 16-bit grey.
_GREY16 = ("I;16", "I;16B", "I;16L", "I;16N")
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"
# Compressions of TIFF that lose something.
_LOSSY_TIFF = ("jpeg", "tiff_jpeg", "webp")


@dataclass(frozen=True, kw_only=True)
class ImageFile:
    """One image.

    ``pixels``: ``(height, width, channels)`` uint8 or uint16, upright; ``mode``: L, LA, RGB or RGBA with straight
    alpha; ``data_range``: 255 or 65535. ``lossless``: whether the format kept every pixel that was written.
    """

    pixels: NDArray[np.uint8] | NDArray[np.uint16]
    mode: str
    data_range: float
    format: str
    lossless: bool
    notes: tuple[str, ...] = ()


def read_image(path: Path) -> ImageFile:
    """The picture in a PNG, JPEG, WebP, TIFF, PPM, PGM or BMP file.

    Raises:
        MediaError: one clear reason, whatever is wrong with the file; several pictures in one file are refused.
    """
    name = path.name
    data = _content(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of damage and bombs, and goes on
            _check_cost(data, name=name)
            with Image.open(io.BytesIO(data), formats=list(_LOSSY)) as image:
                return _read(image, data, name=name)
    except MediaError:
        raise
    except UnidentifiedImageError as error:
        message = f"{name}: no image of a known format; read are {', '.join(_LOSSY)}"
        raise MediaError(message, kind="format" if data else "unreadable") from error
    except (*DECODING_ERRORS, Warning) as error:
        reason = " ".join(str(error).split())
        raise MediaError(f"{name}: truncated or damaged image ({reason:.120})", kind="unreadable") from error


def _content(path: Path) -> bytes:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise MediaError(f"{path.name} is not a regular file", kind="path")
        if facts.st_size > MAX_FILE_BYTES:
            raise MediaError(f"{path.name} has {facts.st_size} bytes, at most {MAX_FILE_BYTES} are read", kind="size")
        return path.read_bytes()
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error


def _read(image: Any, data: bytes, *, name: str) -> ImageFile:
    width, height = image.size
    if not 0 < width * height <= MAX_PIXELS:
        raise MediaError(f"{name}: claims {width}x{height} pixels, at most {MAX_PIXELS} are read", kind="size")
    if getattr(image, "is_animated", False):  # counting the pictures of a TIFF would take minutes
        message = f"{name}: holds several pictures, expected one; an animation is compared as a video"
        raise MediaError(message, kind="format")
    kind = str(image.format)
    compression = str(image.info.get("compression"))
    notes = list(_colour_notes(image))
    turn = image.getexif().get(_ORIENTATION, 1)
    exact = _exact(image, data, notes, name=name)
    if exact is None:
        image.load()
        pixels = _pixels(ImageOps.exif_transpose(image) if turn in range(2, 9) else image, notes, name=name)
    else:
        pixels = _turned(exact, turn)
    if turn in range(2, 9):
        notes.append(f"turned upright (EXIF orientation {turn})")
    return ImageFile(
        pixels=np.ascontiguousarray(pixels),
        mode=_MODES[pixels.shape[2]],
        data_range=65535.0 if pixels.dtype == np.uint16 else 255.0,
        format=kind,
        lossless=not (_LOSSY[kind] or compression in _LOSSY_TIFF or _is_lossy_webp(data)),
        notes=tuple(notes),
    )


def _check_cost(data: bytes, *, name: str) -> None:
    """Refuse, before Pillow sees it, a file whose size in pixels does not tell what decoding it costs.

    Pillow also believes checksums of PNG pixels without looking; they are verified here.
    """
    if data.startswith(_JPEG) and (scans := data.count(b"\xff\xda")) > _MAX_SCANS:
        raise MediaError(f"{name}: a JPEG of {scans} scans, at most {_MAX_SCANS} are read", kind="size")
    if not data.startswith(_PNG):
        return
    extra = 0
    for count, (kind, body) in enumerate(chunks(data, name=name), 1):
        extra += 0 if kind == b"IDAT" else len(body)
        if count > _MAX_CHUNKS:
            raise MediaError(f"{name}: has more than the {_MAX_CHUNKS} chunks that are read", kind="size")
    if extra > _MAX_EXTRA_BYTES:
        raise MediaError(f"{name}: {extra} bytes beside its pixels, at most {_MAX_EXTRA_BYTES} are read", kind="size")


def _exact(image: Any, data: bytes, notes: list[str], *, name: str) -> NDArray[Any] | None:
    """The pixels as stored, where Pillow would cut or scale them; None where it does not."""
    if data.startswith(_PNG) and data[24] == 16:
        return _keyed(decode_png16(data, name=name), image.info.get("transparency"), notes)
    if image.format == "PPM" and not data.startswith(b"P4"):
        return decode_pnm(data, width=image.width, height=image.height, name=name)
    if image.format == "TIFF":
        check_tiff(image, name=name)
        return decode_tiff16(image, data, name=name) if has_wide_colours(image) else None
    if image.format == "BMP" and len(data) < int.from_bytes(data[2:6], "little"):
        raise MediaError(f"{name}: truncated BMP", kind="unreadable")
    if data.startswith(_PNG) and image.mode == "L" and "transparency" in image.info:
        # Pillow spreads grey of 2 and 4 bits over 0 to 255, but not the value that stands for transparency.
        image.info["transparency"] *= 255 // ((1 << data[24]) - 1)
    return None


def _keyed(pixels: NDArray[Any], key: Any, notes: list[str]) -> NDArray[Any]:
    """Pixels with alpha 0 where they have the transparent colour."""
    if key is None:
        return pixels
    notes.append("a transparent colour, read as alpha 0")
    is_clear = (pixels == np.asarray(key)).all(axis=2, keepdims=True)
    alpha = np.where(is_clear, 0, np.iinfo(pixels.dtype).max).astype(pixels.dtype)
    return np.concatenate([pixels, alpha], axis=2)


def _pixels(image: Any, notes: list[str], *, name: str) -> NDArray[Any]:
    """The decoded picture as ``(height, width, channels)`` uint8 or uint16."""
    mode = image.mode
    if mode in _GREY16:
        return np.asarray(image).astype(np.uint16)[..., None]
    key = image.info.get("transparency") if mode in ("1", "L", "RGB") else None
    if mode == "1":
        notes.append("1 bit a pixel, read as 0 and 255")
        image = image.convert("L")
    elif mode in ("P", "PA"):
        target = "RGBA" if mode == "PA" or "transparency" in image.info else "RGB"
        notes.append(f"a palette, read as the {target} colours that it stands for")
        image = image.convert(target)
    elif mode not in _MODES.values():
        raise MediaError(f"{name}: its mode is {mode}, expected grey, RGB, alpha or a palette", kind="mode")
    pixels = np.asarray(image)
    return _keyed(pixels.reshape(pixels.shape[0], pixels.shape[1], -1), key, notes)


def _turned(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Pixels as a viewer would show them by EXIF orientation 1 to 8."""
    swapped = np.swapaxes(pixels, 0, 1) if orientation in (5, 6, 7, 8) else pixels
    down, across = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    return swapped[:: -1 if down else 1, :: -1 if across else 1]


def _colour_notes(image: Any) -> Iterator[str]:
    if image.info.get("icc_profile"):
        yield "a colour profile, not applied"
    if image.info.get("gamma"):
        yield f"gamma {image.info['gamma']:.4g}, not applied"


def _is_lossy_webp(data: bytes) -> bool:
    """Whether a WebP file holds a VP8 picture; VP8L is the lossless kind."""
    if data[8:12] != b"WEBP":
        return False
    place = 12
    while place + 8 <= len(data):
        if data[place : place + 4] == b"VP8 ":
            return True
        length = int.from_bytes(data[place + 4 : place + 8], "little")
        place += 8 + length + length % 2
    return False
