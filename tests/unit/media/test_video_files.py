"""Clips without a video codec: GIF, APNG, animated WebP, folders of frames, raw arrays."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from paritygate.errors import MediaError
from paritygate.media.images import encode_png
from paritygate.media.video import open_video


def pattern(count=5, *, size=(24, 32), channels=3):
    down, across = np.mgrid[: size[0], : size[1]]
    planes = [across * 7, down * 9, across + down, np.full_like(down, 100)][:channels]
    return [np.stack([(plane + 11 * index) % 256 for plane in planes], -1).astype(np.uint8) for index in range(count)]


def read(path):
    with open_video(path) as clip:
        frames = list(clip)
    return clip.facts, frames


def refusal(path):
    with pytest.raises(MediaError) as caught, open_video(path) as clip:
        for _ in clip:
            pass
    assert path.name in caught.value.message
    return caught.value


def equal(found, frames):
    return all((mine == theirs).all() for mine, theirs in zip(found, frames, strict=True))


def animate(path, frames, **options):
    pictures = [Image.fromarray(frame) for frame in frames]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], **{"duration": 125, **options})
    return path


@pytest.mark.parametrize(("name", "codec", "options"), [("a.png", "apng", {}), ("a.webp", "webp", {"lossless": True})])
@pytest.mark.parametrize("channels", [3, 4])
def test_animations_are_read_to_the_bit_with_their_rate(tmp_path, name, codec, options, channels):
    frames = pattern(channels=channels)
    facts, found = read(animate(tmp_path / name, frames, **options))
    assert equal(found, frames)
    assert (facts.codec, facts.fps, facts.mode) == (codec, 8.0, "RGB" if channels == 3 else "RGBA")
    assert (facts.representation, facts.metadata_frames, facts.data_range) == ("encoded", 5, 255.0)
    assert found[0].flags.c_contiguous


def test_frames_of_different_duration_are_each_read_once_and_said(tmp_path):
    frames = [np.full((8, 8, 3), level, np.uint8) for level in (0, 80, 160, 240)]
    facts, found = read(animate(tmp_path / "a.gif", frames, duration=[40, 80, 40, 240]))
    assert equal(found, frames)
    assert facts.fps == 10.0
    assert "variable frame rate: frames last from 40 to 240 ms" in facts.notes


@pytest.mark.parametrize(("disposal", "left_of_frame_0"), [(1, True), (2, False)])
def test_a_gif_is_composed_by_its_disposal(tmp_path, disposal, left_of_frame_0):
    """Two partial frames: whether the first stays under the second is what the disposal says."""
    clear, red, blue = (Image.new("RGBA", (8, 8)) for _ in range(3))
    red.paste((255, 0, 0, 255), (0, 0, 4, 8))
    blue.paste((0, 0, 255, 255), (4, 0, 8, 8))
    clear.save(tmp_path / "a.gif", save_all=True, append_images=[red, blue], duration=100, disposal=disposal)
    facts, found = read(tmp_path / "a.gif")
    assert facts.mode == "RGBA"
    assert tuple(found[2][4, 6]) == (0, 0, 255, 255)
    assert (tuple(found[2][4, 1]) == (255, 0, 0, 255)) is left_of_frame_0


def test_the_picture_for_viewers_without_apng_is_no_frame(tmp_path):
    frames = pattern()
    facts, found = read(animate(tmp_path / "a.png", frames, default_image=True))
    assert facts.metadata_frames == 4
    assert equal(found, frames[1:])


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95, 0.9999])
def test_an_animation_cut_off_anywhere_is_no_shorter_clip(tmp_path, name, share):
    path = animate(tmp_path / name, pattern())
    data = path.read_bytes()
    path.write_bytes(data[: min(len(data) - 1, int(len(data) * share))])
    assert refusal(path).kind == "unreadable"


@pytest.mark.parametrize(
    ("count", "reason"),
    [(9, "5 frames were decoded, its metadata promises 9"), (0, "damaged"), (1 << 31, "damaged")],
)
def test_an_apng_that_promises_other_than_it_has_is_refused(tmp_path, count, reason):
    path = animate(tmp_path / "a.png", pattern())
    data = bytearray(path.read_bytes())
    place = data.index(b"acTL") + 4
    data[place : place + 4] = struct.pack(">I", count)
    data[place + 8 : place + 12] = struct.pack(">I", zlib.crc32(data[place - 4 : place + 8]))
    path.write_bytes(data)
    assert reason in refusal(path).message


@pytest.mark.parametrize("name", ["a.png", "a.webp"])
def test_a_still_picture_is_no_video(tmp_path, name):
    Image.fromarray(pattern()[0]).save(tmp_path / name)
    assert "still picture" in refusal(tmp_path / name).message


def test_a_canvas_that_claims_too_many_pixels_is_refused_from_the_header(tmp_path):
    path = animate(tmp_path / "a.gif", pattern())
    data = bytearray(path.read_bytes())
    data[6:10] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert refusal(path).kind == "size"


def folder(path, frames, name="frame_{}.png", *, start=0):
    path.mkdir()
    for index, frame in enumerate(frames, start):
        (path / name.format(index)).write_bytes(encode_png(frame))
    return path


def test_a_folder_is_read_by_number_not_by_spelling(tmp_path):
    frames = pattern(12)
    facts, found = read(folder(tmp_path / "clip", frames, start=3))
    assert equal(found, frames)
    assert (facts.representation, facts.metadata_frames, facts.fps, facts.codec) == ("frames", 12, None, "PNG")
    assert (facts.width, facts.height, facts.mode, facts.data_range) == (32, 24, "RGB", 255.0)


def test_gaps_doubles_and_other_files_in_a_folder_are_refused_and_named(tmp_path):
    frames = pattern(6)
    gap = folder(tmp_path / "gap", frames)
    (gap / "frame_3.png").unlink()
    (gap / "frame_4.png").unlink()
    assert "frame 3 is missing, 2 in all between 0 and 5" in refusal(gap).message
    double = folder(tmp_path / "double", frames)
    (double / "frame_02.png").write_bytes(encode_png(frames[0]))
    assert "frame 2 is there twice" in refusal(double).message
    for name in ("notes.txt", ".DS_Store", "cover.png"):
        other = folder(tmp_path / f"other{name}", frames)
        (other / name).write_bytes(encode_png(frames[0]))
        assert repr(name) in refusal(other).message
    mixed = folder(tmp_path / "mixed", frames)
    (mixed / "image_6.png").write_bytes(encode_png(frames[0]))
    assert "named in 2 ways" in refusal(mixed).message
    linked = folder(tmp_path / "linked", frames)
    (linked / "frame_6.png").symlink_to(linked / "frame_0.png")
    assert "'frame_6.png'" in refusal(linked).message
    (tmp_path / "empty").mkdir()
    assert "no frames" in refusal(tmp_path / "empty").message


@pytest.mark.parametrize("other", [pattern(1, size=(24, 33))[0], pattern(1, channels=1)[0]])
def test_frames_of_a_folder_have_one_size_and_mode(tmp_path, other):
    clip = folder(tmp_path / "clip", [*pattern(3), other])
    assert "frame_3.png" in refusal(clip).message


def test_a_broken_frame_of_a_folder_is_refused_by_name(tmp_path):
    clip = folder(tmp_path / "clip", pattern(3))
    (clip / "frame_2.png").write_bytes((clip / "frame_2.png").read_bytes()[:60])
    with pytest.raises(MediaError, match=r"frame_2\.png"), open_video(clip) as opened:
        list(opened)


@pytest.mark.parametrize(
    ("dtype", "data_range", "channels", "mode"),
    [("uint8", 255.0, 3, "RGB"), ("float32", 1.0, 4, "RGBA"), ("float32", 1.0, 1, "L"), ("uint8", 255.0, 2, "LA")],
)
def test_raw_arrays_are_read_by_their_header(tmp_path, dtype, data_range, channels, mode):
    scale = 1 if dtype == "uint8" else 255
    frames = (np.stack(pattern(channels=channels)) / scale).astype(dtype)
    np.save(tmp_path / "a.npy", frames)
    facts, found = read(tmp_path / "a.npy")
    assert equal(found, frames)
    assert found[0].dtype == dtype
    assert (facts.representation, facts.data_range, facts.mode, facts.metadata_frames) == ("raw", data_range, mode, 5)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.zeros((4, 8, 8), np.uint8), "size"),
        (np.zeros((4, 3, 8, 8), np.uint8), "size"),  # channels first: never guessed
        (np.zeros((0, 8, 8, 3), np.uint8), "size"),
        (np.zeros((2, 8, 8, 3), np.float64), "format"),
        (np.asfortranarray(np.zeros((2, 8, 8, 3), np.uint8)), "format"),
        (np.full((2, 8, 8, 3), 1.5, np.float32), "range"),
        (np.full((2, 8, 8, 3), np.nan, np.float32), "non-finite"),
        (np.full((2, 8, 8, 3), -0.1, np.float32), "range"),
    ],
)
def test_other_arrays_are_refused(tmp_path, array, kind):
    np.save(tmp_path / "a.npy", array)
    assert refusal(tmp_path / "a.npy").kind == kind


def test_raw_arrays_hold_what_their_header_promises_and_no_pickle(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.stack(pattern()))
    data = path.read_bytes()
    for wrong in (data[:-1], data + b"\0"):
        path.write_bytes(wrong)
        assert refusal(path).kind == "unreadable"
    np.save(path, np.array([[None]]), allow_pickle=True)
    assert refusal(path).kind == "format"


def test_frames_are_read_once_and_a_second_pass_is_no_empty_clip(tmp_path):
    np.save(tmp_path / "a.npy", np.stack(pattern()))
    with open_video(tmp_path / "a.npy") as clip:
        assert len(list(clip)) == 5
        with pytest.raises(MediaError, match="have been read"):
            iter(clip)


@pytest.mark.parametrize(("content", "kind"), [(b"", "unreadable"), (b"plain text, no video", "format")])
def test_what_is_no_clip_is_refused(tmp_path, content, kind):
    (tmp_path / "a.mp4").write_bytes(content)
    assert refusal(tmp_path / "a.mp4").kind == kind
    assert refusal(tmp_path / "missing.mp4").kind == "path"
