"""Image and float files: read as declared or refused with one reason."""

from __future__ import annotations

import io
import pickle
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from paritygate.errors import MediaError
from paritygate.media.images import MAX_PIXELS, decode_image, encode_png
from paritygate.media.npy import decode_float


def pixels(channels=3, *, height=6, width=5):
    rng = np.random.default_rng(3)
    return rng.integers(0, 256, (height, width, channels), dtype=np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claimed(width, height, *, depth=8, colour=2, then=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    rows = zlib.compress(b"\0" * 64)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + then + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def header(width, height, *, depth=8):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0))


def saved(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, **{"format": "PNG", **options})
    return buffer.getvalue()


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4)])
def test_what_was_written_is_read_back_bit_for_bit(mode, channels):
    array = pixels(channels)
    assert np.array_equal(decode_image(encode_png(array), mode=mode, name="a.png"), array)


def test_equal_pixels_give_equal_bytes():
    array = pixels()
    assert encode_png(array) == encode_png(np.asfortranarray(array))


@pytest.mark.parametrize(
    "array",
    [pixels().astype(np.float32), pixels()[..., :2], pixels()[:0], pixels()[..., 0]],
    ids=["floats", "two-channels", "empty", "no-channel-axis"],
)
def test_only_bytes_of_a_known_layout_become_png(array):
    with pytest.raises(MediaError, match="cannot store"):
        encode_png(array)


def exif_rotated():
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(Image.fromarray(pixels()), exif=exif)


def animated():
    frames = [Image.fromarray(pixels()), Image.fromarray(255 - pixels())]
    return saved(frames[0], save_all=True, append_images=frames[1:])


RGB = Image.fromarray(pixels())
WHOLE = encode_png(pixels(height=64, width=64))
BAD = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello", "no known format"),
    "jpeg": (saved(RGB, format="JPEG"), "its content is JPEG"),
    "gif": (saved(RGB, format="GIF"), "its content is GIF"),
    "bmp": (saved(RGB, format="BMP"), "its content is BMP"),
    "palette": (saved(RGB.convert("P")), "8-bit palette"),
    "rgba": (encode_png(pixels(4)), "8-bit RGBA, the declared mode is 8-bit RGB"),
    "grey": (encode_png(pixels(1)), "8-bit grey"),
    "16-bit": (claimed(4, 4, depth=16), "16-bit RGB"),
    "colour-key": (saved(RGB, transparency=(1, 2, 3)), "transparent colour"),
    "rotated": (exif_rotated(), "EXIF orientation"),
    "animated": (animated(), "2 frames"),
    "bomb": (claimed(50_000, 50_000), f"at most {MAX_PIXELS}"),
    "second-header": (claimed(4, 4, then=header(5, 5)), "two headers"),
    "second-header-16-bit": (claimed(4, 4, then=header(4, 4, depth=16)), "two headers"),
    "second-header-bomb": (claimed(4, 4, then=header(50_000, 50_000)), "truncated or damaged"),
    "text-bomb": (claimed(4, 4, then=chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * (80 << 20)))), "truncated or dam"),
    "zero-size": (claimed(0, 4), "claims 0x4"),
    "truncated-header": (WHOLE[:20], "truncated or damaged"),
    "truncated-data": (WHOLE[: len(WHOLE) // 2], "truncated or damaged"),
    "too-few-rows": (claimed(64, 64), "truncated or damaged"),
    "flipped-bit": (WHOLE[:60] + bytes([WHOLE[60] ^ 1]) + WHOLE[61:], "truncated or damaged"),
}


@pytest.mark.parametrize("fault", sorted(BAD))
def test_a_bad_image_file_gives_one_clear_error(fault):
    data, message = BAD[fault]
    with pytest.raises(MediaError, match=message) as caught:
        decode_image(data, mode="RGB", name="x.png")
    assert caught.value.message.startswith("x.png: ")
    assert "\n" not in caught.value.message


def test_the_name_must_say_png_too():
    with pytest.raises(MediaError, match=r"ending in \.png"):
        decode_image(WHOLE, mode="RGB", name="x.jpg")


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


FLOATS = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 4, 3)


@pytest.mark.parametrize("array", [FLOATS, np.asfortranarray(FLOATS)], ids=["C", "Fortran"])
def test_float_pixels_are_read_back_bit_for_bit(array):
    assert np.array_equal(decode_float(npy(array), name="a.npy"), FLOATS)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(version):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, FLOATS, version=version)
    assert np.array_equal(decode_float(buffer.getvalue(), name="a.npy"), FLOATS)


def test_not_a_number_is_read_and_left_to_the_comparison():
    array = FLOATS.copy()
    array[0, 0, 0] = np.nan
    assert np.isnan(decode_float(npy(array), name="a.npy")[0, 0, 0])


def huge_header():
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6, 3)})
    return buffer.getvalue() + b"\0" * 64


def headed(text, *, version=b"\x01\0", length=None):
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + version + size + text.encode("latin-1")


def described(shape):
    return headed(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}") + b"\0" * 4


BAD_FLOATS = {
    "magic-only": (b"\x93NUMPY", "not a .npy file"),
    "version-9": (headed("{}", version=b"\x09\0"), r"not a .npy file \(version 9.0\)"),
    "version-1.7": (headed("{}", version=b"\x01\x07"), r"version 1.7"),
    "open-bracket": (headed("{'descr': ("), "not a .npy file"),
    "indented": (headed("{\n  1:\n 2"), "not a .npy file"),
    "deep": (headed("(" * 9000), "not a .npy file"),
    "deep-minus": (headed("-" * 9000 + "1"), "not a .npy file"),
    "call": (headed("__import__('os').getcwd()"), "not a .npy file"),
    "no-description": (headed("[1]"), "no description"),
    "order-is-text": (headed("{'descr': '<f4', 'fortran_order': 'no', 'shape': (1,)}"), "no description"),
    "long-header": (headed("{}", version=b"\x02\0", length=2**32 - 1), "cut off or too long"),
    "not-utf-8": (headed("\xff", version=b"\x03\0"), "not a .npy file"),
    "float-shape": (described("(1.0, 1, 1)"), "not made of integers"),
    "bool-shape": (described("(True, 1, 1)"), "not made of integers"),
    "endless-shape": (described(f"({'9' * 4000}, 1, 1)"), "holds 4 bytes"),
    "structured": (
        headed("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1, 1)}"),
        "expected little-e",
    ),
    "empty": (b"", "not a .npy file"),
    "pickle": (pickle.dumps([1]), "not a .npy file"),
    "object-array": (npy(np.array([{}], dtype=object), allow_pickle=True), r"dtype '\|O'"),
    "float64": (npy(FLOATS.astype(np.float64)), "dtype '<f8'"),
    "float16": (npy(FLOATS.astype(np.float16)), "dtype '<f2'"),
    "big-endian": (npy(FLOATS.astype(">f4")), "little-endian"),
    "no-channel-axis": (npy(FLOATS[..., 0]), "expected 3 axes"),
    "no-values": (npy(FLOATS[:0]), "at least one value"),
    "truncated": (npy(FLOATS)[:-4], "holds 92 bytes"),
    "trailing-bytes": (npy(FLOATS) + b"\0", "holds 97 bytes"),
    "huge-claim": (huge_header(), "holds 64 bytes"),
    "negative-shape": (npy(FLOATS).replace(b"(2, 4, 3)", b"(-2,4,-3)"), "at least one value"),
}


@pytest.mark.parametrize("fault", sorted(BAD_FLOATS))
def test_a_bad_float_file_gives_one_clear_error(fault):
    data, message = BAD_FLOATS[fault]
    with pytest.raises(MediaError, match=message):
        decode_float(data, name="a.npy")


def test_more_axes_than_an_array_can_have_are_refused():
    with pytest.raises(MediaError, match="expected some axes"):
        decode_float(described(f"({'1,' * 100})"), name="a.npy", ndim=None)
