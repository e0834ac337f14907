"""Image files as people have them: exact pixels, stated changes of meaning, and one error for whatever is broken."""

from __future__ import annotations

import io
import os
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from paritygate.errors import MediaError
from paritygate.media.image_files import MAX_FILE_BYTES, read_image
from paritygate.media.png16 import decode_png16

RNG = np.random.default_rng(5)
RGB = RNG.integers(0, 256, (9, 13, 3), dtype=np.uint8)
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def filtered(rows, step: int, first: int) -> bytes:
    """Rows as an encoder writes them, row by row, with the five filters in turn."""
    out, above = bytearray(), np.zeros(rows.shape[1], int)
    for index, row in enumerate(rows.astype(int)):
        left, corner = (np.concatenate([np.zeros(step, int), side[:-step]]) for side in (row, above))
        guess = left + above - corner
        near, up, far = abs(guess - left), abs(guess - above), abs(guess - corner)
        paeth = np.where((near <= up) & (near <= far), left, np.where(up <= far, above, corner))
        kind = (first + index) % 5
        out += bytes([kind])
        out += ((row - (0, left, above, (left + above) // 2, paeth)[kind]) % 256).astype(np.uint8).tobytes()
        above = row
    return bytes(out)


def png16(pixels, *, interlaced: bool = False, first: int = 0, more: bytes = b"") -> bytes:
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, interlaced)
    raw = b""
    for left, top, across, down in PASSES if interlaced else ((0, 0, 1, 1),):
        part = pixels[top::down, left::across].astype(">u2")
        if part.size:
            raw += filtered(part.reshape(part.shape[0], -1).copy().view(np.uint8), 2 * channels, first)
    return b"".join(
        [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(raw) + more), chunk(b"IEND", b"")]
    )


def saved(tmp_path, name: str, image: Image.Image, **how):
    path = tmp_path / name
    image.save(path, **how)
    return path


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_16_bit_png_keeps_every_bit(tmp_path, channels, interlaced):
    for first, size in enumerate([(1, 1), (1, 9), (9, 1), (13, 7), (11, 20)]):
        pixels = RNG.integers(0, 65536, (*size, channels), dtype=np.uint16)
        path = tmp_path / "deep.png"
        path.write_bytes(png16(pixels, interlaced=interlaced, first=first))
        found = read_image(path)
        assert np.array_equal(found.pixels, pixels)
        assert (found.data_range, found.mode, found.lossless) == (
            65535.0,
            ["L", "LA", "RGB", "RGBA"][channels - 1],
            True,
        )


def test_an_independent_encoder_of_16_bit_grey_agrees(tmp_path):
    pixels = RNG.integers(0, 65536, (6, 7), dtype=np.uint16)
    path = saved(tmp_path, "grey.png", Image.fromarray(pixels))
    assert np.array_equal(read_image(path).pixels[..., 0], pixels)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("a.png", {}),
        ("a.bmp", {}),
        ("a.ppm", {}),
        ("a.tiff", {}),
        ("a.tif", {"compression": "tiff_lzw"}),
        ("a.webp", {"lossless": True}),
    ],
)
def test_lossless_formats_give_the_pixels_that_were_written(tmp_path, name, how):
    found = read_image(saved(tmp_path, name, Image.fromarray(RGB), **how))
    assert found.lossless
    assert (found.mode, found.data_range) == ("RGB", 255.0)
    assert np.array_equal(found.pixels, RGB)


@pytest.mark.parametrize(("name", "how"), [("a.jpg", {}), ("a.webp", {}), ("a.tif", {"compression": "jpeg"})])
def test_lossy_formats_are_said_to_be_lossy(tmp_path, name, how):
    assert not read_image(saved(tmp_path, name, Image.fromarray(RGB), **how)).lossless


@pytest.mark.parametrize("name", ["deep.pgm", "deep.tif"])
def test_16_bit_grey_of_other_formats_keeps_every_bit(tmp_path, name):
    pixels = RNG.integers(0, 65536, (6, 7), dtype=np.uint16)
    path = tmp_path / name
    if name.endswith("pgm"):
        path.write_bytes(b"P5 7 6 65535\n" + pixels.astype(">u2").tobytes())
    else:
        Image.fromarray(pixels).save(path)
    found = read_image(path)
    assert np.array_equal(found.pixels[..., 0], pixels)
    assert found.data_range == 65535.0


def test_16_bit_ppm_keeps_every_bit_of_its_colours(tmp_path):
    pixels = RNG.integers(0, 65536, (6, 7, 3), dtype=np.uint16)
    path = tmp_path / "deep.ppm"
    path.write_bytes(b"P6\n# a comment\n7 6\n65535\n" + pixels.astype(">u2").tobytes())
    found = read_image(path)
    assert np.array_equal(found.pixels, pixels)
    assert (found.mode, found.data_range) == ("RGB", 65535.0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"P5 3 1 100\n\x00\x32\x64", "end at 100"),
        (b"P5 2 1 1023\n\x00\x01\x03\xff", "end at 1023"),
        (b"P2 2 1 255\n7 255", "binary"),
        (b"P5 2 1 255\n\x00\x01P5 2 1 255\n\x00\x01", "holds"),
    ],
)
def test_pnm_files_that_pillow_would_scale_or_half_read_are_refused(tmp_path, data, reason):
    path = tmp_path / "a.pgm"
    path.write_bytes(data)
    with pytest.raises(MediaError, match=reason):
        read_image(path)


def tiff(pixels, order: str = "<", *, compression: str = "raw", predictor: int = 1, **changed: int) -> bytes:
    """A file of 16-bit colours in two strips; Pillow compresses their bytes as a grey picture."""
    height, width, channels = pixels.shape
    stored = pixels.copy()
    if predictor == 2:
        stored[:, 1:] -= pixels[:, :-1]
    body, strips = b"", []
    for part in (stored[:4], stored[4:]):
        buffer = io.BytesIO()
        rows = part.astype(f"{order}u2").reshape(part.shape[0], -1).view(np.uint8)
        Image.fromarray(rows).save(buffer, format="TIFF", compression=compression)
        with Image.open(buffer) as grey:
            (offset,), (count,) = grey.tag_v2[273], grey.tag_v2[279]
            number = grey.tag_v2[259]
        strips.append((8 + len(body), count))
        body += buffer.getvalue()[offset : offset + count] + b"\0" * (count % 2)
    lists = {273: [place for place, _ in strips], 279: [count for _, count in strips], 258: [16] * channels}
    single = {256: width, 257: height, 259: number, 262: 2, 277: channels, 278: 4, 284: 1, 317: predictor}
    single |= {338: 2} if channels == 4 else {}
    single |= {int(tag.removeprefix("tag")): value for tag, value in changed.items()}
    entries, start = b"", 8 + len(body)
    for tag, values in sorted((lists | {tag: [value] for tag, value in single.items()}).items()):
        place = start
        if len(values) > 1:
            extra = struct.pack(f"{order}{len(values)}I", *values)
            body, start = body + extra, start + len(extra)
        entries += struct.pack(f"{order}HHII", tag, 4, len(values), place if len(values) > 1 else values[0])
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(f"{order}I", start)
    return head + body + struct.pack(f"{order}H", len(entries) // 12) + entries + b"\0\0\0\0"


@pytest.mark.parametrize("predictor", [1, 2])
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize(("order", "channels"), [("<", 3), (">", 3), ("<", 4)])
def test_16_bit_tiff_keeps_every_bit_of_its_colours(tmp_path, order, channels, compression, predictor):
    pixels = RNG.integers(0, 65536, (6, 7, channels), dtype=np.uint16)
    path = tmp_path / "deep.tif"
    path.write_bytes(tiff(pixels, order, compression=compression, predictor=predictor))
    found = read_image(path)
    assert np.array_equal(found.pixels, pixels)
    assert (found.data_range, found.lossless) == (65535.0, True)


@pytest.mark.parametrize("changed", [{"tag284": 2}, {"tag317": 3}, {"tag338": 1}, {"tag338": 0}, {"tag278": 3}])
def test_16_bit_tiff_of_another_layout_is_refused_not_cut_to_8_bits(tmp_path, changed):
    path = tmp_path / "deep.tif"
    path.write_bytes(tiff(np.zeros((6, 7, 4), np.uint16), **changed))
    with pytest.raises(MediaError):
        read_image(path)


def test_the_depth_of_a_tiff_is_not_guessed_from_its_values(tmp_path):
    with pytest.raises(MediaError, match="32 bits"):
        read_image(saved(tmp_path, "a.tif", Image.fromarray(np.full((4, 4), 9, np.int32))))


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_the_transparent_colour_is_alpha_at_every_depth(tmp_path, depth):
    row = {1: b"\x40", 2: b"\x1b", 4: b"\x01\x23", 8: b"\0\1\2\3", 16: b"\0\0\0\1\0\2\0\3"}[depth]
    header = struct.pack(">IIBBBBB", 4, 1, depth, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"tRNS", b"\0\1"), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b"")]
    path = tmp_path / "key.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))
    found = read_image(path)
    top = int(found.data_range)
    step = top // ((1 << depth) - 1)
    assert found.mode == "LA"
    assert found.pixels[0, :, 0].tolist() == [value * step for value in ([0, 1, 0, 0] if depth == 1 else range(4))]
    assert found.pixels[0, :, 1].tolist() == [top, 0, top, top]
    assert any("transparent colour" in note for note in found.notes)


def test_a_palette_is_read_as_its_colours_not_as_indices(tmp_path):
    picture = Image.fromarray(RGB // 128 * 255).quantize(8)
    found = read_image(saved(tmp_path, "p.png", picture))
    assert np.array_equal(found.pixels, RGB // 128 * 255)
    assert "palette" in found.notes[0]
    assert read_image(saved(tmp_path, "t.png", picture, transparency=0)).mode == "RGBA"


def test_transparent_and_opaque_red_differ(tmp_path):
    clear, solid = (
        read_image(saved(tmp_path, f"{alpha}.png", Image.new("RGBA", (4, 4), (255, 0, 0, alpha)))) for alpha in (0, 255)
    )
    assert clear.mode == solid.mode == "RGBA"
    assert not np.array_equal(clear.pixels, solid.pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_and_said(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray(RGB)
    path = saved(tmp_path, "turned.png", picture, exif=exif)
    deep = tmp_path / "deep.png"
    wide = RGB.astype(np.uint16) * 257
    deep.write_bytes(png16(wide)[:-12] + chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")) + chunk(b"IEND", b""))
    shape = (13, 9) if orientation > 4 else (9, 13)
    found, of_16_bit = read_image(path), read_image(deep)
    assert found.pixels.shape[:2] == shape
    assert np.array_equal(of_16_bit.pixels, found.pixels.astype(np.uint16) * 257)
    assert any("upright" in note for note in found.notes) == (orientation > 1)


def test_colour_profiles_and_gamma_are_told_of(tmp_path):
    path = saved(tmp_path, "icc.png", Image.fromarray(RGB), icc_profile=b"profile")
    assert read_image(path).notes == ("a colour profile, not applied",)


@pytest.mark.parametrize("name", ["a.gif", "two.tif", "two.webp", "two.png"])
def test_several_pictures_are_no_image(tmp_path, name):
    frames = [Image.fromarray(RGB), Image.fromarray(255 - RGB)]
    path = saved(tmp_path, name, frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(MediaError):
        read_image(path)


def test_cmyk_has_no_declared_meaning_here(tmp_path):
    with pytest.raises(MediaError, match="CMYK"):
        read_image(saved(tmp_path, "print.jpg", Image.new("CMYK", (4, 4))))


def encoded(name: str) -> bytes:
    if name == "deep":
        return png16(RGB.astype(np.uint16) * 257, interlaced=True)
    buffer = io.BytesIO()
    Image.fromarray(RGB).save(buffer, format=name)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["deep", "PNG", "JPEG", "WEBP", "TIFF", "PPM", "BMP"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, name):
    data, path = encoded(name), tmp_path / "cut"
    for end in sorted({0, 1, 4, 8, 20, *range(24, len(data) - 1, max(1, len(data) // 40))}):
        path.write_bytes(data[:end])
        if name == "TIFF" and end >= 8 + RGB.size:
            continue  # what is cut off there are tags that nothing needs
        with pytest.raises(MediaError):
            read_image(path)


def test_flipped_bytes_of_a_16_bit_png_never_pass(tmp_path):
    data = encoded("deep")
    for place in range(8, len(data), 7):
        broken = bytearray(data)
        broken[place] ^= 0x40
        path = tmp_path / "flipped.png"
        path.write_bytes(bytes(broken))
        with pytest.raises(MediaError):
            read_image(path)


@pytest.mark.parametrize("more", [-1, 1])
def test_rows_of_another_size_than_stated_are_refused(more):
    pixels = np.zeros((4, 4, 3), np.uint16)
    raw = b"\0" * (4 * (1 + 24) + more)
    data = png16(pixels)
    place = data.index(b"IDAT") - 4
    data = data[:place] + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    with pytest.raises(MediaError, match="rows"):
        decode_png16(data, name="a.png")


def test_bombs_are_refused_from_the_header(tmp_path):
    path = tmp_path / "bomb.png"
    for depth in (8, 16):
        header = struct.pack(">IIBBBBB", 60000, 60000, depth, 2, 0, 0, 0)
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
        )
        with pytest.raises(MediaError):
            read_image(path)
    text = PngImagePlugin.PngInfo()
    text.add_text("bomb", "a" * (1 << 20), zip=False)
    assert read_image(saved(tmp_path, "text.png", Image.fromarray(RGB), pnginfo=text)).pixels.shape == RGB.shape


def bytes_of(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, **options)
    return buffer.getvalue()


def many_directories(count):
    tags = {256: 1, 257: 1, 258: 8, 259: 1, 262: 1, 273: 8, 278: 1, 279: 1}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    size = 2 + len(entries) + 4
    following = [*(16 + size * (place + 1) for place in range(count - 1)), 0]
    body = b"".join(struct.pack("<H", len(tags)) + entries + struct.pack("<I", place) for place in following)
    return b"II*\0" + struct.pack("<I", 16) + b"\0" * 8 + body


def many_scans(count):
    data = bytes_of(Image.new("RGB", (64, 64)), format="JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * count + data[-2:]


def many_chunks(count):
    data = bytes_of(Image.fromarray(RGB), format="PNG")
    return data[:33] + chunk(b"teSt", b"") * count + data[33:]


@pytest.mark.parametrize(
    ("make", "reason"), [(many_directories, "several pictures"), (many_scans, "scans"), (many_chunks, "chunks")]
)
def test_files_that_are_small_but_slow_are_refused_at_once(tmp_path, make, reason):
    path = tmp_path / "slow"
    path.write_bytes(make(140_000))
    started = time.process_time()
    with pytest.raises(MediaError, match=reason):
        read_image(path)
    assert time.process_time() - started < 2.0  # decoding or walking them takes a minute, or many


def test_a_fax_in_a_tiff_is_refused_for_its_damage_does_not_show(tmp_path):
    with pytest.raises(MediaError, match="fax"):
        read_image(saved(tmp_path, "fax.tif", Image.new("1", (40, 20)), compression="group4"))


def test_what_is_no_regular_readable_file_is_one_error(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("no image", encoding="utf-8")
    huge = tmp_path / "huge.png"
    with huge.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    for name in ("pipe.png", "empty.png", "text.png", "huge.png", "missing.png", "."):
        with pytest.raises(MediaError):
            read_image(tmp_path / name)
