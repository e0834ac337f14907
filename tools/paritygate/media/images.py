"""Images and float pixels, file <-> array, with the layout declared by the caller.

Arrays are ``(height, width, channels)``. A file is taken as it is or refused: palette, 16-bit, transparency by
colour key, EXIF rotation and animation each change what the pixels mean when converted silently, and lossy formats
cost more than any gate allows (a JPEG at quality 95 reads 26 dB on tiny-digits).
"""

from __future__ import annotations

import io
import os
import struct
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paritygate.errors import MediaError

#: mode -> (PNG colour type, channels).
MODES = MappingProxyType({"L": (0, 1), "RGB": (2, 3), "RGBA": (6, 4)})
#: Larger images are refused from the header, before anything is decoded.
MAX_PIXELS = 1 << 26

_COLOUR_TYPES = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGBA"}
_PNG = b"\x89PNG\r\n\x1a\n"
# First bytes -> name of what is often found in place of a PNG.
_FORMATS = {
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"RIFF": "WebP or another RIFF file",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"\x93NUMPY": "a numpy array",
}
_ORIENTATION = 0x0112


def read_image(path: Path, *, mode: str) -> NDArray[np.uint8]:
    """The pixels of a PNG file whose name ends in ``.png``: ``(height, width, channels)`` uint8.

    Args:
        path: the file; it must be trusted to lie where it should (see ``paths.contained``).
        mode: the declared mode, a key of ``MODES``.

    Raises:
        MediaError: one clear reason, whatever is wrong with the file.
    """
    if path.suffix != ".png":
        raise MediaError(f"{path.name}: stored images are lossless PNG files ending in .png", kind="format")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error
    return decode_image(data, mode=mode, name=path.name)


def decode_image(data: bytes, *, mode: str, name: str) -> NDArray[np.uint8]:
    """The pixels of PNG bytes, as ``read_image``; ``name`` is used in messages.

    Raises:
        MediaError: one clear reason, whatever is wrong with the bytes.
    """
    colour_type, channels = MODES[mode]
    width, height = _checked_header(data, mode=mode, colour_type=colour_type, name=name)
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            image.load()
            _refuse_meaning_beyond_pixels(image, name=name)
            pixels = np.asarray(image)
    except MediaError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, MemoryError) as error:
        raise MediaError(f"{name}: truncated or damaged PNG ({error})", kind="unreadable") from error
    pixels = pixels.reshape(pixels.shape[0], pixels.shape[1], -1)
    if pixels.dtype != np.uint8 or pixels.shape != (height, width, channels):
        raise MediaError(f"{name}: decodes to {pixels.dtype} {pixels.shape}, expected {mode}", kind="mode")
    return pixels


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """PNG bytes of ``(height, width, 1 | 3 | 4)`` uint8 (grey, RGB, RGBA); equal pixels give equal bytes.

    Raises:
        MediaError: for any other dtype or shape. Floats are not scaled: rounding is the caller's decision.
    """
    modes = {channels: mode for mode, (_, channels) in MODES.items()}
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.size == 0 or pixels.shape[2] not in modes:
        raise MediaError(
            f"cannot store {pixels.dtype} {pixels.shape} as PNG, expected uint8 (height, width, 1, 3 or 4)", kind="mode"
        )
    array = np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format="PNG")
    return buffer.getvalue()


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Store ``encode_png(pixels)`` so that ``path`` is either whole or absent.

    Raises:
        MediaError: as ``encode_png``.
        OSError: when the folder cannot be written.
    """
    data = encode_png(pixels)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_float(path: Path) -> NDArray[np.float32]:
    """Float pixels of a ``.npy`` file: float32 ``(height, width, channels)``. Values are not judged here.

    Raises:
        MediaError: one clear reason, whatever is wrong with the file.
    """
    try:
        return decode_float(path.read_bytes(), name=path.name)
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error


def decode_float(data: bytes, *, name: str, ndim: int | None = 3) -> NDArray[np.float32]:
    """A float32 array from ``.npy`` bytes, as ``read_float``; ``ndim=None`` takes any number of axes from 1.

    Raises:
        MediaError: for pickles, other dtypes and shapes, and headers that promise more than the bytes hold.
    """
    stream = io.BytesIO(data)
    try:
        major, _ = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(stream)
    except (ValueError, EOFError, SyntaxError, TypeError) as error:
        raise MediaError(f"{name}: not a .npy file ({error})", kind="unreadable") from error
    if dtype != np.dtype("<f4"):
        raise MediaError(f"{name}: dtype {dtype}, expected little-endian float32", kind="format")
    if not shape or len(shape) != (ndim or len(shape)) or min(shape) < 1:
        raise MediaError(f"{name}: shape {shape}, expected {ndim or 'some'} axes and at least one value", kind="size")
    count = 1
    for length in shape:
        count *= length
    if len(data) - stream.tell() != 4 * count:
        raise MediaError(f"{name}: holds {len(data) - stream.tell()} bytes for shape {shape}", kind="unreadable")
    array: NDArray[np.float32] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _checked_header(data: bytes, *, mode: str, colour_type: int, name: str) -> tuple[int, int]:
    """Width and height from the first chunk: Pillow would quietly turn 16-bit RGB into 8-bit."""
    if not data.startswith(_PNG):
        found = next((label for magic, label in _FORMATS.items() if data.startswith(magic)), "no known format")
        content = f"its content is {found}" if data else "the file is empty"
        raise MediaError(f"{name}: a lossless PNG is required, {content}", kind="format" if data else "unreadable")
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise MediaError(f"{name}: truncated or damaged PNG (no header)", kind="unreadable")
    width, height, depth, found_type = struct.unpack(">IIBB", data[16:26])
    if found_type != colour_type or depth != 8:
        found = f"{depth}-bit {_COLOUR_TYPES.get(found_type, f'colour type {found_type}')}"
        raise MediaError(f"{name}: is {found}, the declared mode is 8-bit {mode}", kind="mode")
    if not 0 < width * height <= MAX_PIXELS:
        raise MediaError(f"{name}: claims {width}x{height} pixels, at most {MAX_PIXELS} are read", kind="size")
    return width, height


def _refuse_meaning_beyond_pixels(image: Any, *, name: str) -> None:
    if getattr(image, "n_frames", 1) != 1:
        raise MediaError(f"{name}: an animated PNG with {image.n_frames} frames, expected one image", kind="format")
    if "transparency" in image.info:
        raise MediaError(f"{name}: has a transparent colour; alpha must be declared as mode RGBA", kind="mode")
    if image.getexif().get(_ORIENTATION, 1) != 1:
        raise MediaError(f"{name}: asks viewers to rotate it (EXIF orientation); store upright pixels", kind="mode")
