"""Video files: decoded strictly to their end, with what was converted said. The clips are encoded here."""

from __future__ import annotations

import sys
from fractions import Fraction

import av
import numpy as np
import pytest

from paritygate.errors import MediaError, missing_extra
from paritygate.media.video import open_video
from paritygate.metrics import video as video_metrics

SIZE = (48, 64)
RATE = 8


def pattern(count=8, *, size=SIZE, channels=3):
    down, across = np.mgrid[: size[0], : size[1]]
    planes = [(across * 3 + 3 * 0), (down * 2), (across + down), np.full_like(down, 100)][:channels]
    return [np.stack([(plane + 5 * index) % 256 for plane in planes], -1).astype(np.uint8) for index in range(count)]


def add_stream(output, size=SIZE, *, codec="libx264", pixel_format="yuv420p", options=None):
    stream = output.add_stream(codec, rate=RATE, options={"preset": "ultrafast"} if options is None else options)
    stream.height, stream.width = size
    stream.pix_fmt = pixel_format
    return stream


def encode(output, stream, frames, times=None):
    for index, pixels in enumerate(frames):
        frame = av.VideoFrame.from_ndarray(pixels, format="rgb24" if pixels.shape[2] == 3 else "rgba")
        if times is not None:
            frame.pts, frame.time_base = times[index], Fraction(1, 1000)
        output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def write(path, frames, *, muxer=None, before=lambda stream: None, times=None, **stream_options):
    with av.open(str(path), "w", options=muxer or {}) as output:
        stream = add_stream(output, frames[0].shape[:2], **stream_options)
        before(stream)
        encode(output, stream, frames, times)
    return path


def read(path, **options):
    with open_video(path, **options) as clip:
        frames = list(clip)
    return clip.facts, frames


def refusal(path):
    with pytest.raises(MediaError) as caught, open_video(path) as clip:
        for _ in clip:
            pass
    assert path.name in caught.value.message
    return caught.value


LOSSLESS = {"codec": "libx264rgb", "pixel_format": "rgb24", "options": {"crf": "0", "preset": "ultrafast"}}


@pytest.mark.parametrize("threads", [1, 2])
def test_lossless_rgb_is_read_to_the_bit_in_order(tmp_path, threads):
    frames = pattern()
    facts, found = read(write(tmp_path / "a.mp4", frames, **LOSSLESS), threads=threads)
    assert all((mine == theirs).all() for mine, theirs in zip(found, frames, strict=True))
    assert (facts.width, facts.height, facts.fps) == (64, 48, 8.0)
    assert (facts.codec, facts.pixel_format, facts.colour) == ("h264", "gbrp", "RGB")
    assert (facts.representation, facts.data_range, facts.mode) == ("encoded", 255.0, "RGB")
    assert (facts.metadata_frames, facts.has_audio) == (8, False)


@pytest.mark.parametrize(
    ("name", "codec", "pixel_format", "note"),
    [
        ("a.mp4", "libx264", "yuv420p", "converted to 8-bit RGB"),
        ("a.mp4", "libx264", "yuv444p", "converted to 8-bit RGB"),
        ("a.mp4", "libx264", "yuv420p10le", "10 bits per value reduced to 8"),
        ("a.mkv", "ffv1", "yuv422p", "converted to 8-bit RGB"),
        ("a.webm", "libvpx-vp9", "yuv420p", "limited range, BT.601 is assumed"),
        ("a.avi", "mpeg4", "yuv420p", "converted to 8-bit RGB"),
    ],
)
def test_containers_and_pixel_formats_are_read_and_conversions_said(tmp_path, name, codec, pixel_format, note):
    options = {"deadline": "realtime", "cpu-used": "8"} if "vp9" in codec else None
    options = {} if codec in ("ffv1", "mpeg4") else options
    frames = pattern()
    facts, found = read(write(tmp_path / name, frames, codec=codec, pixel_format=pixel_format, options=options))
    assert len(found) == 8
    assert found[0].dtype == np.uint8
    assert found[0].shape == (48, 64, 3)
    assert facts.pixel_format == pixel_format
    assert any(note in said for said in facts.notes)


def test_odd_sizes_stay_as_they_are(tmp_path):
    facts, found = read(write(tmp_path / "a.mp4", pattern(2, size=(47, 63)), pixel_format="yuv444p"))
    assert (facts.width, facts.height, found[0].shape) == (63, 47, (47, 63, 3))


def test_alpha_is_kept_and_alpha_that_would_be_lost_is_refused(tmp_path):
    frames = pattern(2, channels=4)
    facts, found = read(write(tmp_path / "a.mkv", frames, codec="ffv1", pixel_format="bgra", options={}))
    assert facts.mode == "RGBA"
    assert (found[1] == frames[1]).all()
    apart = write(
        tmp_path / "a.webm",
        frames,
        codec="libvpx-vp9",
        pixel_format="yuva420p",
        options={"deadline": "realtime"},
        before=lambda stream: stream.metadata.update(alpha_mode="1"),
    )
    assert "alpha" in refusal(apart).message


def test_b75_frames_are_counted_by_decoding_and_16_against_8_is_refused(tmp_path):
    long, short = (write(tmp_path / f"{count}.mkv", pattern(count)) for count in (16, 8))
    with open_video(long) as reference, open_video(short) as candidate:
        assert (reference.facts.metadata_frames, candidate.facts.metadata_frames) == (None, None)
        with pytest.raises(Exception, match="the reference has 16 frames, the candidate 8"):
            for _ in video_metrics.pairs(reference, candidate):
                pass


def test_b76_colour_range_and_matrix_are_facts_because_decoding_depends_on_them(tmp_path):
    frames = pattern(2, size=(64, 64))

    def tagged(colour_range, matrix):
        def tag(stream):
            stream.codec_context.color_range, stream.codec_context.colorspace = colour_range, matrix

        return read(write(tmp_path / f"{colour_range}{matrix}.mp4", frames, before=tag))

    limited, full, wide = tagged(1, 5), tagged(2, 5), tagged(1, 1)
    colours = [facts.colour for facts, _ in (limited, full, wide)]
    assert colours == ["limited range, BT.601", "full range, BT.601", "limited range, BT.709"]
    # The same stored samples, read by other rules, are other pictures.
    apart = [np.abs(found[0].astype(int) - limited[1][0]).mean() for _, found in (full, wide)]
    assert min(apart) > 2
    # And what 4:2:0 gives back is not the RGB that was written: two columns share one colour.
    columns = np.zeros((64, 64, 3), np.uint8)
    columns[:, ::2, 0], columns[:, 1::2, 2] = 255, 255
    _, found = read(write(tmp_path / "columns.mp4", [columns]))
    assert np.abs(found[0].astype(int) - columns).mean() > 40


def test_a_truncated_mp4_is_refused_with_both_counts(tmp_path):
    path = write(tmp_path / "a.mp4", pattern(12), muxer={"movflags": "faststart"})
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    message = refusal(path).message
    assert "its metadata promises 12" in message
    decoded = int(message.split("damaged: ")[1].split()[0])
    assert 0 < decoded < 12


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.webm", "a.avi"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.95, 0.999])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, name, share):
    codec = {"a.webm": "libvpx-vp9", "a.avi": "mpeg4"}.get(name, "libx264")
    path = write(tmp_path / name, pattern(6), codec=codec, options={} if codec == "mpeg4" else None)
    data = path.read_bytes()
    path.write_bytes(data[: min(len(data) - 1, int(len(data) * share))])
    assert refusal(path).kind in ("unreadable", "format")


def test_damage_inside_a_frame_is_not_concealed(tmp_path):
    path = write(tmp_path / "a.mp4", pattern(12))
    data = bytearray(path.read_bytes())
    middle = data.index(b"moov") * 2 // 3
    data[middle : middle + 60] = bytes(range(60))
    path.write_bytes(data)
    message = refusal(path).message
    assert "its metadata promises 12" in message


def test_fewer_frames_than_the_metadata_claims_are_refused_even_where_the_file_is_whole(tmp_path):
    path = write(tmp_path / "a.avi", pattern(6), codec="mpeg4", options={})
    data = bytearray(path.read_bytes())
    place = data.index(b"strh") + 8 + 32  # length of the stream, in frames
    assert data[place] == 6
    data[place] = 9
    path.write_bytes(data)
    assert "6 frames were decoded, its metadata promises 9" in refusal(path).message


def test_what_an_edit_list_hides_is_neither_shown_nor_missed(tmp_path):
    source = write(tmp_path / "a.mp4", pattern(12), options={"preset": "ultrafast", "bf": "0", "g": "1"})
    with av.open(str(source)) as whole, av.open(str(tmp_path / "b.mp4"), "w") as output:
        stream = output.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(whole.streams.video[0]):
            if packet.size:
                packet.pts, packet.dts = (time - 3 * packet.duration for time in (packet.pts, packet.dts))
                packet.stream = stream
                output.mux(packet)
    facts, found = read(tmp_path / "b.mp4")
    assert (len(found), facts.metadata_frames) == (9, 12)
    assert "an edit list hides 3 of 12 frames" in facts.notes


@pytest.mark.parametrize("turn", [{"degrees": 90}, {"degrees": 180}, {"degrees": 0, "hflip": True}])
def test_frames_that_players_would_turn_or_mirror_are_refused(tmp_path, turn):
    path = write(tmp_path / "a.mp4", pattern(2), before=lambda stream: stream.set_display_rotation(**turn))
    assert "display matrix" in refusal(path).message


def test_a_variable_frame_rate_is_measured_and_said_whatever_the_file_states(tmp_path):
    def thousandths(stream):
        stream.codec_context.time_base = Fraction(1, 1000)

    path = write(tmp_path / "a.mkv", pattern(4), times=[0, 125, 1125, 1500], before=thousandths)
    facts, _ = read(path)
    assert facts.fps == 2.0
    assert any("frames last from 125 to 1000 ms; the file states 8 frames" in note for note in facts.notes)


def test_one_rate_in_two_time_bases_is_one_rate(tmp_path):
    # Matroska counts whole milliseconds, which 24 frames a second are not.
    rates = set()
    for name in ("a.mkv", "a.mp4"):
        with av.open(str(tmp_path / name), "w") as output:
            stream = output.add_stream("libx264", rate=Fraction(24000, 1001), options={"preset": "ultrafast"})
            stream.height, stream.width = SIZE
            encode(output, stream, pattern(7))
        rates.add(read(tmp_path / name)[0].fps)
    assert rates == {24000 / 1001}


def test_sound_beside_the_pictures_is_a_fact_and_sound_alone_no_video(tmp_path):
    for name, pictures in (("both.mp4", True), ("sound.mp4", False)):
        with av.open(str(tmp_path / name), "w") as output:
            stream = add_stream(output) if pictures else None
            sound = output.add_stream("aac", rate=16000)
            if stream:
                encode(output, stream, pattern(2))
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            silence.sample_rate, silence.pts = 16000, 0
            output.mux(sound.encode(silence))
            output.mux(sound.encode(None))
    assert read(tmp_path / "both.mp4")[0].has_audio
    assert "sound only, which is read as audio" in refusal(tmp_path / "sound.mp4").message


def test_two_video_streams_are_refused_and_none_is_chosen(tmp_path):
    with av.open(str(tmp_path / "a.mkv"), "w") as output:
        for stream in [add_stream(output), add_stream(output)]:
            encode(output, stream, pattern(2))
    assert "holds 2 video streams" in refusal(tmp_path / "a.mkv").message


def test_a_file_without_frames_is_refused(tmp_path):
    for name in ("a.mkv", "a.mp4"):
        with av.open(str(tmp_path / name), "w") as output:
            add_stream(output)
            output.start_encoding()
        assert refusal(tmp_path / name).kind in ("unreadable", "format")


def test_a_header_that_claims_too_many_pixels_is_refused_before_decoding(tmp_path, monkeypatch):
    monkeypatch.setattr("paritygate.media.video_facts.MAX_PIXELS", 64 * 48 - 1)
    assert refusal(write(tmp_path / "a.mp4", pattern(2))).kind == "size"


def test_a_playlist_in_a_video_s_clothes_opens_nothing(tmp_path):
    write(tmp_path / "secret.mp4", pattern(2))
    playlist = tmp_path / "a.mp4"
    playlist.write_text("#EXTM3U\n#EXTINF:1,\nsecret.mp4\n#EXT-X-ENDLIST\n")
    assert refusal(playlist).kind == "format"
    playlist.write_text("ffconcat version 1.0\nfile secret.mp4\n")
    assert refusal(playlist).kind == "format"


def test_without_pyav_the_error_names_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "a.mp4", pattern(2))
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ModuleNotFoundError) as caught, open_video(path):
        pass
    assert "paritygate[video]" in missing_extra(caught.value).hint


def test_an_error_of_the_caller_is_not_taken_for_one_of_the_file(tmp_path):
    path = write(tmp_path / "a.mp4", pattern(2))

    def break_off():
        with open_video(path) as clip:
            next(iter(clip))
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        break_off()
