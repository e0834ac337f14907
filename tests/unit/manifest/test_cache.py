from __future__ import annotations

import hashlib
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from paritygate.manifest import cache as cache_module
from paritygate.manifest import index
from paritygate.manifest.index import Loaded
from paritygate.manifest.loader import Document, parse


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are really parsed, as they are."""
    seen: list[str] = []

    def spy(text: str, *, display: str) -> Document:
        seen.append(display)
        return parse(text, display=display)

    monkeypatch.setattr(index, "parse", spy)
    return seen


def _cache_file(root: Path) -> Path:
    folder = cache_module.cache_folder(root)
    assert folder is not None
    return folder / "manifests.msgpack"


def test_an_unchanged_file_is_parsed_once(
    add_case: Callable[..., Path], load: Callable[[], Loaded], parsed: list[str]
) -> None:
    path = add_case("one")
    add_case("two")
    first = load()
    assert sorted(parsed) == ["cases/base.yaml", "cases/one.case.yaml", "cases/two.case.yaml"]
    parsed.clear()
    assert load() == first
    assert parsed == []
    path.write_text(path.read_text(encoding="utf-8") + "title: another\n", encoding="utf-8")
    assert load().cases[0].title == "another"
    assert parsed == ["cases/one.case.yaml"]


def test_a_file_with_a_problem_is_parsed_again_and_reported_again(
    add_case: Callable[..., Path], load: Callable[[], Loaded], parsed: list[str]
) -> None:
    add_case("bad", "title: a\ntitle: b\n")
    first = load().problems
    parsed.clear()
    assert load().problems == first != ()
    assert parsed == ["cases/bad.case.yaml"]


def test_files_beside_an_unchanged_manifest_are_looked_at_again(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    add_case("prompts", "suite: {prompts: prompts.txt}\n")
    assert load().problems == ()
    (sample_project / "cases" / "adapter.py").unlink()
    (sample_project / "cases" / "prompts.txt").write_text("# none\n", encoding="utf-8")
    assert [problem.rule for problem in load().problems] == ["files", "suite"]


def test_an_unchanged_manifest_meets_changed_registries(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    add_case("one")
    assert load().problems == ()
    lanes = sample_project / ".buildkite" / "lanes.yml"
    lanes.write_text(lanes.read_text(encoding="utf-8").replace("nightly:", "daily:"), encoding="utf-8")
    assert [problem.rule for problem in load().problems] == ["lane"]


@pytest.mark.parametrize("content", [b"", b"short", b"\x00" * 4000, b"\x80" * 64])
def test_a_broken_cache_is_ignored(
    content: bytes, sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    add_case("one")
    first = load()
    _cache_file(sample_project).write_bytes(content)
    assert load() == first


def test_a_flipped_byte_is_noticed(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded], parsed: list[str]
) -> None:
    add_case("one")
    first = load()
    content = bytearray(_cache_file(sample_project).read_bytes())
    content[-10] ^= 1
    _cache_file(sample_project).write_bytes(content)
    parsed.clear()
    assert load() == first
    assert len(parsed) == 2


def test_what_the_schema_refuses_cannot_come_in_through_the_cache(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    path = add_case("one")
    load()
    source = path.read_bytes()
    forged = {**parse(source.decode(), display="f").data, "unheard_of": 1}
    payload = msgspec.msgpack.encode({hashlib.sha256(source).digest(): forged})
    _cache_file(sample_project).write_bytes(cache_module._stamp(payload) + payload)
    assert [problem.rule for problem in load().problems] == ["unknown-key"]


def test_a_change_of_the_loader_makes_the_cache_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_module._stamp(b"")
    monkeypatch.setattr(cache_module, "__version__", "999")
    assert cache_module._stamp(b"") != before


def _link_elsewhere(folder: Path) -> None:
    moved = folder.with_name("moved")
    folder.rename(moved)
    folder.symlink_to(moved)


def _replace_by_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    "spoil",
    [lambda folder: folder.chmod(0o770), lambda folder: folder.chmod(0o705), _link_elsewhere, _replace_by_file],
    ids=["open to a group", "open to all", "a link", "a file"],
)
def test_a_folder_that_is_not_private_is_neither_read_nor_written(
    sample_project: Path,
    add_case: Callable[..., Path],
    load: Callable[[], Loaded],
    parsed: list[str],
    spoil: Callable[[Path], None],
) -> None:
    add_case("one")
    first = load()
    folder = _cache_file(sample_project).parent
    spoil(folder)
    before = sorted(folder.parent.rglob("*"))
    parsed.clear()
    assert load() == first
    assert len(parsed) == 2
    add_case("two")
    assert load().problems == ()
    assert sorted(folder.parent.rglob("*")) == before


def test_the_cache_is_private_and_leaves_the_checkout_alone(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    add_case("one")
    before = sorted(sample_project.rglob("*"))
    load()
    file = _cache_file(sample_project)
    assert sorted(sample_project.rglob("*")) == before
    assert [path.name for path in file.parent.iterdir()] == ["manifests.msgpack"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (file.parent, file.parent.parent)] == [0o700, 0o700]


def test_a_cache_folder_inside_the_checkout_is_not_used(
    sample_project: Path,
    add_case: Callable[..., Path],
    load: Callable[[], Loaded],
    parsed: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(sample_project / ".cache"))
    add_case("one")
    assert load() == load()
    assert len(parsed) == 4
    assert not (sample_project / ".cache").exists()


def test_without_a_stated_cache_folder_it_is_the_one_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for stated in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", stated)
        folder = cache_module.cache_folder(tmp_path / "project")
        assert folder is not None
        assert folder.parent == tmp_path / "home" / ".cache" / "paritygate"
    other = cache_module.cache_folder(tmp_path / "other")
    assert other is not None
    assert other.name != folder.name
