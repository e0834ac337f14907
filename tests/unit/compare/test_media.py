"""Clips, sounds and tensors of two legs on disk: equal, faulty by a known amount, and every way to be invalid."""

from __future__ import annotations

import math
import os
import shutil

import msgspec
import numpy as np
import pytest

from paritygate.compare.compare import compare_legs
from paritygate.manifest.case import Difference, Output
from paritygate.media.levels import to_stored
from paritygate.records.codec import dumps, loads
from paritygate.records.model import Comparison, OutputItem
from paritygate.runners.media_files import store_audio, store_tensors, store_video

RATE, FRAMES, SIZE = 8000, 6, 24


class Media:
    """Two legs that agree until a test changes something; each item is stored by ``put(side folder, stem, index)``."""

    def __init__(self, parts, root, output, *metrics, pixels="stored"):
        self.parts, self.dir = parts, root / "run"
        measured = tuple(parts.measurement(name, how, pixels=pixels) for name, how in metrics)
        case = parts.build_case(root, output=output)
        self.case = msgspec.structs.replace(case, measure=msgspec.structs.replace(case.measure, output=measured))
        self.items = parts.build_items(2)
        self.legs = {}

    def put(self, leg, *stores):
        """Both items of a leg get what each of ``stores`` makes: a function of folder, stem and item number."""
        folder = self.dir / leg
        shutil.rmtree(folder, ignore_errors=True)
        items = []
        for number, item in enumerate(self.items):
            made = [store(folder, f"outputs/{item.id}/0", number) for store in stores]
            items.append(OutputItem(id=item.id, media=tuple(made)))
        record = self.parts.write_leg(self.dir, leg, {})
        self.legs[leg] = msgspec.structs.replace(record, items=tuple(items))

    def compare(self):
        result = compare_legs(self.case, self.items, run_dir=self.dir, **self.legs)
        assert loads(dumps(result), Comparison) == result or any(
            math.isnan(entry.value) for entry in result.measurements
        )
        return result

    def codes(self):
        return [finding.code for finding in self.compare().invalid]


def clip(number, *, floats=False):
    """A bright square that moves over a gradient, ``(frames, height, width, 3)``."""
    frames = np.zeros((FRAMES, SIZE, SIZE, 3), np.float32)
    frames += np.linspace(0.1, 0.6, SIZE, dtype=np.float32)[:, None]
    for index in range(FRAMES):
        frames[index, 4:10, 2 * index : 2 * index + 6, number] = 0.9
    return frames if floats else to_stored(frames)


def video(change=lambda frames: frames, *, fps=24.0, floats=False, only=1):
    """Store the clip of an item; that of item ``only`` changed."""
    return lambda folder, stem, number: store_video(
        folder, stem, change(clip(number, floats=floats)) if number == only else clip(number, floats=floats), fps=fps
    )


def sound(number):
    steps = np.arange(RATE // 2) / RATE
    waves = [0.4 * np.sin(2 * np.pi * (220 + 110 * number + 50 * channel) * steps) for channel in range(2)]
    return np.stack(waves, axis=1).astype(np.float32)


def audio(change=lambda samples: samples, *, rate=RATE, only=1):
    return lambda folder, stem, number: store_audio(
        folder, stem, change(sound(number)) if number == only else sound(number), sample_rate_hz=rate
    )


def named(number):
    rng = np.random.default_rng(number)
    return {
        "hidden": rng.standard_normal((3, 5)).astype(np.float32),
        "ids": rng.integers(0, 2**40, 7),
        "mask": np.array([True, True, False]),
    }


def tensors(change=lambda given: given, *, only=1):
    return lambda folder, stem, number: store_tensors(
        folder, stem, change(named(number)) if number == only else named(number)
    )


@pytest.fixture
def clips(parts, tmp_path):
    output = Output(kind="video", width=SIZE, height=SIZE, frames=FRAMES, fps=24)
    media = Media(parts, tmp_path, output, ("ssim", "min"), ("abs_diff_max", "max"), ("temporal_error", "max"))
    media.put("reference", video())
    return media


@pytest.fixture
def sounds(parts, tmp_path):
    output = Output(kind="audio", sample_rate_hz=RATE, channels=2)
    media = Media(parts, tmp_path, output, ("cosine", "min"), ("relative_l2", "max"))
    media.put("reference", audio())
    return media


@pytest.fixture
def sets(parts, tmp_path):
    media = Media(parts, tmp_path, Output(kind="tensors"), ("relative_l2", "max"), ("mismatch_count", "max"))
    media.put("reference", tensors())
    return media


# Clips.


def test_one_frame_replaced_by_its_neighbour_is_named_and_raises_the_temporal_error(clips):
    def repeat(frames):
        frames[4] = frames[3]
        return frames

    clips.put("candidate", video(repeat))
    result = clips.compare()
    assert result.invalid == ()
    ssim, largest, temporal = result.measurements
    assert (ssim.worst_item, largest.worst_item) == ("001/0/4", "001/0/4")
    assert list(ssim.values) == [f"00{item}/0/{frame}" for item in range(2) for frame in range(FRAMES)]
    assert [key for key, value in largest.values.items() if value] == ["001/0/4"]
    assert "001/0/0" not in temporal.values, "the first frame has no transition"
    assert [key for key, value in temporal.values.items() if value] == ["001/0/4", "001/0/5"]
    # Two pixel columns of a square that is six high differ, on one of three channels, on both transitions.
    moved = np.abs(clip(1)[4].astype(float) - clip(1)[3]).mean() / 255
    assert temporal.value == pytest.approx(moved)
    assert temporal.worst_detail == {"frame": 4}


def test_equal_clips_are_bit_identical_and_perfect(clips):
    clips.put("candidate", video())
    result = clips.compare()
    assert result.bit_identical
    assert [entry.value for entry in result.measurements] == [1, 0, 0]


def test_float_frames_are_measured_before_rounding_and_after(parts, tmp_path):
    output = Output(kind="video", width=SIZE, height=SIZE, frames=FRAMES, fps=24)
    media = Media(parts, tmp_path, output, ("abs_diff_max", "max"), pixels="float")
    both = (*media.case.measure.output, parts.measurement("abs_diff_max", "max"))
    media.case = msgspec.structs.replace(media.case, measure=msgspec.structs.replace(media.case.measure, output=both))
    media.put("reference", video(floats=True))
    media.put("candidate", video(lambda frames: frames + np.float32(1e-4), floats=True))
    before, after = media.compare().measurements
    assert before.value == pytest.approx(1e-4, rel=1e-2)
    assert after.value in (0, pytest.approx(1 / 255))
    media.put("candidate", video())
    before, after = media.compare().measurements
    assert before.problem == "000/0/0: no float pixels from the candidate leg"
    assert math.isnan(before.value)
    assert after.value == 0


def nan_in_frame_3(frames):
    frames[3, 2, 2, 0] = np.nan
    return frames


@pytest.mark.parametrize("leg", ["reference", "candidate"])
@pytest.mark.parametrize(
    ("store", "code", "words"),
    [
        (video(lambda frames: frames[:-1]), "frames", "holds 5 frames, declared 6; nothing is cut or repeated"),
        (video(lambda frames: np.concatenate([frames, frames[:3]])), "frames", "holds 9 frames, declared 6"),
        (video(lambda frames: frames[:, 2:]), "size", "is 24x22, declared 24x24; nothing is resized"),
        (video(lambda frames: frames[..., :1]), "mode", "holds L frames, the declared mode is RGB"),
        (video(fps=23.976), "fps", "has 23.976 frames a second, declared 24"),
        (video(np.zeros_like), "degenerate", "every frame is without a picture; the last one is all black"),
        (video(nan_in_frame_3, floats=True), "non-finite", "frame 3"),
    ],
    ids=["short", "long", "size", "mode", "fps", "black", "nan"],
)
def test_a_clip_of_another_structure_or_without_a_picture_is_invalid_on_either_side(clips, leg, store, code, words):
    other = "candidate" if leg == "reference" else "reference"
    clips.put(other, video())
    clips.put(leg, store)
    result = clips.compare()
    assert result.measurements == ()
    found = [finding for finding in result.invalid if finding.item == "001"]
    assert [finding.code for finding in found] == [code]
    assert words in found[0].message
    assert found[0].message.startswith(f"the {leg} leg, item 001: ")


def test_clips_of_unequal_length_are_never_cut_to_the_shorter_even_when_no_length_is_declared(clips):
    clips.case = msgspec.structs.replace(clips.case, output=msgspec.structs.replace(clips.case.output, frames=None))
    clips.put("candidate", video(lambda frames: frames[:-2]))
    result = clips.compare()
    assert all(math.isnan(entry.value) for entry in result.measurements)
    assert "the reference has 6 frames, the candidate 4" in result.measurements[0].problem


def test_a_fade_from_black_is_a_picture(clips):
    def fade(frames):
        frames[:2] = 0
        return frames

    clips.put("candidate", video(fade))
    assert clips.compare().invalid == ()


def test_an_encoded_clip_where_raw_frames_are_declared_is_invalid_and_not_decoded(clips, tmp_path):
    source = tmp_path / "clip.mp4"
    source.write_bytes(b"never looked at")
    clips.put("candidate", lambda folder, stem, _number: store_video(folder, stem, source, fps=None))
    result = clips.compare()
    assert {finding.code for finding in result.invalid} == {"representation"}
    assert "is encoded, the case compares raw ones (output.representation)" in result.invalid[0].message


def test_raw_frames_recorded_as_encoded_are_invalid(clips):
    clips.put("candidate", video())
    encoded = msgspec.structs.replace(clips.case.output, representation="encoded")
    clips.case = msgspec.structs.replace(clips.case, output=encoded)
    for name, leg in clips.legs.items():
        items = tuple(
            msgspec.structs.replace(item, media=(msgspec.structs.replace(item.media[0], representation="encoded"),))
            for item in leg.items
        )
        clips.legs[name] = msgspec.structs.replace(leg, items=items)
    assert set(clips.codes()) == {"representation"}


def test_a_clip_changed_after_the_leg_recorded_it_is_invalid(clips):
    clips.put("candidate", video())
    path = clips.dir / "candidate" / clips.legs["candidate"].items[1].media[0].path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert clips.codes() == ["digest"]


def test_a_clip_that_is_the_file_of_the_reference_is_invalid(clips):
    clips.put("candidate", video())
    path = clips.dir / "candidate" / clips.legs["candidate"].items[1].media[0].path
    path.unlink()
    os.link(clips.dir / "reference" / clips.legs["reference"].items[1].media[0].path, path)
    assert set(clips.codes()) == {"path"}


def test_a_missing_superfluous_or_unlisted_output_is_invalid(clips):
    clips.put("candidate", video(), audio())
    result = clips.compare()
    assert {finding.code for finding in result.invalid} == {"output-count"}
    assert "gave 1 sound, expected 0 (item 000)" in result.invalid[0].message
    clips.put("candidate")
    assert set(clips.codes()) == {"output-count"}
    clips.put("candidate", video())
    (clips.dir / "candidate" / "outputs" / "000" / "1.video.npy").write_bytes(b"left over")
    assert clips.codes() == ["extra-output"]


# Sounds.


def test_a_third_of_the_loudness_shows_in_the_magnitude_and_not_in_cosine(sounds):
    sounds.put("candidate", audio(lambda samples: samples * np.float32(0.3)))
    cosine, magnitude = sounds.compare().measurements
    assert list(cosine.values) == ["000/0", "001/0"]
    assert cosine.value == pytest.approx(1, abs=1e-6)
    assert (magnitude.worst_item, magnitude.value) == ("001/0", pytest.approx(0.7, rel=1e-6))


@pytest.mark.parametrize("leg", ["reference", "candidate"])
@pytest.mark.parametrize(
    ("store", "code", "words"),
    [
        (audio(rate=16000), "sample-rate", "has 16000 Hz, declared 8000 Hz; nothing is resampled"),
        (audio(lambda samples: samples[:, :1]), "channels", "has 1 channel, declared 2; nothing is mixed"),
        (audio(np.zeros_like), "degenerate", "is silent"),
        (audio(lambda samples: samples * np.float32(np.inf)), "non-finite", "at (sample, channel) (0, 0)"),
    ],
    ids=["rate", "channels", "silent", "infinite"],
)  # fmt: skip
def test_a_sound_of_another_structure_or_silence_is_invalid_on_either_side(sounds, leg, store, code, words):
    sounds.put("candidate" if leg == "reference" else "reference", audio())
    with np.errstate(invalid="ignore"):
        sounds.put(leg, store)
    result = sounds.compare()
    found = [finding for finding in result.invalid if finding.item == "001"]
    assert [finding.code for finding in found] == [code]
    assert words in found[0].message
    assert f"the {leg} leg, item 001" in found[0].message


def test_sounds_of_unequal_length_are_invalid_and_never_cut(sounds):
    sounds.put("candidate", audio(lambda samples: samples[:-1]))
    result = sounds.compare()
    assert [finding.code for finding in result.invalid] == ["length"]
    assert "the reference has 4000 samples, the candidate 3999; nothing is cut or padded" in result.invalid[0].message


def test_a_clip_with_sound_is_measured_on_both_and_each_needs_its_own_file(parts, tmp_path):
    output = Output(kind="video_audio", width=SIZE, height=SIZE, frames=FRAMES, fps=24, sample_rate_hz=RATE, channels=2)
    media = Media(parts, tmp_path, output, ("ssim", "min"), ("relative_l2", "max"))
    media.put("reference", video(), audio())
    media.put("candidate", video(), audio(lambda samples: samples[::-1].copy()))
    result = media.compare()
    assert result.invalid == ()
    picture, heard = result.measurements
    assert (picture.value, len(picture.values)) == (1, 2 * FRAMES)
    assert (heard.worst_item, len(heard.values)) == ("001/0", 2)
    assert heard.value > 0.5
    assert not result.bit_identical
    media.put("candidate", video())
    assert "output-count" in media.codes()


# Tensors.


def test_each_tensor_is_measured_by_the_metrics_of_its_dtype_and_the_worst_is_named(sets):
    def change(given):
        return given | {"hidden": given["hidden"] * np.float32(1.25), "ids": given["ids"] + (np.arange(7) == 3)}

    sets.put("candidate", tensors(change))
    relative, mismatches = sets.compare().measurements
    assert relative.problem == mismatches.problem == ""
    assert (relative.worst_item, relative.value) == ("001/0/hidden", pytest.approx(0.25))
    assert "001/0/mask" not in relative.values, "booleans compare exactly"
    assert mismatches.values["001/0/ids"] == 1
    assert mismatches.values["001/0/mask"] == 0
    assert mismatches.values["000/0/hidden"] == 0


def test_a_tensor_that_no_metric_is_defined_for_is_not_left_out(sets):
    sets.case = msgspec.structs.replace(
        sets.case,
        measure=msgspec.structs.replace(sets.case.measure, output=(sets.parts.measurement("relative_l2", "max"),)),
    )
    sets.put("candidate", tensors())
    (relative,) = sets.compare().measurements
    assert math.isnan(relative.value)
    assert relative.problem.startswith("000/0/mask: booleans compare exactly")


def set_nan(given):
    given["hidden"][1, 1] = np.nan
    return given


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda given: {name: given[name] for name in ("hidden", "ids")}, "tensor-names", "candidate leg lacks mask"),
        (lambda given: given | {"more": given["ids"]}, "tensor-names", "the reference leg lacks more"),
        (lambda given: given | {"hidden": given["hidden"].T}, "tensor-shape", "shape (3, 5), the candidate (5, 3)"),
        (
            lambda given: given | {"ids": given["ids"].astype(np.float64)},
            "tensor-dtype",
            "int64, the candidate float64",
        ),
        (set_nan, "non-finite", "tensor 'hidden' holds 1 NaN or infinite values"),
        (lambda given: {name: np.zeros_like(array) for name, array in given.items()}, "degenerate", "is 0"),
    ],
    ids=["fewer", "more", "shape", "dtype", "nan", "zero"],
)
def test_sets_of_tensors_that_do_not_fit_are_invalid_and_nothing_is_broadcast(sets, change, code, words):
    sets.put("candidate", tensors(change))
    result = sets.compare()
    assert [(finding.code, finding.item) for finding in result.invalid] == [(code, "001")]
    assert words in result.invalid[0].message


def test_equal_tensors_are_bit_identical(sets):
    sets.put("candidate", tensors())
    assert sets.compare().bit_identical


# Encoded files.


def encode(path, frames, samples=None, *, fps=24, codec="ffv1", pixel_format="bgr0", full_range=False):
    """A Matroska file: lossless FFV1 unless told otherwise, and lossless PCM of 16 bits."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        picture = container.add_stream(codec, rate=fps, width=SIZE, height=SIZE, pix_fmt=pixel_format)
        if full_range:
            picture.codec_context.color_range = av.video.reformatter.ColorRange.JPEG
        heard = None if samples is None else container.add_stream("pcm_s16le", rate=RATE, layout="stereo")
        for frame in frames:
            container.mux(picture.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(picture.encode(None))
        if heard is not None:
            packed = np.rint(samples * 32767).astype(np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, format="s16", layout="stereo")
            frame.sample_rate = RATE
            container.mux(heard.encode(frame))
            container.mux(heard.encode(None))
    return path


def encoded(root, *, change=lambda frames: frames, fps=24, level=None, only=(0, 1), **how):
    """Store the encoded clip of an item; ``how`` it is encoded counts for the items of ``only``."""

    def store(folder, stem, number):
        samples = None if level is None else sound(number) * level
        own = how if number in only else {}
        path = encode(root / f"{number}.mkv", change(clip(number)), samples, fps=fps, **own)
        return store_video(folder, stem, path, fps=None)

    return store


def test_encoded_clips_are_decoded_and_compared_frame_by_frame_where_that_is_declared(clips, tmp_path):
    def darken(frames):
        frames[2] //= 2
        return frames

    output = msgspec.structs.replace(clips.case.output, representation="encoded")
    clips.case = msgspec.structs.replace(clips.case, output=output)
    clips.put("reference", encoded(tmp_path))
    clips.put("candidate", encoded(tmp_path))
    assert clips.compare().bit_identical
    clips.put("candidate", encoded(tmp_path, change=darken))
    result = clips.compare()
    assert result.invalid == ()
    assert all(entry.worst_item.endswith("/0/2") for entry in result.measurements[:2])
    clips.put("candidate", encoded(tmp_path, fps=12))
    assert set(clips.codes()) == {"fps"}
    clips.put("candidate", encoded(tmp_path, change=lambda frames: frames[:-1]))
    assert set(clips.codes()) == {"frames"}


@pytest.mark.parametrize(
    ("how", "unequal"),
    [
        ({}, {}),
        (
            {"pixel_format": "yuv444p"},
            {"output.colour": ("RGB", "limited range, BT.601"), "output.pixel_format": ("bgr0", "yuv444p")},
        ),
        (
            {"codec": "libx264", "pixel_format": "yuv420p"},
            {
                "output.codec": ("ffv1", "h264"),
                "output.colour": ("RGB", "limited range, BT.601"),
                "output.pixel_format": ("bgr0", "yuv420p"),
            },
        ),
    ],
)
@pytest.mark.parametrize("only", [(0, 1), (1,)])
def test_clips_that_are_not_encoded_alike_differ_in_the_checklist_even_in_one_item(clips, tmp_path, how, unequal, only):
    output = msgspec.structs.replace(clips.case.output, representation="encoded")
    clips.case = msgspec.structs.replace(clips.case, output=output)
    clips.put("reference", encoded(tmp_path))
    clips.put("candidate", encoded(tmp_path, only=only, **how))
    rows = {row.field: row for row in clips.compare().checklist if row.field.startswith("output.")}
    assert {row.group for row in rows.values()} == {"output"}
    assert set(rows) == {"output.codec", "output.colour", "output.pixel_format"}
    found = {name: (row.reference, row.candidate) for name, row in rows.items() if row.verdict == "undeclared"}
    assert found == unequal
    assert all(row.verdict == "equal" for name, row in rows.items() if name not in unequal)


def test_the_range_of_colours_is_part_of_how_a_clip_is_encoded_and_may_be_declared(clips, tmp_path):
    output = msgspec.structs.replace(clips.case.output, representation="encoded")
    declared = Difference(field="output.colour", reason="the server writes full range")
    clips.case = msgspec.structs.replace(clips.case, output=output, differences=(declared,))
    how = {"codec": "libx264", "pixel_format": "yuv444p"}
    clips.put("reference", encoded(tmp_path, **how))
    clips.put("candidate", encoded(tmp_path, full_range=True, **how))
    (row,) = [row for row in clips.compare().checklist if row.field == "output.colour"]
    values = ("limited range, BT.601", "full range, BT.601")
    assert (row.reference, row.candidate, row.verdict) == (*values, "declared")


def test_raw_frames_have_no_codec_in_the_checklist(clips):
    clips.put("reference", video())
    clips.put("candidate", video())
    assert not [row for row in clips.compare().checklist if row.field.startswith("output.")]


def test_an_encoded_clip_brings_its_sound_in_the_same_file(parts, tmp_path):
    output = Output(
        kind="video_audio", width=SIZE, height=SIZE, frames=FRAMES, fps=24, sample_rate_hz=RATE, channels=2,
        representation="encoded",
    )  # fmt: skip
    media = Media(parts, tmp_path, output, ("ssim", "min"), ("relative_l2", "max"))
    media.put("reference", encoded(tmp_path, level=1.0))
    media.put("candidate", encoded(tmp_path, level=0.5))
    result = media.compare()
    assert result.invalid == ()
    assert [entry.value for entry in result.measurements] == [1, pytest.approx(0.5, abs=1e-3)]
    media.put("candidate", encoded(tmp_path))
    assert media.compare().invalid[0].item == "000", "a clip without sound is not compared as if it were silent"
