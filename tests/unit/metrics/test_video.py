"""The video metrics: strict pairing, one value a frame, temporal error by hand, threads that never outlive."""

from __future__ import annotations

import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.errors import MetricError
from paritygate.metrics import image, video
from paritygate.metrics.specs import SPECS, default_metrics

RGB = {"data_range": 255.0, "mode": "RGB"}
STEP = 2


def moving_clip(count, *, shape=(24, 32, 3), step=STEP):
    """A texture that brightens by ``step`` levels a frame: every transition is known by hand."""
    texture = np.random.default_rng(3).integers(20, 60, shape).astype(np.uint8)
    return [texture + np.uint8(step * index) for index in range(count)]


def measured(reference, candidate, names=("temporal_error",), **changes):
    return video.measure(names, video.pairs(reference, candidate), **{**RGB, **changes})


def numbers(values):
    return [value.number for value in values]


@pytest.mark.parametrize("threads", [1, 2])
def test_one_frame_of_81_replaced_by_its_neighbour_is_named_by_index_and_raises_the_temporal_error(threads):
    reference = moving_clip(81)
    candidate = list(reference)
    candidate[40] = reference[39]
    found = measured(reference, candidate, ("ssim", "psnr_db", "temporal_error"), threads=threads)
    assert [index for index, number in enumerate(numbers(found["ssim"])) if number != 1.0] == [40]
    assert int(np.argmin(numbers(found["psnr_db"]))) == 40
    assert found["psnr_db"][40].number == pytest.approx(20 * np.log10(255 / STEP), abs=1e-12)
    # Into frame 40 the candidate stands still, out of it it makes two steps: both are wrong by one step.
    wrong = {value.detail["frame"]: value.number for value in found["temporal_error"] if value.number}
    assert wrong == {40: STEP / 255, 41: STEP / 255}
    assert np.mean(numbers(found["temporal_error"])) == pytest.approx(2 * STEP / 255 / 80, rel=1e-12)


def test_flicker_shows_in_the_temporal_error_while_the_mean_ssim_stays_high():
    reference = moving_clip(12, step=0)
    candidate = [frame + np.uint8(6 * (index % 2)) for index, frame in enumerate(reference)]
    found = measured(reference, candidate, ("ssim", "temporal_error"))
    assert numbers(found["temporal_error"]) == [6 / 255] * 11
    assert np.mean(numbers(found["ssim"])) > 0.98


def test_an_error_that_stays_the_same_is_no_temporal_error():
    reference = moving_clip(5)
    assert numbers(measured(reference, [frame + np.uint8(9) for frame in reference])["temporal_error"]) == [0.0] * 4


def test_the_temporal_error_reaches_both_ends_of_its_range_and_never_wraps():
    black, white = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8)
    assert SPECS["temporal_error"].high == 2.0
    assert numbers(measured([black, white], [white, black])["temporal_error"]) == [2.0]
    deep = [frame.astype(np.uint16) * 257 for frame in (black, white)]
    assert numbers(measured(deep, deep[::-1], data_range=65535.0)["temporal_error"]) == [2.0]
    assert numbers(measured(deep, deep, data_range=65535.0)["temporal_error"]) == [0.0]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_strips_add_up_to_the_whole_frame_in_every_dtype(dtype):
    shape, scale = (150, 160, 3), {"uint8": 255.0, "uint16": 65535.0}.get(dtype, 1.0)  # more than one strip
    rng = np.random.default_rng(0)
    frames = [(rng.random(shape) * scale).astype(dtype) for _ in range(4)]
    r0, c0, r1, c1 = (frame.astype(np.float64) for frame in frames)
    expected = np.mean(np.abs((c1 - c0) - (r1 - r0))) / scale
    found = video.temporal_error((frames[0], frames[1]), (frames[2], frames[3]), data_range=scale)
    assert found == pytest.approx(expected, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_the_temporal_error_is_symmetric_and_grows_with_the_fault(seed, amount):
    rng = np.random.default_rng(seed)
    reference = rng.integers(0, 128, (3, 4, 5, 3)).astype(np.uint8)
    fault = rng.integers(0, 2, (4, 5, 3)).astype(np.uint8)
    small, large = (reference.copy() for _ in range(2))
    small[1] += fault * np.uint8(amount)
    large[1] += fault * np.uint8(2 * amount)
    pair = measured(reference, small)["temporal_error"], measured(small, reference)["temporal_error"]
    assert pair[0] == pair[1]
    assert sum(numbers(measured(reference, large)["temporal_error"])) == pytest.approx(2 * sum(numbers(pair[0])))


def test_b75_clips_of_16_and_8_frames_are_refused_with_both_counts_and_never_zipped_short():
    long, short = moving_clip(16), moving_clip(8)
    with pytest.raises(MetricError, match=r"the reference has 16 frames, the candidate 8 .*decoding both to the end"):
        measured(long, short)
    with pytest.raises(MetricError, match="the reference has 8 frames, the candidate 16"):
        measured(iter(short), iter(long))


@pytest.mark.parametrize(("left", "right"), [(4, 5), (5, 4), (0, 1), (1, 0)])
def test_one_frame_too_many_is_enough(left, right):
    frames = moving_clip(5)
    with pytest.raises(MetricError, match=f"reference has {left} frames, the candidate {right}"):
        measured(frames[:left], frames[:right])


def test_two_empty_clips_are_no_pass():
    with pytest.raises(MetricError, match="no frames"):
        measured([], [])


def test_a_clip_of_one_frame_has_no_transition_and_says_so():
    found = measured(moving_clip(1), moving_clip(1), ("ssim", "temporal_error"))
    assert numbers(found["ssim"]) == [1.0]
    (value,) = found["temporal_error"]
    assert np.isnan(value.number)
    assert "one frame" in value.problem


@pytest.mark.parametrize("threads", [1, 3])
def test_every_frame_has_the_value_that_image_measure_gives_it_in_order(threads):
    rng = np.random.default_rng(1)
    reference = list(rng.integers(0, 256, (9, 16, 20, 3)).astype(np.uint8))
    candidate = list(rng.integers(0, 256, (9, 16, 20, 3)).astype(np.uint8))
    names = image.default_names("RGB")
    found = measured(reference, candidate, names, threads=threads)
    assert list(found) == list(names)
    for index, pair in enumerate(zip(reference, candidate, strict=True)):
        assert {name: values[index] for name, values in found.items()} == image.measure(names, *pair, **RGB)


def test_metrics_of_other_modules_are_measured_frame_by_frame_too():
    frames = moving_clip(2, shape=(32, 32, 3))
    assert numbers(measured(frames, frames, ("skimage_default_ssim",))["skimage_default_ssim"]) == [1.0, 1.0]


def test_the_default_names_are_those_of_images_and_of_transitions():
    assert set(video.default_names("RGBA")) == set(default_metrics("video"))
    assert set(video.default_names("RGB")) == {*image.default_names("RGB"), "temporal_error"}
    assert [video.first_frame(name) for name in ("ssim", "temporal_error")] == [0, 1]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_frame_that_does_not_fit_is_named_by_index(threads):
    frames = moving_clip(6)
    other = [*frames[:4], frames[4][:-1], frames[5]]
    with pytest.raises(MetricError, match="frame 4: shapes differ"):
        measured(frames, other, threads=threads)
    smaller = [*frames[:3], *(frame[:-1] for frame in frames[3:])]
    with pytest.raises(MetricError, match="frame 3: shapes differ"):
        measured(smaller, smaller)


def test_a_frame_that_is_not_finite_is_refused_by_index_for_the_temporal_error_alone_too():
    frames = [np.full((4, 4, 3), 0.5, np.float32) for _ in range(3)]
    bad = [frames[0], frames[1].copy(), frames[2]]
    bad[1][0, 0, 0] = np.nan
    with pytest.raises(MetricError, match=r"frame 1: .*not finite"):
        measured(frames, bad, data_range=1.0)


@pytest.mark.parametrize(("names", "changes"), [(("loudness",), {}), (("ssim",), {"threads": 0}),
                                                (("temporal_error",), {"mode": "RGBA"})])  # fmt: skip
def test_unknown_names_no_threads_and_a_wrong_mode_are_refused(names, changes):
    with pytest.raises(MetricError):
        measured(moving_clip(2), moving_clip(2), names, **changes)


def pool_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("paritygate-video")]


def test_what_the_frames_raise_passes_through_and_no_thread_outlives_it():
    class DecoderError(Exception):
        pass

    def breaking():
        yield from moving_clip(3)
        raise DecoderError

    with pytest.raises(DecoderError):
        measured(breaking(), moving_clip(9), threads=2)
    assert pool_threads() == []


def test_an_error_of_one_frame_cancels_what_waits(monkeypatch):
    started = []

    def slow_and_wrong(names, reference, candidate, **_):
        started.append(int(reference[0, 0, 0]))
        time.sleep(0.01)
        raise MetricError("broken")

    monkeypatch.setattr(image, "measure", slow_and_wrong)
    with pytest.raises(MetricError, match="frame 0: broken"):
        measured(moving_clip(40), moving_clip(40), ("ssim",), threads=2)
    assert len(started) <= 4
    assert pool_threads() == []


@pytest.mark.parametrize("threads", [1, 2])
def test_frames_are_taken_only_a_few_ahead_and_let_go(threads, monkeypatch):
    alive, most = set(), []
    lock = threading.Lock()

    class Tracked(np.ndarray):
        def __del__(self):
            with lock:
                alive.discard(id(self))

    def clip(count):
        for index in range(count):
            frame = np.full((4, 4, 3), index, np.uint8).view(Tracked)
            with lock:
                alive.add(id(frame))
                most.append(len(alive))
            yield frame
            del frame

    measured(clip(60), clip(60), ("temporal_error",), threads=threads)
    # Pairs: one before, one in hand, and with a pool those that wait; two frames each, and one that arrives.
    assert max(most) <= 2 * (threads + 4)
    assert max(most[:60]) == max(most)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_clip_ten_times_as_long_takes_no_more_memory(threads):
    frame = np.random.default_rng(0).integers(0, 256, (96, 128, 3)).astype(np.uint8)

    def peak(count):
        tracemalloc.start()
        measured((frame.copy() for _ in range(count)), (frame.copy() for _ in range(count)), threads=threads)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(4)
    short, long = peak(12), peak(120)
    # The values are some hundred bytes a frame, and a busy machine lets a few more frames wait; all would be 216.
    assert long < short + 20 * frame.nbytes
