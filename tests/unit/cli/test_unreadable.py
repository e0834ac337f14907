"""Folders that the user may not read end in a message, and never as a bug or as an empty project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples" / "manifest"
#: The superuser reads everything, unless it may not override permissions.
SETPRIV = shutil.which("setpriv")
AS_ANYONE = [] if os.geteuid() else [str(SETPRIV), "--bounding-set=-dac_override,-dac_read_search"]
MAIN = "from paritygate.cli.main import main; main()"

pytestmark = pytest.mark.skipif(not os.geteuid() and SETPRIV is None, reason="the superuser can read every folder")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    shutil.copytree(SAMPLES / "project", root)
    (root / "cases" / "one").mkdir()
    (root / "cases" / "one" / "one.case.yaml").write_text("schema_version: 1\nextends: ../base.yaml\nid: one\n")
    return root


@pytest.fixture
def locked() -> Iterator[Callable[[Path], None]]:
    folders: list[Path] = []

    def lock(folder: Path, mode: int = 0) -> None:
        folders.append(folder)
        folder.chmod(mode)

    yield lock
    for folder in folders:
        folder.chmod(0o755)


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*AS_ANYONE, sys.executable, "-c", MAIN, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("words", [("validate",), ("ci", "generate")], ids=" ".join)
@pytest.mark.parametrize("folder", ["cases", "cases/one", ".buildkite"])
def test_a_folder_that_cannot_be_read_is_a_problem(project: Path, locked: Callable, folder: str, words: tuple) -> None:
    locked(project / folder)
    done = call(project, *words)
    assert done.returncode == 2, done
    assert "cannot be read: Permission denied" in done.stdout + done.stderr


def test_pipelines_that_cannot_be_written_are_a_message_about_their_folder(project: Path, locked: Callable) -> None:
    locked(project / ".buildkite", 0o555)
    done = call(project, "ci", "generate")
    assert (done.returncode, "check the permissions of .buildkite/" in done.stderr) == (2, True)
    assert "--artifacts" not in done.stderr
