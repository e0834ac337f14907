"""Every file in ``tests/samples/manifest`` is a test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from paritygate.cli.validate import command
from paritygate.manifest.rules.table import summaries

SAMPLES = Path(__file__).parents[2] / "samples" / "manifest"
OK = sorted((SAMPLES / "ok").glob("*.case.yaml"))
ERR = sorted((SAMPLES / "err").glob("*.out"))


def validate_lines(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    monkeypatch.chdir(root)
    result = CliRunner().invoke(command, [], standalone_mode=False)
    assert result.exception is None
    return result.return_value, result.stdout.splitlines()


def lay(sample: Path, root: Path) -> None:
    """Put a sample over the sample project: a file among the cases, a folder over the root."""
    folder = sample.with_suffix("")
    if folder.is_dir():
        shutil.copytree(folder, root, dirs_exist_ok=True)
        return
    manifest = sample.with_name(sample.name.removesuffix(".out").removesuffix(".case.yaml") + ".case.yaml")
    shutil.copy(manifest, root / "cases")


@pytest.mark.parametrize("sample", OK, ids=lambda path: path.name)
def test_a_sound_sample_validates(sample: Path, sample_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(sample, sample_project)
    code, lines = validate_lines(sample_project, monkeypatch)
    assert (code, len(lines)) == (0, 1), lines


@pytest.mark.parametrize("sample", ERR, ids=lambda path: path.stem)
def test_a_broken_sample_has_exactly_its_problems(
    sample: Path, sample_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(sample, sample_project)
    code, lines = validate_lines(sample_project, monkeypatch)
    assert lines[:-1] == sample.read_text(encoding="utf-8").splitlines()
    assert code == 2
    assert validate_lines(sample_project, monkeypatch) == (2, lines), "the cache changed what is reported"


def test_every_broken_sample_has_its_expected_lines() -> None:
    given = {path.name.removesuffix(".case.yaml") for path in (SAMPLES / "err").iterdir() if path.suffix != ".out"}
    assert given == {path.stem for path in ERR}


def test_every_rule_of_the_table_has_a_sample_that_breaks_it_and_no_other_rule_is_reported() -> None:
    reported = {
        line.partition("[")[2].partition("]")[0]
        for path in ERR
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    # Links, pipes and huge files cannot be kept as samples; test_files.py makes them.
    assert reported | {"file", "no-cases"} == set(summaries())
