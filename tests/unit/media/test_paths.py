"""A leg's file names are not trusted."""

from __future__ import annotations

import os
import subprocess

import pytest

from paritygate.errors import MediaError
from paritygate.media import paths
from paritygate.media.digests import tree_digest
from paritygate.media.paths import contained, list_files, read_contained


@pytest.fixture
def leg(tmp_path):
    root = tmp_path / "candidate"
    (root / "outputs" / "000").mkdir(parents=True)
    (root / "outputs" / "000" / "0.png").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    return root


def test_a_plain_relative_path_is_read(leg):
    assert read_contained(leg, "outputs/000/0.png") == b"inside"


@pytest.mark.parametrize(
    "name",
    ["", ".", "/etc/hostname", "../secret", "outputs/../../secret", "outputs\\000", "a\0b", "outputs/000", "outputs"],
)
def test_a_path_that_leaves_the_leg_or_names_no_file_is_refused(leg, name):
    with pytest.raises(MediaError) as caught:
        read_contained(leg, name)
    assert caught.value.kind == "path"


def test_a_file_with_a_second_name_is_refused_because_it_may_be_the_other_legs(leg, tmp_path):
    (leg / "outputs" / "000" / "1.png").hardlink_to(tmp_path / "secret")
    with pytest.raises(MediaError, match="more than one name") as caught:
        read_contained(leg, "outputs/000/1.png")
    assert caught.value.kind == "path"


def test_a_link_out_of_the_leg_is_refused_as_file_and_as_folder(leg, tmp_path):
    (leg / "outputs" / "link.png").symlink_to(tmp_path / "secret")
    (leg / "folder").symlink_to(tmp_path)
    for name in ("outputs/link.png", "folder/secret"):
        with pytest.raises(MediaError, match="symbolic link"):
            contained(leg, name)
    assert list_files(leg) == ("folder", "outputs/000/0.png", "outputs/link.png")


def test_a_pipe_is_refused_instead_of_waited_for(leg):
    os.mkfifo(leg / "pipe.png")
    with pytest.raises(MediaError, match="not a regular file"):
        read_contained(leg, "pipe.png")


def test_a_missing_file_and_an_oversized_one_are_told_apart(leg, monkeypatch):
    with pytest.raises(MediaError, match="No such file") as caught:
        read_contained(leg, "outputs/001/0.png")
    assert caught.value.kind == "unreadable"
    monkeypatch.setattr(paths, "MAX_BYTES", {".png": 5})
    with pytest.raises(MediaError, match="more than the 5 bytes") as caught:
        read_contained(leg, "outputs/000/0.png")
    assert caught.value.kind == "size"
    (leg / "effective.json").touch()
    os.truncate(leg / "effective.json", paths.MAX_OTHER_BYTES + 1)
    with pytest.raises(MediaError, match="more than the 67108864 bytes"):
        read_contained(leg, "effective.json")


def test_the_end_of_a_log_is_read_whatever_its_size_and_never_through_a_pipe(leg):
    (leg / "log.txt").write_bytes(b"a" * 100 + b"end")
    assert paths.read_tail(leg, "log.txt", limit=4) == b"aend"
    assert len(paths.read_tail(leg, "log.txt", limit=1000)) == 103
    (leg / "log.txt").unlink()
    os.mkfifo(leg / "log.txt")
    with pytest.raises(MediaError, match="not a regular file"):
        paths.read_tail(leg, "log.txt", limit=4)


def test_a_file_exchanged_for_a_pipe_after_the_check_is_not_waited_for(leg, monkeypatch):
    os.mkfifo(leg / "pipe")
    monkeypatch.setattr(paths, "contained", lambda root, relative: root / relative)
    with pytest.raises(MediaError, match="not a regular file"):
        read_contained(leg, "pipe")


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "model"
    (root / "unet").mkdir(parents=True)
    for name, text in {"unet/config.json": "{}", "unet.txt": "b", ".hidden": "c", "Z": "d", "ä b": "e"}.items():
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_a_tree_digest_is_what_the_shell_computes(tree):
    command = r"find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
    shell = subprocess.run(["sh", "-c", command], cwd=tree, check=True, capture_output=True, text=True)
    assert tree_digest(tree) == "sha256:" + shell.stdout.split()[0]


def test_every_change_of_a_tree_changes_its_digest(tree):
    seen = {tree_digest(tree)}
    (tree / ".stray").write_text("")
    seen.add(tree_digest(tree))
    (tree / ".stray").rename(tree / ".other")
    seen.add(tree_digest(tree))
    (tree / "Z").write_text("D")
    seen.add(tree_digest(tree))
    assert len(seen) == 4


def test_a_tree_with_a_link_or_an_unwritable_name_has_no_digest(tree, tmp_path):
    (tree / "link").symlink_to(tmp_path)
    with pytest.raises(MediaError, match="link or device"):
        tree_digest(tree)
    (tree / "link").unlink()
    (tree / "two\nlines").write_text("")
    with pytest.raises(MediaError, match="line break"):
        tree_digest(tree)


def test_no_files_means_no_digest(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(MediaError):
            tree_digest(folder)
