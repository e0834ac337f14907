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
from paritygate.media.images import MAX_PIXELS, decode_float, encode_png, read_float, read_image, write_png


def pixels(channels=3, *, height=6, width=5):
    rng = np.random.default_rng(3)
    return rng.integers(0, 256, (height, width, channels), dtype=np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claimed(width, height, *, depth=8, colour=2):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    rows = zlib.compress(b"\0" * 64)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def saved(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, **{"format": "PNG", **options})
    return buffer.getvalue()


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4)])
def test_what_was_written_is_read_back_bit_for_bit(tmp_path, mode, channels):
    array = pixels(channels)
    write_png(tmp_path / "a.png", array)
    assert np.array_equal(read_image(tmp_path / "a.png", mode=mode), array)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_equal_pixels_give_equal_bytes():
    array = pixels()
    assert encode_png(array) == encode_png(np.asfortranarray(array))


def test_a_failed_write_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        write_png(tmp_path / "a.png", pixels())
    assert list(tmp_path.iterdir()) == []


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
    "zero-size": (claimed(0, 4), "claims 0x4"),
    "truncated-header": (WHOLE[:20], "truncated or damaged"),
    "truncated-data": (WHOLE[: len(WHOLE) // 2], "truncated or damaged"),
    "too-few-rows": (claimed(64, 64), "truncated or damaged"),
    "flipped-bit": (WHOLE[:60] + bytes([WHOLE[60] ^ 1]) + WHOLE[61:], "truncated or damaged"),
}


@pytest.mark.parametrize("fault", sorted(BAD))
def test_a_bad_image_file_gives_one_clear_error(tmp_path, fault):
    data, message = BAD[fault]
    path = tmp_path / "x.png"
    path.write_bytes(data)
    with pytest.raises(MediaError, match=message) as caught:
        read_image(path, mode="RGB")
    assert caught.value.message.startswith("x.png: ")
    assert "\n" not in caught.value.message


def test_the_name_must_say_png_too(tmp_path):
    path = tmp_path / "x.jpg"
    path.write_bytes(WHOLE)
    with pytest.raises(MediaError, match=r"ending in \.png"):
        read_image(path, mode="RGB")


def test_a_missing_image_is_a_media_error(tmp_path):
    with pytest.raises(MediaError, match="No such file"):
        read_image(tmp_path / "x.png", mode="RGB")
    with pytest.raises(MediaError, match="No such file"):
        read_float(tmp_path / "x.npy")


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


FLOATS = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 4, 3)


@pytest.mark.parametrize("array", [FLOATS, np.asfortranarray(FLOATS)], ids=["C", "Fortran"])
def test_float_pixels_are_read_back_bit_for_bit(tmp_path, array):
    path = tmp_path / "a.npy"
    path.write_bytes(npy(array))
    assert np.array_equal(read_float(path), FLOATS)


def test_not_a_number_is_read_and_left_to_the_comparison():
    array = FLOATS.copy()
    array[0, 0, 0] = np.nan
    assert np.isnan(decode_float(npy(array), name="a.npy")[0, 0, 0])


def huge_header():
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6, 3)})
    return buffer.getvalue() + b"\0" * 64


BAD_FLOATS = {
    "empty": (b"", "not a .npy file"),
    "pickle": (pickle.dumps([1]), "not a .npy file"),
    "object-array": (npy(np.array([{}], dtype=object), allow_pickle=True), "dtype object"),
    "float64": (npy(FLOATS.astype(np.float64)), "dtype float64"),
    "float16": (npy(FLOATS.astype(np.float16)), "dtype float16"),
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
