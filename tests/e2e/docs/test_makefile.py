"""The two commands of the README meet a machine that is not ready for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def old_python(path: Path) -> Path:
    """An interpreter that fails every check, as one does that is too old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def test_a_python_that_is_too_old_is_named_and_no_environment_is_left_behind(tmp_path: Path) -> None:
    old = old_python(tmp_path / "python3.9")
    done = make("demo", f"VENV={tmp_path}/venv", f"PYTHON={old}")
    assert done.returncode == 2
    assert f"{old} is not Python 3.10 or newer" in done.stderr
    assert "make demo PYTHON=python3.12" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_an_environment_of_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    old = old_python(tmp_path / "venv" / "bin" / "python")
    done = make("test", f"VENV={tmp_path}/venv")
    assert (done.returncode, f"{old} is not Python 3.10 or newer" in done.stderr) == (2, True)


def test_an_environment_in_a_path_with_blanks_is_refused(tmp_path: Path) -> None:
    done = make("demo", f"VENV={tmp_path}/a b")
    assert (done.returncode, "VENV must be one path without blanks" in done.stderr) == (2, True)
