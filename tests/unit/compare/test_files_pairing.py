"""Pairing: every file has a partner or is named as one that has none."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from paritygate.compare.files.kinds import kind_of
from paritygate.compare.files.pairing import Pairing, pair_up
from paritygate.errors import MediaError, UsageError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + b"IHDR"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for side in ("ref", "cand"):
        (tmp_path / side / "deep").mkdir(parents=True)
        for name in ("a.npy", "deep/b.npy"):
            np.save(tmp_path / side / name, np.arange(4.0))
    return tmp_path / "ref", tmp_path / "cand"


def codes(pairing: Pairing) -> list[tuple[str, str | None]]:
    return [(finding.code, finding.item) for finding in pairing.findings]


def test_files_of_folders_are_paired_by_their_path(folders: tuple[Path, Path]) -> None:
    found = pair_up(*folders)
    assert [(pair.name, pair.kind) for pair in found.pairs] == [("a.npy", "tensor"), ("deep/b.npy", "tensor")]
    assert (found.findings, found.notes) == ((), ())


def test_all_that_is_wrong_with_two_folders_is_told_in_one_pass(folders: tuple[Path, Path]) -> None:
    ref, cand = folders
    (ref / "only.npy").write_bytes(b"x")
    (cand / "extra.npy").write_bytes(b"x")
    for side in folders:
        (side / "readme.txt").write_text("hello")
    (ref / "empty.png").write_bytes(b"")
    (cand / "empty.png").write_bytes(PNG)
    (ref / "kind.mp4").write_bytes(b"\x00\x00\x00\x18ftypmp42")
    (cand / "kind.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    (ref / "lie.png").write_bytes(b"\x93NUMPY\x01\x00")
    (cand / "lie.png").write_bytes(PNG)
    (ref / "gone.npy").symlink_to("nowhere")
    (cand / "gone.npy").write_bytes(b"\x93NUMPY")
    assert sorted(codes(pair_up(ref, cand))) == [
        ("extra", "extra.npy"),
        ("format", "lie.png"),
        ("format", "readme.txt"),
        ("format", "readme.txt"),
        ("kind", "kind.mp4 / kind.wav"),
        ("missing", "only.npy"),
        ("unreadable", "empty.png"),
        ("unreadable", "gone.npy"),
    ]
    assert len(pair_up(ref, cand).pairs) == 2


def test_hidden_system_and_ignored_files_are_left_out_and_said(folders: tuple[Path, Path]) -> None:
    ref, cand = folders
    (ref / ".DS_Store").write_bytes(b"x")
    (ref / "Thumbs.db").write_bytes(b"x")
    (ref / "notes.txt").write_bytes(b"x")
    found = pair_up(ref, cand, ignore=["*.txt"])
    assert found.findings == ()
    assert found.notes == (
        "reference: 2 hidden or system files left out: .DS_Store, Thumbs.db",
        "reference: 1 ignored file left out: notes.txt",
    )


def test_a_sidecar_is_no_file_of_its_own(folders: tuple[Path, Path]) -> None:
    for side in folders:
        (side / "raw.bin").write_bytes(bytes(16))
        (side / "raw.bin.json").write_text('{"dtype": "float32", "shape": [4]}')
    found = pair_up(*folders)
    assert [pair.name for pair in found.pairs] == ["a.npy", "deep/b.npy", "raw.bin"]
    assert found.findings == ()


def test_files_that_differ_in_their_ending_only_are_paired_where_that_is_unambiguous(tmp_path: Path) -> None:
    for name in ("ref/a.npy", "ref/b.npy", "cand/a.npz", "cand/b.npz", "cand/b.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"PK")
    np.save(tmp_path / "ref/a.npy", np.arange(3.0))
    found = pair_up(tmp_path / "ref", tmp_path / "cand")
    assert [pair.name for pair in found.pairs] == ["a.npy / a.npz"]
    assert codes(found) == [("missing", "b.npy"), ("extra", "b.npz"), ("extra", "b.pt")]


def test_links_to_folders_are_not_followed_and_loops_end(folders: tuple[Path, Path]) -> None:
    ref, cand = folders
    (ref / "loop").symlink_to(ref)
    (ref / "self").symlink_to("self")
    assert codes(pair_up(ref, cand)) == [("path", "loop"), ("missing", "self")]


def test_a_pipe_is_a_finding_and_nobody_waits_for_it(folders: tuple[Path, Path]) -> None:
    ref, cand = folders
    os.mkfifo(ref / "p.npy")
    (cand / "p.npy").write_bytes(b"\x93NUMPY")
    assert codes(pair_up(ref, cand)) == [("path", "p.npy")]


def test_the_same_file_on_both_sides_is_said(folders: tuple[Path, Path]) -> None:
    ref, cand = folders
    (cand / "a.npy").unlink()
    os.link(ref / "a.npy", cand / "a.npy")
    assert pair_up(ref, cand).notes == ("a.npy: both sides are the same file, so that they are equal says nothing",)


def test_two_empty_folders_are_a_failure(tmp_path: Path) -> None:
    for side in ("ref", "cand"):
        (tmp_path / side).mkdir()
    assert codes(pair_up(tmp_path / "ref", tmp_path / "cand")) == [("nothing-compared", None)]


def test_a_file_and_a_folder_or_nothing_at_all_are_usage_errors(folders: tuple[Path, Path]) -> None:
    ref, cand = folders
    with pytest.raises(UsageError, match="is a folder"):
        pair_up(ref, cand / "a.npy")
    with pytest.raises(UsageError, match="does not exist"):
        pair_up(ref, cand / "none")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.png", PNG, "image"),
        ("a.png", PNG + b"acTL" + b"IDAT", "video"),
        ("a.png", PNG + b"IDAT" + b"acTL", "image"),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02" + bytes(9), "video"),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10" + bytes(9), "image"),
        ("a.GIF", b"GIF89a", "video"),
        ("a.pt", b"PK\x03\x04", "tensor"),
        ("a.flac", b"fLaC", "audio"),
    ],
)
def test_content_decides_what_a_file_is_compared_as(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert kind_of(tmp_path / name) == kind


def test_a_folder_is_read_as_a_clip_only_where_that_is_declared(tmp_path: Path) -> None:
    assert kind_of(tmp_path, declared="video") == "video"
    with pytest.raises(MediaError):
        kind_of(tmp_path, declared="tensor")
