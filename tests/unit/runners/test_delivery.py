"""The delivery format: what is taken, and every way in which a folder is refused."""

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest
import soundfile

from paritygate.errors import ArtifactError, LegError
from paritygate.media.frozen import MAX_FILE_BYTES
from paritygate.media.images import encode_png
from paritygate.media.safetensors import write_safetensors
from paritygate.media.tensors import Tensor
from paritygate.runners import delivery
from paritygate.runners.writer import LegWriter

FLOATS = np.linspace(0, 1, 48, dtype=np.float32).reshape(4, 4, 3)
PIXELS = np.rint(FLOATS * 255).astype(np.uint8)
CLIP = np.stack([PIXELS, 255 - PIXELS])
SOUND = np.sin(np.arange(400, dtype=np.float32) / 9)[:, None].astype(np.float32)


@pytest.fixture
def writer(make_job, tmp_path):
    (tmp_path / "run").mkdir()
    return LegWriter(make_job())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "made/0000").mkdir(parents=True)
    return tmp_path / "made"


def put_png(folder: Path, name="0000/0.png", pixels=PIXELS) -> Path:
    (folder / name).write_bytes(encode_png(pixels))
    return folder / name


def put_npy(folder: Path, name: str, array, **sidecar) -> Path:
    np.save(folder / name, array)
    if sidecar:
        (folder / name).with_suffix(".json").write_text(json.dumps(sidecar))
    return folder / name


def put_clip(folder: Path, name="0000/0.video.mp4") -> Path:
    with av.open(str(folder / name), "w") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width = stream.height = 32
        for value in range(6):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 30 * value, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return folder / name


def put_tensors(folder: Path, name="0000/0.tensors.safetensors") -> Path:
    tensors = [Tensor(name="a", array=FLOATS, dtype="float32"), Tensor(name="b", array=PIXELS, dtype="uint8")]
    write_safetensors(folder / name, tensors)
    return folder / name


def put_wav(folder: Path, name="0000/0.audio.wav") -> Path:
    soundfile.write(folder / name, SOUND, 8000)
    return folder / name


def stored(writer: LegWriter) -> set[str]:
    writer.finish(complete=True)
    found = json.loads((writer.directory / "outputs.json").read_text())["items"]
    return {
        path
        for item in found
        for entry in (*item["images"], *item["media"])
        for path in (entry["path"], entry.get("float_path"))
        if path
    }


def refusal(folder: Path, writer: LegWriter) -> str:
    with pytest.raises(LegError) as caught:
        delivery.read(folder, writer)
    return caught.value.message


def test_every_kind_of_output_is_taken(folder, writer):
    put_png(folder)
    put_npy(folder, "0000/0.float.npy", FLOATS)
    put_npy(folder, "0000/1.float.npy", FLOATS)
    put_png(folder, "0000/2.png", PIXELS[..., :1])
    put_clip(folder)
    put_npy(folder, "0000/1.video.npy", CLIP, fps=16)
    put_wav(folder)
    put_npy(folder, "0000/1.audio.npy", SOUND, sample_rate_hz=48000)
    put_tensors(folder)
    (folder / "0001").mkdir()
    put_png(folder, "0001/0.png", np.dstack([PIXELS, PIXELS[..., :1]]))
    delivery.read(folder, writer)
    assert stored(writer) == {
        f"outputs/{name}"
        for name in (
            "0000/0.png", "0000/0.npy", "0000/1.png", "0000/1.npy", "0000/2.png", "0000/0.video.mp4",
            "0000/1.video.npy", "0000/0.audio.wav", "0000/1.audio.npy", "0000/0.tensors.safetensors", "0001/0.png",
        )
    }  # fmt: skip
    assert np.array_equal(np.load(writer.directory / "outputs/0000/0.npy"), FLOATS)
    text = (writer.directory / "outputs.json").read_text()
    assert '"fps": 16.0' in text
    assert '"sample_rate_hz": 48000' in text


def test_files_made_elsewhere_are_copied_and_stay(folder, writer):
    clip = put_tensors(folder)
    before = clip.read_bytes()
    delivery.read(folder, writer)
    assert clip.read_bytes() == before


def test_floats_that_are_not_finite_are_kept_for_the_comparison_to_name(folder, writer):
    put_npy(folder, "0000/0.float.npy", np.where(FLOATS > 0.5, np.nan, FLOATS).astype(np.float32))
    delivery.read(folder, writer)
    assert np.isnan(np.load(writer.directory / "outputs/0000/0.npy")).any()


@pytest.mark.parametrize(
    "put",
    [
        put_png,
        put_clip,
        put_tensors,
        put_wav,
        lambda folder: put_npy(folder, "0000/0.float.npy", FLOATS),
        lambda folder: put_npy(folder, "0000/0.video.npy", CLIP, fps=4),
        lambda folder: put_npy(folder, "0000/0.audio.npy", SOUND, sample_rate_hz=8000),
    ],
    ids=["png", "mp4", "safetensors", "wav", "float", "frames", "samples"],
)
def test_a_file_that_was_half_written_is_named_wherever_it_ends(folder, writer, put):
    path = put(folder)
    whole = path.read_bytes()
    name = path.relative_to(folder).as_posix()
    for length in {0, 1, 11, len(whole) // 3, len(whole) // 2, len(whole) - 60, len(whole) - 1}:
        path.write_bytes(whole[:length])
        assert name in refusal(folder, writer), length
    assert stored(writer) == set()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("notes.txt", r"'notes.txt' is no file of the delivery format"),
        ("0.png", "'0.png' is no file"),
        ("0000/00.png", "is no file"),
        ("0000/0.jpg", "is no file"),
        ("0000/0.bin", "is no file"),
        ("0000/0.float.json", "is no file"),
        ("0000/0.video.exe", "is no file"),
        ("0000/0.PNG", "is no file"),
        ("0000/-1.png", "is no file"),
        ("0000/10000.png", "is no file"),
        ("0000/٣.png", "is no file"),
        ("0000/deeper/0.png", r"'0000/deeper' is no file"),
        ("0000/0.video.json", "states a rate of no array"),
        ("0000/0.png", "a lossless PNG is required"),
    ],
)
def test_an_unknown_file_is_refused_by_name_and_what_is_good_is_kept(folder, writer, name, words):
    put_png(folder, "0000/1.png")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"{}")
    assert re.search(words, refusal(folder, writer))
    assert stored(writer) == {"outputs/0000/1.png"}


def test_a_folder_that_is_named_like_no_item_is_refused(folder, writer):
    (folder / "no item").mkdir()
    put_png(folder, "no item/0.png")
    assert "no item/0.png: 'no item' is no item id" in refusal(folder, writer)


def test_all_problems_are_one_error(folder, writer):
    for index in range(30):
        (folder / f"0000/{index}.png").write_bytes(b"GIF89a")
    (folder / "stray").write_bytes(b"")
    (folder / "effective.json").write_text("[]")
    message = refusal(folder, writer)
    assert "its content is GIF" in message
    assert "'stray'" in message
    assert "effective.json" in message
    assert message.endswith("; and 12 more")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link"),
        (lambda path: path.symlink_to(path.parent / "1.png"), "is a symbolic link"),
        (lambda path: os.link(path.parent / "1.png", path), "more than one name"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 30)), "more than the 314572800 bytes"),
    ],
    ids=["device", "link", "hard link", "pipe", "sparse"],
)
def test_what_is_no_plain_file_is_refused_unread(folder, writer, spoil, words):
    put_png(folder, "0000/1.png")
    spoil(folder / "0000/0.png")
    message = refusal(folder, writer)
    assert "0000/0.png" in message
    assert words in message


def test_a_linked_folder_is_not_followed(folder, writer, tmp_path):
    put_png(folder)
    (folder / "0001").symlink_to(folder / "0000")
    assert "'0001' is no file" in refusal(folder, writer)
    (tmp_path / "linked").symlink_to(folder)
    assert "nothing was delivered" in refusal(tmp_path / "linked", writer)


def test_a_float_image_must_round_to_its_picture(folder, writer):
    put_png(folder, pixels=PIXELS + (PIXELS < 200))
    put_npy(folder, "0000/0.float.npy", FLOATS)
    message = refusal(folder, writer)
    assert re.search(r"0000/0.float.npy does not round to 0000/0.png: \d+ of 48 values differ, by up to 1 of", message)
    put_png(folder, pixels=PIXELS[:2])
    assert "their shapes are (4, 4, 3) and (2, 4, 3)" in refusal(folder, writer)


@pytest.mark.parametrize(
    ("sidecar", "words"),
    [
        (None, r"needs its rate in 0000/0.video.json, such as {\"fps\":16}"),
        ("{}", "states {}"),
        ('{"fps": 0}', "states {'fps': 0"),
        ('{"fps": 1e9}', "at most 100000"),
        ('{"fps": 16, "sample_rate_hz": 8000}', "states {'fps'"),
        ('{"fps": "16"}', "0000/0.video.json: Expected"),
        ('{"fps": NaN}', "0000/0.video.json"),
        ('{"fps": 16, "frames": 2}', "unknown field `frames`"),
    ],
)
def test_an_array_of_frames_needs_its_rate(folder, writer, sidecar, words):
    put_npy(folder, "0000/0.video.npy", CLIP)
    if sidecar is not None:
        (folder / "0000/0.video.json").write_text(sidecar)
    assert re.search(words, refusal(folder, writer))


@pytest.mark.parametrize("name", ["0.float.npy", "0.video.npy", "0.video.mp4", "0.audio.wav", "0.tensors.npz"])
def test_a_sparse_file_that_claims_a_disk_is_refused_unread(folder, writer, name):
    path = folder / "0000" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    assert f"{name} has {MAX_FILE_BYTES + 1} bytes, at most" in refusal(folder, writer)


def test_an_output_is_given_once(folder, writer):
    put_npy(folder, "0000/0.video.npy", CLIP, fps=4)
    put_clip(folder)
    assert re.search(r"is given 2 times: 0000/0.video.(mp4|npy)", refusal(folder, writer))
    (folder / "0000/0.video.npy").unlink()
    assert "0000/0.video.json stands beside 0000/0.video.mp4" in refusal(folder, writer)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (CLIP.astype(np.float64), "frames are float64"),
        (CLIP.astype(np.float32), r"lie in \[0, 255\]"),
        (CLIP[0], "have the shape"),
        (np.array([object()]), "0000/0.video.npy"),
    ],
)
def test_an_array_that_is_no_clip_is_refused(folder, writer, array, words):
    put_npy(folder, "0000/0.video.npy", array, fps=4)
    message = refusal(folder, writer)
    assert "0000/0.video.npy" in message
    assert re.search(words, message)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "effective.json"),
        ("[]", "Expected `object`"),
        ('{"setings": {}}', "unknown field `setings`"),
        ('{"schema_version": 2}', "later version 2"),
        ('{"settings": {"a": [1]}}', "settings"),
        ('{"settings": {"": 1}}', "settings"),
        ('{"settings": {"a": NaN}}', "effective.json"),
        ('{"token_ids": {"0000": [1]}}', "token_ids"),
        ('{"token_ids": {"0000": [[1.5]]}}', "token_ids"),
        ('{"token_ids": {"0000": [[99999999999999999999]]}}', "token_ids"),
        ('{"timesteps": [true]}', "timesteps"),
        ('{"timesteps": [1e999]}', "timesteps|effective.json"),
        ('{"sigmas": ["much"]}', "sigmas"),
        ('{"initial_latents": {"0000": "sha256:ABC"}}', "initial_latents"),
        ('{"features": {"cache": {"name": 1}}}', "features"),
        ('{"features": {"cache": {"hits": null}}}', "features"),
        ('{"settings": ' + "[" * 100_000, "effective.json"),
        ('{"timesteps": [' + "1," * (1 << 17) + "1]}", "timesteps"),
        ('{"settings": {"a": "' + "x" * (1 << 17) + '"}}', "settings"),
    ],
)
def test_effective_settings_are_strictly_typed_and_bounded(folder, writer, content, words):
    put_png(folder)
    (folder / "effective.json").write_text(content)
    message = refusal(folder, writer)
    assert message.startswith("the outputs are refused: effective.json")
    assert re.search(words, message)
    assert len(message) < 600


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
        (Path.mkdir, "is not a regular file"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 30)), "more than the 67108864 bytes"),
    ],
    ids=["pipe", "device", "dangling", "folder", "sparse"],
)
def test_effective_settings_are_a_plain_file(folder, writer, spoil, words):
    put_png(folder)
    spoil(folder / "effective.json")
    message = refusal(folder, writer)
    assert "effective.json" in message
    assert words in message


def test_a_folder_of_too_many_files_is_refused(folder, writer, monkeypatch):
    monkeypatch.setattr(delivery, "MAX_FILES", 2)
    for index in range(3):
        put_png(folder, f"0000/{index}.png")
    assert "holds more than the 2 files that are read" in refusal(folder, writer)


def put_sparse(folder: Path, frames: int) -> None:
    """A clip that states its frames and holds none: no block of the disk is used."""
    path = folder / "0000/0.video.npy"
    np.save(path, np.zeros((1, 1000, 1000, 3), np.uint8))
    header = path.read_bytes()[:128].replace(b"(1, 1000", f"({frames}, 1000".encode()).replace(b" " * 8 + b"\n", b"\n")
    path.write_bytes(header[:-1].ljust(127) + b"\n")
    os.truncate(path, 128 + frames * 3_000_000)
    (folder / "0000/0.video.json").write_text('{"fps": 16}')


def test_an_array_that_does_not_fit_on_the_disk_is_not_begun(folder, writer, monkeypatch):
    put_sparse(folder, 2)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5_999_999))
    with pytest.raises(ArtifactError, match="it would have 6000000 bytes, which are not free"):
        delivery.read(folder, writer)
    assert not [path for path in (writer.directory / "outputs").rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_listed_is_named(folder, writer, monkeypatch):
    put_png(folder, "0000/0.png")
    listed = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "0000":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert "made/0000/ cannot be read: Permission denied" in refusal(folder, writer)


def test_a_folder_without_outputs_is_refused(folder, writer):
    assert "nothing was delivered into made/" in refusal(folder, writer)
    (folder / "effective.json").write_text("{}")
    assert "nothing was delivered into made/" in refusal(folder, writer)
