"""``paritygate compare`` on real files of every kind, and on hostile ones."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from paritygate.cli.main import run

av = pytest.importorskip("av")
Y, X = np.mgrid[0:48, 0:64]
PICTURE = np.stack([(3 * X + Y) % 256, (X * Y) % 256, 255 - 3 * Y], axis=-1).astype(np.uint8)
CLIP = np.stack([np.roll(PICTURE, 3 * index, axis=1) for index in range(9)])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]):
    def call(*words: str) -> tuple[int, Any]:
        code = run(["compare", *words, "--json"])
        streams = capsys.readouterr()

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is no strict JSON")

        return code, json.loads(streams.out, parse_constant=refuse) if streams.out else streams.err

    return call


def encode(path: str, frames: np.ndarray, *, fps: int = 8) -> None:
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"preset": "ultrafast", "crf": "12"})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def series(result: dict[str, Any], metric: str, part: int = 0) -> dict[str, Any]:
    (found,) = [entry for entry in result["parts"][part]["series"] if entry["metric"] == metric]
    return found


def test_tensors_are_measured_name_by_name_with_digests_of_both_sides(compare) -> None:
    np.savez("a.npz", w=np.arange(8, dtype=np.float32), ids=np.arange(4))
    np.savez("b.npz", w=np.arange(8, dtype=np.float32) + np.float32(0.5), ids=np.arange(4))
    code, result = compare("a.npz", "b.npz", "--bound", "abs_error_max<=0.25")
    assert (code, result["state"], result["schema_version"]) == (1, "failed", 1)
    assert series(result, "abs_error_max")["values"] == {"w": 0.5, "ids": 0.0}
    assert result["bounds"][0]["worst"] == "b.npz tensor w"
    assert result["bounds"][0]["headroom"] == -0.25
    assert all(len(result["parts"][0][side]["sha256"]) == 71 for side in ("reference", "candidate"))
    assert result["parts"][0]["reference"]["structure"]["tensors"]["w"] == "float32 [8]"
    assert result["engine"].startswith(("kernel", "numpy"))


def test_tensors_that_lack_or_differ_in_shape_are_findings_and_the_others_are_measured(compare) -> None:
    np.savez("a.npz", same=np.arange(4.0), lost=np.arange(3.0), bent=np.ones((3, 1)))
    np.savez("b.npz", same=np.arange(4.0), new=np.arange(3.0), bent=np.ones((1, 3)))
    code, result = compare("a.npz", "b.npz", "--bound", "abs_error_max<=1")
    assert (code, result["state"]) == (1, "invalid")
    assert [entry["message"] for entry in result["findings"]] == [
        "the candidate lacks 1 tensor: lost",
        "the reference lacks 1 tensor: new",
        "tensor 'bent': the reference has shape (3, 1), the candidate (1, 3); nothing is broadcast or converted",
    ]
    assert result["parts"][0]["is_identical"] is False


@pytest.mark.parametrize("side", ["a.npy", "b.npy"])
def test_values_that_are_not_finite_are_never_green(compare, side) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(name, np.arange(6.0))
    bad = np.arange(6.0)
    bad[4] = np.nan
    np.save(side, bad)
    code, result = compare("a.npy", "b.npy", "--bound", "non_finite_candidate<=10")
    assert (code, result["state"]) == (1, "invalid")
    assert result["findings"][0]["code"] == "non-finite"
    assert "4" in result["findings"][0]["message"]


def test_zeros_on_both_sides_are_invalid_and_not_a_perfect_match(compare) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(name, np.zeros(6))
    code, result = compare("a.npy", "b.npy")
    assert (code, result["findings"][0]["code"]) == (1, "degenerate")


def test_raw_values_need_a_dtype_and_a_shape_from_the_user_or_a_sidecar(compare) -> None:
    values = np.arange(6, dtype="<f4")
    for name in ("a.bin", "b.bin"):
        Path(name).write_bytes(values.tobytes())
    code, result = compare("a.bin", "b.bin")
    assert (code, result["findings"][0]["code"]) == (1, "format")
    code, result = compare("a.bin", "b.bin", "--dtype", "float32", "--shape", "2,3")
    assert (code, result["is_identical"]) == (0, True)
    for name in ("a.json", "b.json"):
        Path(name).write_text('{"dtype": "float32", "shape": [6]}')
    assert compare("a.bin", "b.bin")[1]["is_identical"] is True


def test_an_array_is_an_image_only_with_a_declared_layout_and_range(compare) -> None:
    np.save("a.npy", (PICTURE / 255).astype(np.float32).transpose(2, 0, 1))
    np.save("b.npy", (PICTURE / 255).astype(np.float32).transpose(2, 0, 1))
    assert "add --layout HW or HWC or CHW" in compare("a.npy", "b.npy", "--as", "image")[1]
    assert "add --range 1" in compare("a.npy", "b.npy", "--as", "image", "--layout", "CHW")[1]
    code, result = compare("a.npy", "b.npy", "--as", "image", "--layout", "CHW", "--range", "1")
    assert (code, series(result, "ssim")["worst"], series(result, "psnr_db")["worst"]) == (0, 1.0, "inf")
    structure = result["parts"][0]["reference"]["structure"]
    assert (structure["width"], structure["height"], structure["mode"]) == (64, 48, "RGB")


def test_a_wrong_declared_range_is_refused_and_not_scaled(compare) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(name, PICTURE.astype(np.float32))
    code, result = compare("a.npy", "b.npy", "--as", "image", "--layout", "HWC", "--range", "1")
    assert (code, result["parts"]) == (1, [])
    assert "outside the declared range" in result["findings"][0]["message"]


@pytest.mark.parametrize("value", [0, 77])
def test_a_constant_picture_is_invalid_even_where_both_sides_are_identical(compare, value) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(name, np.full((20, 20, 3), value, np.uint8))
    code, result = compare("a.npy", "b.npy", "--as", "image", "--layout", "HWC")
    assert (code, result["findings"][0]["code"], result["parts"]) == (1, "degenerate", [])


def test_one_frame_replaced_by_its_neighbour_is_named_in_an_encoded_clip(compare) -> None:
    encode("a.mp4", CLIP)
    wrong = CLIP.copy()
    wrong[5] = CLIP[4]
    encode("b.mp4", wrong)
    code, result = compare("a.mp4", "b.mp4", "--bound", "ssim>=0.9", "--bound", "temporal_error<=0.02")
    assert code == 1
    assert [outcome["satisfied"] for outcome in result["bounds"]] == [False, False]
    assert result["bounds"][0]["worst"] == "b.mp4 frame 5"
    assert list(series(result, "ssim")["values"]) == [str(index) for index in range(9)]
    assert list(series(result, "temporal_error")["values"]) == [str(index) for index in range(1, 9)]
    assert result["parts"][0]["reference"]["structure"]["frames"] == 9
    assert any("both sides are lossy" in note for note in result["notes"])


def test_clips_of_other_length_rate_or_size_give_no_number(compare) -> None:
    encode("a.mp4", CLIP)
    encode("short.mp4", CLIP[:5])
    encode("slow.mp4", CLIP, fps=4)
    encode("small.mp4", CLIP[:, :32])
    for name, words in (
        ("short.mp4", "the reference has 9 frames, the candidate 5"),
        ("slow.mp4", "fps: the reference has 8.0, the candidate 4.0"),
        ("small.mp4", "height: the reference has 48, the candidate 32"),
    ):
        code, result = compare("a.mp4", name, "--bound", "ssim>=0.1")
        assert (code, result["state"], result["parts"]) == (1, "invalid", [])
        assert words in result["findings"][0]["message"]
        assert "judged nothing" in result["bounds"][0]["problem"]


def test_encoded_and_raw_are_compared_only_with_a_declared_reason(compare) -> None:
    encode("a.mp4", CLIP)
    np.save("b.npy", CLIP)
    code, result = compare("a.mp4", "b.npy", "--as", "video")
    assert (code, result["findings"][0]["code"]) == (1, "representation")
    code, result = compare("a.mp4", "b.npy", "--as", "video", "--across-representations", "cost of the codec")
    assert (code, result["state"]) == (0, "measured")
    assert any("declared: cost of the codec" in note for note in result["notes"])


def test_a_truncated_clip_is_one_finding(compare) -> None:
    encode("a.mp4", CLIP)
    encode("b.mp4", CLIP)
    data = Path("b.mp4").read_bytes()
    Path("b.mp4").write_bytes(data[: len(data) * 2 // 3])
    code, result = compare("a.mp4", "b.mp4")
    assert (code, len(result["findings"]), result["parts"]) == (1, 1, [])


@pytest.mark.parametrize(
    "words",
    [
        ("--bound", "ssim>=0.9"),  # for images, and these are tensors
        ("--bound", "cosine>=0.9"),
        ("--bound", "relative_l2>=0.1"),
        ("--metric", "relativ_l2"),
        ("--layout", "CWH"),
        ("--range", "nan"),
        ("--range", "0"),
        ("--shape", "2,-3"),
        ("--dtype", "f4"),
        ("--composite", "red"),
        ("--across-representations", " "),
        ("--report", "a.npy"),
        ("--report", "none/page.html"),
    ],
)
def test_wrong_words_end_with_code_2_before_anything_is_written(compare, words, folder) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(name, np.arange(4.0))
    before = Path("a.npy").read_bytes()
    assert compare("a.npy", "b.npy", *words)[0] == 2
    assert Path("a.npy").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["a.npy", "b.npy"]


def test_a_report_never_lands_in_a_compared_folder_or_on_a_link_to_an_input(compare, folder) -> None:
    for side in ("ref", "cand"):
        (folder / side).mkdir()
        np.save(folder / side / "a.npy", np.arange(4.0))
    (folder / "page.html").symlink_to(folder / "ref" / "a.npy")
    assert compare("ref", "cand", "--report", "ref/page.html")[0] == 2
    assert compare("ref", "cand", "--report", "page.html")[0] == 2
    assert np.load(folder / "ref" / "a.npy").shape == (4,)


def test_a_metric_that_was_asked_for_and_has_no_value_fails_without_a_bound(compare) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(name, PICTURE[:8, :8])
    words = ("a.npy", "b.npy", "--as", "image", "--layout", "HWC")
    assert compare(*words)[0] == 0
    code, result = compare(*words, "--metric", "ssim")
    assert (code, result["state"], series(result, "ssim")["worst"]) == (1, "failed", "nan")


def test_hostile_names_are_shown_and_never_obeyed(folder, capsys) -> None:
    name = "a\x1b[2J<script>\n::error::x\u202e.npy"
    for side, shift in (("ref", 0.0), ("cand", 0.1)):
        (folder / side).mkdir()
        np.save(folder / side / name, np.arange(4.0) + shift)
    (folder / "ref" / "gone\x1b]0;t\x07\n##[error].npy").write_bytes(b"x")
    run(["compare", "ref", "cand"])
    run(["compare", "ref", "cand", "--json"])
    streams = capsys.readouterr()
    shown = streams.out + streams.err
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert not [line for line in shown.splitlines() if line.lstrip().startswith(("::", "##["))]


def test_the_table_names_the_worst_pair_of_a_folder(folder, capsys) -> None:
    for side in ("ref", "cand"):
        (folder / side).mkdir()
        for index in range(3):
            np.save(folder / side / f"{index}.npy", np.arange(4.0) + (index == 1 and side == "cand"))
    assert run(["compare", "ref", "cand", "--metric", "abs_error_max"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tensor: 3 pairs"
    assert lines[2].split() == ["abs_error_max", "1", "1", "0.333333", "of", "the", "tensor", "1.npy"]
    assert "identical: 2 of 3" in lines


def test_alpha_counts_unless_a_colour_is_declared_to_lie_behind_it(compare) -> None:
    rgba = np.dstack([PICTURE, np.full(PICTURE.shape[:2], 255, np.uint8)])
    Image.fromarray(rgba).save("a.png")
    rgba[:8, :8, 3] = 0
    Image.fromarray(rgba).save("b.png")
    result = compare("a.png", "b.png")[1]
    assert series(result, "alpha_error_max")["worst"] == 1.0
    assert series(result, "ssim")["worst"] == 1.0
    result = compare("a.png", "b.png", "--composite", "#808080")[1]
    assert result["parts"][0]["reference"]["structure"]["mode"] == "RGB"
    assert series(result, "ssim")["worst"] < 1.0
    assert any("its alpha was laid on #808080" in note for note in result["notes"])


def test_lossy_beside_lossless_needs_a_declared_reason(compare) -> None:
    Image.fromarray(PICTURE).save("a.png")
    Image.fromarray(PICTURE).save("a.jpg", quality=95)
    code, result = compare("a.png", "a.jpg")
    assert (code, result["findings"][0]["code"]) == (1, "representation")
    assert compare("a.png", "a.jpg", "--across-representations", "a server that answers with JPEG")[0] == 0
    code, result = compare("a.jpg", "a.jpg")
    assert (code, result["is_identical"]) == (0, True)
    assert any("the same file" in note for note in result["notes"])
    assert any("both sides are lossy" in note for note in result["notes"])


def test_a_hole_of_16_by_16_is_named_by_place(compare) -> None:
    wide = np.tile(PICTURE, (5, 4, 1))
    Image.fromarray(wide).save("a.png")
    wide[64:80, 96:112] = 0
    Image.fromarray(wide).save("b.png")
    result = compare("a.png", "b.png", "--bound", "ssim_worst_tile>=0.5")[1]
    detail = series(result, "abs_diff_worst_tile")["detail"]
    assert {key: detail[key] for key in ("x", "y", "width", "height")} == {"x": 96, "y": 64, "width": 16, "height": 16}


def test_a_folder_of_frames_is_compared_as_a_clip(compare, folder) -> None:
    for side in ("ref", "cand"):
        (folder / side).mkdir()
        for index, frame in enumerate(CLIP[:4]):
            Image.fromarray(frame).save(folder / side / f"{index}.png")
    code, result = compare("ref", "cand", "--as", "video", "--bound", "ssim>=0.99")
    assert (code, result["is_identical"], result["parts"][0]["reference"]["structure"]["frames"]) == (0, True, 4)
    (folder / "cand" / "2.png").unlink()
    code, result = compare("ref", "cand", "--as", "video")
    assert (code, "frame 2 is missing" in result["findings"][0]["message"]) == (1, True)


def write_wav(path: str, samples: np.ndarray, *, rate: int = 8000) -> None:
    with wave.open(path, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes((samples * 32767).astype("<i2").tobytes())


def test_a_third_of_the_loudness_shows_in_level_and_not_in_cosine(compare) -> None:
    sine = np.sin(np.arange(8000) / 5)
    write_wav("a.wav", 0.9 * sine)
    write_wav("b.wav", 0.27 * sine)
    write_wav("c.wav", 0.9 * sine, rate=16000)
    write_wav("d.wav", 0 * sine)
    code, result = compare("a.wav", "b.wav", "--bound", "cosine>=0.99", "--bound", "relative_l2<=0.1")
    assert (code, [outcome["satisfied"] for outcome in result["bounds"]]) == (1, [True, False])
    assert compare("a.wav", "c.wav")[1]["findings"][0]["message"].startswith("sample_rate_hz: the reference has 8000")
    assert compare("a.wav", "d.wav")[1]["findings"][0]["code"] == "degenerate"
