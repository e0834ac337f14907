"""Sound files: exact samples, nothing resampled or mixed, and one error for whatever is broken."""

from __future__ import annotations

import contextlib
import os

import av
import numpy as np
import pytest
import soundfile

from paritygate.errors import MediaError
from paritygate.media.audio import read_audio

RATE = 16000
#: Two channels of whole 16-bit steps, with the lowest value there is.
WHOLE = np.random.default_rng(3).integers(-32768, 32768, (3000, 2)) / 32768
WHOLE[0] = -1.0


def written(tmp_path, name: str, subtype: str | None = None, samples=WHOLE):
    path = tmp_path / name
    soundfile.write(path, samples, RATE, subtype=subtype)
    return path


def clip(path, samples, *, codec: str, form: str, tracks: int = 1):
    """A container with sound; integers as given, floats as float32."""
    with av.open(str(path), "w") as output:
        streams = [output.add_stream(codec, rate=RATE, layout="stereo") for _ in range(tracks)]
        planar = form.endswith("p")
        for stream in streams:
            data = samples.T if planar else samples.reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(data), format=form, layout="stereo")
            frame.sample_rate, frame.pts = RATE, 0
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("a.wav", "PCM_16"),
        ("a.wav", "PCM_24"),
        ("a.wav", "PCM_32"),
        ("a.wav", "FLOAT"),
        ("a.wav", "DOUBLE"),
        ("a.flac", "PCM_16"),
        ("a.flac", "PCM_24"),
    ],
)
def test_samples_are_read_to_the_last_bit(tmp_path, name, subtype):
    found = read_audio(written(tmp_path, name, subtype))
    assert np.array_equal(found.samples, WHOLE)
    assert (found.sample_rate_hz, found.channels) == (RATE, 2)
    assert found.sample_format == subtype, "WAV and FLAC of one depth hold the same samples"


def test_8_bit_samples_are_read_round_their_middle(tmp_path):
    steps = np.arange(-128, 128)[:, None] / 128
    assert np.array_equal(read_audio(written(tmp_path, "a.wav", "PCM_U8", steps)).samples, steps)


def test_the_lowest_16_bit_value_is_minus_one_and_not_its_own_magnitude(tmp_path):
    """A magnitude taken in int16 would stay -32768."""
    assert read_audio(written(tmp_path, "a.wav", "PCM_16")).samples[0].tolist() == [-1.0, -1.0]
    whole = (WHOLE * 32768).astype(np.int16)
    assert np.array_equal(read_audio(clip(tmp_path / "a.mkv", whole, codec="pcm_s16le", form="s16")).samples, WHOLE)


def test_planar_sound_of_a_clip_keeps_its_channels_apart(tmp_path):
    samples = WHOLE.astype(np.float32) * np.float32(0.5)
    samples[:, 1] = 0.25
    path = clip(tmp_path / "a.mp4", samples, codec="aac", form="fltp")
    found = read_audio(path)
    assert (found.channels, found.sample_rate_hz) == (2, RATE)
    assert abs(found.samples[500:2000, 1] - 0.25).max() < 0.05
    assert found.samples[500:2000, 0].std() > 0.1


def test_sound_is_read_by_content_whatever_the_name(tmp_path):
    path = written(tmp_path, "a.flac")
    assert np.array_equal(read_audio(path.rename(tmp_path / "a.wav")).samples, WHOLE)


@pytest.mark.parametrize("tracks", [0, 2])
def test_a_clip_without_exactly_one_sound_is_refused(tmp_path, tracks):
    path = tmp_path / "a.mkv"
    if tracks:
        clip(path, (WHOLE * 32768).astype(np.int16), codec="pcm_s16le", form="s16", tracks=tracks)
    else:
        with av.open(str(path), "w") as output:
            stream = output.add_stream("mpeg4", rate=5)
            stream.width = stream.height = 32
            output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), "rgb24")))
            output.mux(stream.encode(None))
    with pytest.raises(MediaError, match=f"holds {tracks} sounds"):
        read_audio(path)


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.mkv", "a.mp4"])
def test_a_sound_cut_off_anywhere_is_refused(tmp_path, name):
    path = tmp_path / name
    if name == "a.mkv":
        clip(path, (WHOLE * 32768).astype(np.int16), codec="pcm_s16le", form="s16")
    elif name == "a.mp4":
        clip(path, WHOLE.astype(np.float32), codec="aac", form="fltp")
    else:
        written(tmp_path, name)
    data = path.read_bytes()
    for end in (0, 3, 11, 30, 60, *range(100, len(data) - 1, len(data) // 12), len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(MediaError):
            read_audio(path)


def test_a_wav_that_ends_within_a_sample_is_refused(tmp_path):
    path = written(tmp_path, "a.wav", "PCM_16")
    data = bytearray(path.read_bytes() + b"\0\0")
    for place in (4, data.index(b"data") + 4):
        data[place : place + 4] = (int.from_bytes(data[place : place + 4], "little") + 2).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(MediaError, match="ends within a sample"):
        read_audio(path)


@pytest.mark.parametrize("block", [1, 4, 6])
def test_a_wav_whose_blocks_are_not_of_its_channels_and_bits_is_refused(tmp_path, block):
    path = written(tmp_path, "a.wav", "PCM_16", samples=WHOLE[:, :1])
    data = bytearray(path.read_bytes())
    data[32:34] = block.to_bytes(2, "little")
    path.write_bytes(data)
    with pytest.raises(MediaError, match="1 channels of 16 bits in blocks of"):
        read_audio(path)


def test_a_cut_off_wav_does_not_hide_behind_many_parts(tmp_path):
    path = written(tmp_path, "a.wav", "PCM_16")
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(4) + data[8:36] + b"JUNK\0\0\0\0" * 1001 + data[36:-40])
    with pytest.raises(MediaError, match="parts"):
        read_audio(path)


def test_a_wav_of_another_kind_is_not_called_truncated(tmp_path):
    soundfile.write(tmp_path / "big.wav", WHOLE, RATE, format="RF64")
    with pytest.raises(MediaError, match="RF64"):
        read_audio(tmp_path / "big.wav")


def test_a_flac_that_claims_fewer_samples_than_it_was_made_of_is_refused_by_its_checksum(tmp_path):
    path = written(tmp_path, "a.flac", samples=np.tile(WHOLE, (3, 1)))
    data = bytearray(path.read_bytes())
    assert int.from_bytes(data[22:26], "big") == 9000
    data[22:26] = (4096).to_bytes(4, "big")  # the length of a whole frame: nothing else is wrong
    path.write_bytes(data)
    with pytest.raises(MediaError, match="not those of its checksum"):
        read_audio(path)
    data[26:42] = bytes(16)  # a writer that did not know it
    path.write_bytes(data)
    assert len(read_audio(path).samples) == 4096


@pytest.mark.parametrize("rate", [0, (1 << 20) + 1, (1 << 31) - 1])
def test_a_rate_that_no_sound_has_is_refused_and_no_address_is_shown(tmp_path, rate):
    path = written(tmp_path, "a.wav", "PCM_16")
    data = bytearray(path.read_bytes())
    data[24:28] = rate.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(MediaError) as caught:
        read_audio(path)
    assert str(tmp_path) not in caught.value.message


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.mkv", "a.mp4"])
def test_random_damage_is_one_error_or_a_sound_and_never_a_warning(tmp_path, name):
    path = tmp_path / name
    if name in ("a.mkv", "a.mp4"):
        codec = "aac" if name == "a.mp4" else "flac"
        samples = WHOLE.astype(np.float32) if codec == "aac" else (WHOLE * 32768).astype(np.int16)
        clip(path, samples, codec=codec, form="fltp" if codec == "aac" else "s16")
    else:
        written(tmp_path, name)
    data = path.read_bytes()
    random = np.random.default_rng(7)
    for _ in range(40):
        broken = bytearray(data)
        for place in random.integers(0, min(len(data), 400), 4):
            broken[place] = random.integers(256)
        path.write_bytes(broken)
        with contextlib.suppress(MediaError):
            found = read_audio(path)
            assert found.samples.ndim == 2
            assert found.samples.size > 0


def test_values_beyond_full_scale_and_not_finite_are_given_as_they_are(tmp_path):
    odd = np.array([[1.5], [-2.0], [np.nan], [np.inf]])
    assert np.array_equal(read_audio(written(tmp_path, "a.wav", "FLOAT", odd)).samples, odd, equal_nan=True)


def test_what_is_no_readable_sound_is_one_error(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("no sound at all, only text", encoding="utf-8")
    (tmp_path / "bare.wav").write_bytes(b"RIFF\x04\0\0\0WAVE")
    written(tmp_path, "none.wav", samples=np.zeros((0, 1)))
    for name in ("pipe.wav", "empty.wav", "text.wav", "bare.wav", "none.wav", "missing.wav", "."):
        with pytest.raises(MediaError):
            read_audio(tmp_path / name)
