"""Files of a run are whole or absent."""

import os
from pathlib import Path

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


def test_an_interrupted_write_leaves_no_litter(tmp_path, monkeypatch):
    def interrupted(_handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write_text_atomic(tmp_path / "x", "y")
    assert list(tmp_path.iterdir()) == []


def test_a_durable_write_also_makes_the_new_name_durable(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink()))
    store.write_text_atomic(tmp_path / "x", "y")
    assert synced[1:] == [tmp_path]
    store.write_text_atomic(tmp_path / "z", "y", durable=False)
    assert len(synced) == 2


def test_text_that_utf_8_cannot_hold_is_escaped(tmp_path):
    store.write_text_atomic(tmp_path / "x", "a\udc80b")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "a\\udc80b"


def test_a_record_is_read_under_any_name_and_in_any_folder(tmp_path):
    (tmp_path / "run.json").mkdir()
    (tmp_path / "run.json" / "kept").write_text('{"schema_version": 99}')
    with pytest.raises(ArtifactError, match="schema_version is 99"):
        store.read_record(tmp_path / "run.json" / "kept")


def test_a_missing_folder_is_one_clear_message(tmp_path):
    with pytest.raises(ArtifactError, match="No such file or directory"):
        store.write_text_atomic(tmp_path / "gone" / "x", "y")


def test_a_record_of_a_later_version_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "record.json").write_text('{"schema_version": 99, "whatever": 1}')
    with pytest.raises(ArtifactError, match="schema_version is 99") as caught:
        store.read_record(tmp_path / "record.json")
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"), [(None, "cannot read"), ("[]", "record.json"), ('{"schema_version": 1}', "record.json")]
)
def test_what_is_no_record_is_refused(tmp_path, text, words):
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    with pytest.raises(ArtifactError, match=words):
        store.read_record(tmp_path / "record.json")


def test_written_files_are_readable_by_other_users(tmp_path):
    store.write_bytes_atomic(tmp_path / "x", b"1")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644
