"""Frames and sound in one encoded file: the same every time, and refused when it would not be what was asked for."""

import av
import numpy as np
import pytest

from paritygate.errors import LegError
from paritygate.media.levels import to_stored
from paritygate.media.video import open_video
from paritygate.runners.encode import encode_clip

H264 = {"container": "mp4", "codec": "libx264", "pixel_format": "yuv420p", "options": {"crf": "0"}}


@pytest.fixture
def frames():
    """A moving gradient, ``(6, 32, 48, 3)`` float32 in [0, 1]."""
    rows, columns = np.mgrid[0:32, 0:48]
    moved = [np.stack([(columns + i) / 60, rows / 40, (rows + columns) / 90], axis=-1) for i in range(6)]
    return np.stack(moved).astype(np.float32)


def decoded(path):
    with open_video(path) as clip:
        return np.stack(list(clip)).astype(int), clip.facts


@pytest.mark.parametrize(
    ("spec", "colour", "loss"),
    [
        ({"container": "mkv", "codec": "ffv1", "pixel_format": "bgr0"}, "RGB", 0),
        ({"container": "mp4", "codec": "libx264rgb", "pixel_format": "rgb24", "options": {"crf": "0"}}, "RGB", 0),
        ({**H264, "pixel_format": "yuv444p"}, "limited range, BT.601", 3),
        ({**H264, "pixel_format": "yuvj420p"}, "full range, BT.601", 8),
        (H264, "limited range, BT.601", 8),
        (
            {"container": "webm", "codec": "libvpx-vp9", "pixel_format": "yuv420p", "options": {"lossless": "1"}},
            "limited range, BT.601",
            8,
        ),
    ],
)
def test_frames_are_rounded_once_keep_their_colours_and_say_how_they_are_stored(tmp_path, frames, spec, colour, loss):
    paths = [tmp_path / f"{name}.{spec['container']}" for name in ("first", "second")]
    for path in paths:
        encode_clip(path, frames, spec, fps=24000 / 1001)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found, facts = decoded(paths[0])
    assert np.abs(found - to_stored(frames)).max() <= loss
    assert facts.colour == colour
    assert facts.fps == pytest.approx(24000 / 1001)
    assert not any("does not state its colour" in note for note in facts.notes)


@pytest.mark.parametrize(("channels", "mode"), [(1, "RGB"), (4, "RGBA")])
def test_grey_and_transparent_frames_are_encoded_too(tmp_path, frames, channels, mode):
    spec = {"container": "mkv", "codec": "ffv1", "pixel_format": "bgra" if channels == 4 else "bgr0"}
    given = np.repeat(frames[..., :1], channels, axis=-1)
    encode_clip(tmp_path / "clip.mkv", given, spec, fps=8)
    found, facts = decoded(tmp_path / "clip.mkv")
    assert facts.mode == mode
    assert np.array_equal(found[..., 0], to_stored(given)[..., 0])


@pytest.mark.parametrize(("channels", "codec", "container"), [(1, "flac", "mkv"), (2, "aac", "mp4")])
def test_sound_goes_into_the_same_file_at_its_own_rate(tmp_path, frames, channels, codec, container):
    wave = 0.5 * np.sin(np.arange(24000, dtype=np.float32) / 9)
    samples = np.stack([wave, -wave][:channels], axis=1)
    path = tmp_path / f"clip.{container}"
    spec = {**H264, "container": container, "audio_codec": codec}
    encode_clip(path, frames, spec, fps=16, samples=samples, sample_rate_hz=24000)
    with av.open(str(path)) as file:
        stream = file.streams.audio[0]
        heard = np.concatenate([frame.to_ndarray() for frame in file.decode(stream)], axis=-1)
        assert (stream.rate, stream.channels, stream.codec_context.name) == (24000, channels, codec)
    if codec == "flac":
        assert np.abs(heard[0] / 32768 - samples[:, 0]).max() <= 1 / 32768
    assert decoded(path)[1].has_audio


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"codec": "lib264"}, "no encoder 'lib264'; nearest: libx264"),
        ({"codec": "aac"}, "'aac' encodes audio, expected an encoder of video"),
        ({"pixel_format": "yuv42"}, "libx264 takes no 'yuv42'; nearest: .*; it takes: yuv420p, "),
        ({"options": {"presett": "slow"}}, "libx264 has no option 'presett'"),
        ({"options": {"preset": "nope"}}, "libx264 in mp4 with yuv420p, 48x32 at 16 fps cannot be written"),
        ({"container": "webm"}, "cannot be written: 'webm' format does not support 'libx264' codec"),
        ({"audio_codec": "acc"}, "encode.audio_codec: FFmpeg has no encoder 'acc'; nearest: .*aac"),
        ({"audio_codec": "libopus"}, "libopus takes no 44100 Hz; it takes: 8000, 12000"),
        ({"audio_codec": None}, "encode.audio_codec is missing"),
    ],
)
def test_what_cannot_be_encoded_is_refused_with_what_can(tmp_path, frames, changes, words):
    spec = {**H264, "audio_codec": "aac", **changes}
    samples = np.zeros((100, 1), np.float32)
    with pytest.raises(LegError, match=words):
        encode_clip(tmp_path / "clip.mp4", frames, spec, fps=16, samples=samples, sample_rate_hz=44100)


@pytest.mark.parametrize(
    ("cut", "axis"), [((slice(None), slice(31)), "height"), ((..., slice(47), slice(None)), "width")]
)
def test_an_odd_size_is_refused_where_colours_are_halved_and_only_there(tmp_path, frames, cut, axis):
    with pytest.raises(LegError, match=f"yuv420p keeps one colour for 2 pixels of {axis}, and the clip has"):
        encode_clip(tmp_path / "clip.mp4", frames[cut], H264, fps=16)
    encode_clip(tmp_path / "clip.mp4", frames[cut], {**H264, "pixel_format": "yuv444p"}, fps=16)
    assert decoded(tmp_path / "clip.mp4")[0].shape == frames[cut].shape


def test_more_channels_than_two_are_refused(tmp_path, frames):
    samples = np.zeros((100, 5), np.float32)
    with pytest.raises(LegError, match="the sound has 5 channels"):
        encode_clip(
            tmp_path / "a.mp4", frames, {**H264, "audio_codec": "aac"}, fps=8, samples=samples, sample_rate_hz=48000
        )
