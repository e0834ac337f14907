"""Files of a run are whole or absent."""

import os

import pytest

from paritygate.errors import ArtifactError
from paritygate.records import store


def test_a_failed_write_keeps_the_old_file_and_leaves_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    store.write_text_atomic(path, "old")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match=r"cannot write .*record.json: No space left on device"):
        store.write_text_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_one_clear_message(tmp_path):
    with pytest.raises(ArtifactError, match="No such file or directory"):
        store.write_text_atomic(tmp_path / "gone" / "x", "y")


def test_a_record_of_a_later_version_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "record.json").write_text('{"schema_version": 99, "whatever": 1}')
    with pytest.raises(ArtifactError, match="schema_version is 99") as caught:
        store.read_record(tmp_path)
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"), [(None, "cannot read"), ("[]", "record.json"), ('{"schema_version": 1}', "record.json")]
)
def test_what_is_no_record_is_refused(tmp_path, text, words):
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    with pytest.raises(ArtifactError, match=words):
        store.read_record(tmp_path)


def test_written_files_are_readable_by_other_users(tmp_path):
    store.write_bytes_atomic(tmp_path / "x", b"1")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644
