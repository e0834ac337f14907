"""Clips, sound and tensors that a leg stores are what it had, or are refused with the way out."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from paritygate.manifest.case import Item, Output
from paritygate.media.tensors import read_tensors
from paritygate.records.codec import loads
from paritygate.runners.job import Job, Outputs
from paritygate.runners.writer import LegWriter

FRAMES = np.random.default_rng(0).random((4, 6, 8, 3), np.float32)
SOUND = np.random.default_rng(1).uniform(-1, 1, (100, 2)).astype(np.float32)


@pytest.fixture
def leg(tmp_path, monkeypatch):
    monkeypatch.setattr("paritygate.runners.writer._SAVE_INTERVAL_S", 0)
    folder = tmp_path / "leg"
    folder.mkdir()
    job = Job(
        case="c", leg="candidate", runner="python", root="/", folder="/", directory=str(folder), adapter=None,
        spec={}, feature=None, model_id="m", model_revision="r", model_dir=None, output=Output(kind="video"),
        inputs=(), items=tuple(Item(id=f"{i:03d}", request={}) for i in range(3)), latents=None, device="cpu",
    )  # fmt: skip
    return LegWriter(job), folder


def stored(folder):
    """Everything listed, each with the digest of its file checked."""
    items = loads((folder / "outputs.json").read_text(), Outputs).items
    for item in items:
        for media in item.media:
            assert media.sha256 == "sha256:" + hashlib.sha256((folder / media.path).read_bytes()).hexdigest()
    return items


@pytest.mark.parametrize("frames", [FRAMES, (FRAMES * 255).astype(np.uint8)], ids=["float32", "uint8"])
def test_frames_are_kept_as_they_are_with_their_rate(leg, frames):
    writer, folder = leg
    writer.video("001", frames, fps=12.5)
    (item,) = stored(folder)
    (media,) = item.media
    assert (media.role, media.representation, media.fps, item.images) == ("video", "raw", 12.5, ())
    kept = np.load(folder / media.path, allow_pickle=False)
    assert kept.dtype == frames.dtype
    assert np.array_equal(kept, frames)


def test_samples_are_kept_as_they_are_clipped_or_not(leg):
    writer, folder = leg
    writer.audio("000", SOUND * 3, sample_rate_hz=8000)
    (media,) = stored(folder)[0].media
    assert (media.role, media.representation, media.sample_rate_hz) == ("audio", "raw", 8000)
    assert np.array_equal(np.load(folder / media.path, allow_pickle=False), SOUND * np.float32(3))


def test_tensors_keep_their_names_and_dtypes(leg):
    writer, folder = leg
    given = {
        "b/hidden": np.linspace(-1, 1, 6).reshape(2, 3),
        "a.ids": np.array([[1, 2**40]]),
        "mask": np.array([True, False]),
        "half": np.arange(3, dtype=np.float16),
        "scalar": np.array(2.5, np.float32),
        "swapped": np.arange(4, dtype=">f4"),
        "transposed": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    }
    writer.tensors("000", given)
    (media,) = stored(folder)[0].media
    read = read_tensors(folder / media.path)
    assert list(read) == list(given)
    for name, array in given.items():
        assert read[name].dtype == array.dtype.newbyteorder("=").name
        assert np.array_equal(read[name].array, array)


def test_torch_tensors_are_stored_bfloat16_bit_by_bit(leg):
    torch = pytest.importorskip("torch")
    writer, folder = leg
    values = torch.tensor([[1.0, 750.0], [-0.5, 999.0]])
    writer.tensors("000", {"x": values.bfloat16(), "y": values.requires_grad_(True)})
    read = read_tensors(folder / stored(folder)[0].media[0].path)
    assert read["x"].dtype == "bfloat16"
    assert ((read["x"].array.astype(np.uint32) << 16).view(np.float32)).tolist() == [[1, 752], [-0.5, 1000]]
    assert read["y"].array.tolist() == values.tolist()


def test_tensors_need_no_torch(leg, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    writer, folder = leg
    writer.tensors("000", {"x": np.ones(3)})
    assert stored(folder)


def test_a_file_in_the_folder_of_the_leg_is_moved_and_one_elsewhere_copied(leg, tmp_path):
    writer, folder = leg
    for number, place in enumerate((folder, tmp_path)):
        source = place / "clip.MP4"
        source.write_bytes(b"clip %d" % number)
        writer.video(f"00{number}", source)
        media = stored(folder)[number].media[0]
        assert (media.path, media.representation) == (f"outputs/00{number}/0.video.mp4", "encoded")
        assert (folder / media.path).read_bytes() == b"clip %d" % number
        assert source.exists() == (place == tmp_path)


def test_a_file_that_cannot_be_moved_because_a_container_made_its_folder_is_copied(leg, monkeypatch):
    writer, folder = leg
    (folder / "clip.mp4").write_bytes(b"clip")
    rename = Path.replace

    def refuse(self, target):
        if self.name == "clip.mp4":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    writer.video("000", folder / "clip.mp4")
    assert (folder / stored(folder)[0].media[0].path).read_bytes() == b"clip"


def test_clips_and_their_sound_lie_side_by_side_and_in_order(leg):
    writer, folder = leg
    for index in (1, 0):
        writer.audio("000", SOUND, sample_rate_hz=8000, index=index)
        writer.video("000", FRAMES, fps=24, index=index)
    names = [media.path.rpartition("/")[2] for media in stored(folder)[0].media]
    assert names == ["0.video.npy", "1.video.npy", "0.audio.npy", "1.audio.npy"]
    assert json.loads((folder / "outputs.json").read_text())["items"][0]["images"] == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda w, _: w.video("000", FRAMES), "fps is None; an array of frames needs its rate"),
        (lambda w, _: w.video("000", FRAMES, fps=float("nan")), "fps is nan"),
        (lambda w, _: w.video("000", FRAMES[0], fps=24), r"shape \(6, 8, 3\); expected \(frames, height"),
        (lambda w, _: w.video("000", FRAMES.transpose(0, 3, 1, 2), fps=24), r"shape \(4, 3, 6, 8\)"),
        (lambda w, _: w.video("000", FRAMES.astype(np.float64), fps=24), "frames are float64; expected float32"),
        (lambda w, _: w.video("000", FRAMES - 0.5, fps=24), r"frame 0 lie in \[.*\]; expected \[0, 1\]"),
        (lambda w, _: w.video("000", "clip.mp4", fps=24), "fps=24 is for arrays"),
        (lambda w, _: w.video("000", "clip.mp4"), "there is no file clip.mp4"),
        (lambda w, _: w.video("000", "clip.npy"), "taken as video when it ends in"),
        (lambda w, _: w.audio("000", SOUND), "sample_rate_hz is None"),
        (lambda w, _: w.audio("000", SOUND, sample_rate_hz=44.1), "in whole hertz"),
        (lambda w, _: w.audio("000", SOUND.T, sample_rate_hz=8000), r"\(2, 100\); expected \(samples, channels\)"),
        (lambda w, _: w.audio("000", SOUND[:, 0], sample_rate_hz=8000), r"\(n, 1\) when mono"),
        (lambda w, _: w.audio("000", (SOUND * 99).astype(np.int16), sample_rate_hz=8000), "divide by 32768"),
        (lambda w, _: w.tensors("000", {}), "at least one name"),
        (lambda w, _: w.tensors("000", np.ones(3)), "ndarray; expected a dict"),
        (lambda w, _: w.tensors("000", {"x": np.array(["text"])}), "tensor 'x' is str"),
        (lambda w, _: w.tensors("000", {"x": np.ones((0, 2))}), r"shape \(0, 2\)"),
        (lambda w, _: w.video("../evil", FRAMES, fps=24), "no item id"),
    ],
)  # fmt: skip
def test_what_would_become_wrong_numbers_is_refused_with_the_way_out(leg, call, words):
    writer, folder = leg
    with pytest.raises(ValueError, match=words):
        call(writer, folder)
    assert stored(folder) == ()


def test_an_output_of_any_kind_is_written_once(leg):
    writer, _ = leg
    writer.video("000", FRAMES, fps=24)
    with pytest.raises(ValueError, match="video 0 of item 000 was stored before"):
        writer.video("000", FRAMES, fps=24)


def test_frames_that_are_not_finite_are_kept_for_the_comparison_to_name(leg):
    writer, folder = leg
    frames = FRAMES.copy()
    frames[2, 1, 1, 0] = np.nan
    writer.video("000", frames, fps=24)
    assert np.array_equal(np.load(folder / stored(folder)[0].media[0].path), frames, equal_nan=True)
