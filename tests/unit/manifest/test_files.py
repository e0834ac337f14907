"""Files that are not what they seem: each gives one problem, and no other file suffers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paritygate.errors import UsageError
from paritygate.manifest.index import Loaded, load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import Registries


def _binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF\x00\x00\x01\xff\xfe" * 40)


def _nul(path: Path) -> None:
    path.write_bytes(b"schema_version: 1\nid: \x00\n")


def _latin(path: Path) -> None:
    path.write_bytes("title: caf\xe9\n".encode("latin-1"))


def _utf16(path: Path) -> None:
    path.write_bytes("schema_version: 1\n".encode("utf-16"))


def _huge(path: Path) -> None:
    path.write_bytes(b"# comment\n" * 200_000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _folder(path: Path) -> None:
    path.mkdir()


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere.yaml")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _escaping(path: Path) -> None:
    outside = path.parents[2] / "outside.yaml"
    outside.write_text("schema_version: 1\n", encoding="utf-8")
    path.symlink_to(outside)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_binary, "is binary"),
        (_nul, "is binary"),
        (_latin, "is not UTF-8"),
        (_utf16, "is binary"),
        (_huge, "at most 1048576 are read"),
        (_empty, "is empty"),
        (_folder, "found a folder"),
        (_dangling, "leads nowhere"),
        (_loop, "leads nowhere"),
        (_escaping, "leads out of the project"),
        (_pipe, "found a device, pipe or socket"),
    ],
)
def test_a_file_that_cannot_be_a_manifest_is_one_problem(
    make: Callable[[Path], None],
    words: str,
    sample_project: Path,
    add_case: Callable[..., Path],
    load: Callable[[], Loaded],
) -> None:
    add_case("sound")
    make(sample_project / "cases" / "odd.case.yaml")
    loaded = load()
    (problem,) = loaded.problems
    assert words in problem.text()
    assert problem.path == "cases/odd.case.yaml"
    assert [case.id for case in loaded.cases] == ["sound"]


def test_an_unreadable_file_is_one_problem(
    add_case: Callable[..., Path], load: Callable[[], Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = add_case("secret")
    path.rename(path.with_name("secret.yaml"))
    path.symlink_to("secret.yaml")

    read_bytes = Path.read_bytes

    def refuse(file: Path) -> bytes:
        # Permissions do not bind root, so the refusal is played.
        if file == path:
            raise PermissionError(13, "Permission denied")
        return read_bytes(file)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (problem,) = load().problems
    assert problem.message == "the file cannot be read: Permission denied"


def test_a_link_within_the_project_is_a_manifest(sample_project: Path, load: Callable[[], Loaded]) -> None:
    (sample_project / "shared.yaml").write_text("schema_version: 1\nextends: base.yaml\nid: linked\n", encoding="utf-8")
    (sample_project / "cases" / "linked.case.yaml").symlink_to("../shared.yaml")
    assert [case.id for case in load().cases] == ["linked"]


def test_an_adapter_linked_out_of_the_project_is_refused(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    outside = sample_project.parent / "evil.py"
    outside.write_text("", encoding="utf-8")
    (sample_project / "cases" / "linked.py").symlink_to(outside)
    add_case("linked-adapter", "candidate: {adapter: linked.py}\n")
    assert [problem.rule for problem in load().problems] == ["path"]


def test_folders_linked_out_of_the_project_lend_it_nothing(
    sample_project: Path, add_case: Callable[..., Path], load: Callable[[], Loaded]
) -> None:
    outside = sample_project.parent / "outside"
    outside.mkdir()
    (outside / "base.yaml").write_text(
        (sample_project / "cases" / "base.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (sample_project / "cases" / "linked").symlink_to(outside)
    path = add_case("one")
    path.write_text(path.read_text(encoding="utf-8").replace("base.yaml", "linked/base.yaml"), encoding="utf-8")
    assert [problem.message for problem in load().problems] == [
        "extends: cases/linked/base.yaml: the link leads out of the project"
    ]
    (sample_project / "paritygate.yaml").write_text("schema_version: 1\ncases: [cases/linked]\n", encoding="utf-8")
    assert [problem.message for problem in load().problems] == ["the link leads out of the project"]


def test_a_file_name_that_is_not_utf_8_is_a_problem_that_can_be_printed(
    sample_project: Path, load: Callable[[], Loaded]
) -> None:
    (sample_project / "cases" / os.fsdecode(b"caf\xe9.case.yaml")).write_text("id: x\n", encoding="utf-8")
    (problem,) = load().problems
    assert problem.text().encode("utf-8").startswith("cases/caf\ufffd.case.yaml:1:1: [file]".encode())


def test_a_gate_file_named_alone_is_checked_beside_its_case(
    sample_project: Path, add_case: Callable[..., Path]
) -> None:
    gate = add_case("one").with_name("one.gate.yaml")
    gate.write_text("schema_version: 1\n", encoding="utf-8")
    loaded = load_cases(find_project(sample_project), Registries(), only=gate)
    assert loaded.files == 2
    assert "orphan-gate" not in {problem.rule for problem in loaded.problems}


def test_hidden_folders_are_not_searched(sample_project: Path, load: Callable[[], Loaded]) -> None:
    hidden = sample_project / "cases" / ".cache"
    hidden.mkdir()
    (hidden / "x.case.yaml").write_text("nonsense", encoding="utf-8")
    assert load() == Loaded((), (), 0)


def test_only_narrows_to_a_folder_or_to_a_manifest_with_its_gate(
    sample_project: Path, add_case: Callable[..., Path]
) -> None:
    path = add_case("first")
    path.with_name("first.gate.yaml").write_text("schema_version: 1\n", encoding="utf-8")
    (sample_project / "cases" / "sub").mkdir()
    other = add_case("second").rename(sample_project / "cases" / "sub" / "second.case.yaml")
    other.write_text(other.read_text(encoding="utf-8").replace("base.yaml", "../base.yaml"), encoding="utf-8")
    project = find_project(sample_project)
    narrowed = load_cases(project, Registries(), only=path)
    assert narrowed.files == 2
    assert {problem.path for problem in narrowed.problems} <= {
        "cases/first.case.yaml",
        "cases/first.gate.yaml",
        "cases/base.yaml",
    }
    assert load_cases(project, Registries(), only=other.parent).files == 1
    with pytest.raises(UsageError, match="outside the project"):
        load_cases(project, Registries(), only=sample_project.parent)
    with pytest.raises(UsageError, match="no file or folder"):
        load_cases(project, Registries(), only=sample_project / "nowhere")
