"""A folder and its list of digests: every way in which they can differ, and every name that a list may not hold."""

import os

import pytest

from paritygate.errors import MediaError
from paritygate.media import frozen
from paritygate.media.frozen import FrozenFile, freeze, frozen_problems, name_problems


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "frozen"
    (root / "outputs" / "000").mkdir(parents=True)
    (root / "outputs" / "000" / "0.png").write_bytes(b"picture")
    (root / "outputs" / "effective.json").write_bytes(b"{}")
    return root


def problems(folder, files, beside=("golden.json",)):
    return "; ".join(frozen_problems(folder, files, beside=beside))


def test_a_folder_is_what_was_frozen_until_something_changes(folder):
    files = freeze(folder)
    assert list(files) == ["outputs/000/0.png", "outputs/effective.json"]
    (folder / "golden.json").write_text("{}")
    assert frozen_problems(folder, files, beside=("golden.json",)) == []


def change_a_byte(folder):
    (folder / "outputs/000/0.png").write_bytes(b"Picture")


def link_a_file(folder):
    (folder / "outputs/000/0.png").rename(folder.parent / "elsewhere")
    (folder / "outputs/000/0.png").symlink_to(folder.parent / "elsewhere")


def link_a_folder(folder):
    (folder / "outputs/000").rename(folder.parent / "elsewhere")
    (folder / "outputs/000").symlink_to(folder.parent / "elsewhere")


def name_twice(folder):
    (folder.parent / "other").hardlink_to(folder / "outputs/000/0.png")


def make_a_pipe(folder):
    (folder / "outputs/000/0.png").unlink()
    os.mkfifo(folder / "outputs/000/0.png")


def nest_deeply(folder):
    (folder / "/".join(["d"] * 40)).mkdir(parents=True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (change_a_byte, "outputs/000/0.png was altered: its digest is sha256:"),
        (lambda folder: (folder / "outputs/000/0.png").write_bytes(b"short"), "has 5 bytes, the list says 7"),
        (
            lambda folder: (folder / "outputs/000/0.png").write_bytes(b"version https://git-lfs.github.com/spec/v1\n"),
            "the list says 7; it is a pointer of Git LFS",
        ),
        (lambda folder: (folder / "outputs/000/0.png").unlink(), "outputs/000/0.png is missing"),
        (lambda folder: (folder / "outputs/000/1.png").write_bytes(b"more"), "outputs/000/1.png is there and not in"),
        (lambda folder: (folder / ".hidden").write_bytes(b""), ".hidden is there and not in the list"),
        (link_a_file, "outputs/000/0.png is a symbolic link"),
        (link_a_folder, "outputs/000 is a symbolic link"),
        (name_twice, "outputs/000/0.png has more than one name (hard link)"),
        (make_a_pipe, "outputs/000/0.png is neither a file nor a folder"),
        (nest_deeply, "is deeper than 16 folders"),
    ],
)
def test_every_change_of_a_folder_is_found(folder, change, problem):
    files = freeze(folder)
    change(folder)
    assert problem in problems(folder, files)


def test_all_problems_are_told_at_once_and_thousands_are_counted(folder):
    files = freeze(folder)
    change_a_byte(folder)
    (folder / "outputs/effective.json").unlink()
    for index in range(30):
        (folder / f"extra{index}").write_bytes(b"")
    found = frozen_problems(folder, files, beside=())
    assert found[-1] == "and 12 more"
    assert len(found) == 21


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/etc/passwd", "is not a plain relative path"),
        ("../golden.json", "is not a plain relative path"),
        ("outputs/../../x", "is not a plain relative path"),
        ("outputs//x", "is not a plain relative path"),
        ("./x", "is not a plain relative path"),
        ("", "is not a plain relative path"),
        ("a\\..\\b", "is not a plain relative path"),
        ("C:/x", "is not a plain relative path"),
        ("a\0b", "holds a character that does not show"),
        ("a\nb", "holds a character that does not show"),
        ("a\u202eb", "holds a character that does not show"),
        ("a\ud800", "holds a character that does not show"),
        ("x" * 401, "is too long or too deep"),
        ("/".join("abcdefghijklmnopq"), "is too long or too deep"),
        ("OUTPUTS/000/0.png", "are one name where letter case or Unicode form do not count"),
        ("Golden.JSON", "are one name where letter case or Unicode form do not count"),
        ("golden.json", "is the list itself"),
    ],
)
def test_a_list_with_such_a_name_is_refused_before_a_file_is_read(folder, name, problem, monkeypatch):
    files = freeze(folder)
    listed = {**files, name: files["outputs/000/0.png"]}
    monkeypatch.setattr(frozen, "_file_problem", None)
    assert problem in problems(folder, listed)


def test_names_that_differ_in_their_unicode_form_are_one():
    assert name_problems({"caf\u00e9": None, "cafe\u0301": None})


def test_a_file_is_not_read_when_its_size_differs(folder, monkeypatch):
    files = freeze(folder)
    huge = {**files, "outputs/000/0.png": FrozenFile(sha256="sha256:" + "0" * 64, size=1 << 33)}
    with (folder / "outputs/000/0.png").open("r+b") as file:
        file.truncate(1 << 34)
    monkeypatch.setattr(os, "read", None)
    assert f"has {1 << 34} bytes, the list says {1 << 33}" in problems(
        folder, {"outputs/000/0.png": huge["outputs/000/0.png"]}
    )


def test_a_folder_that_is_a_link_or_none_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert problems(tmp_path / "link", {}) == "link is not a directory"
    assert problems(tmp_path / "none", {}) == "none is not a directory"


@pytest.mark.parametrize("spoil", [link_a_file, link_a_folder, make_a_pipe, nest_deeply])
def test_nothing_is_frozen_that_would_be_refused_later(folder, spoil):
    spoil(folder)
    with pytest.raises(MediaError):
        freeze(folder)


def test_a_list_without_end_is_not_walked(monkeypatch, folder):
    monkeypatch.setattr(frozen, "MAX_FILES", 3)
    files = freeze(folder)
    for index in range(10):
        (folder / f"extra{index}").write_bytes(b"")
    with pytest.raises(MediaError, match="more than 3 files"):
        freeze(folder)
    assert "the rest was not looked at" in problems(folder, files)
    assert "the list names 4 files" in problems(folder, dict.fromkeys("abcd"))
