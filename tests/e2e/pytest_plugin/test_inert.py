"""Where there is no project the plugin is not noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OWN_FIXTURE = """
import pytest

@pytest.fixture
def accuracy_case():
    return 1

def test_own_fixture(accuracy_case):
    pass

@pytest.mark.parametrize("accuracy_case", [1, 2])
def test_own_parameters(accuracy_case):
    pass
"""


def test_another_project_may_use_our_fixture_name(tmp_path: Path, inner_pytest) -> None:
    (tmp_path / "test_own.py").write_text(OWN_FIXTURE)
    run = inner_pytest(tmp_path, "-q")
    assert run.status == 0, run.out
    assert "3 passed" in run.out
    assert "paritygate" not in run.out


def test_a_test_for_a_case_outside_any_project_says_how_to_start_one(tmp_path: Path, inner_pytest) -> None:
    (tmp_path / "test_lost.py").write_text("def test_accuracy(accuracy_case):\n    accuracy_case.check()\n")
    run = inner_pytest(tmp_path, "-q")
    assert run.status == 1
    assert f"paritygate: no paritygate.yaml above {tmp_path}" in run.out
    assert "run: paritygate init" in run.out
    assert "Traceback" not in run.out


def test_an_expectation_without_any_case_is_red(tmp_path: Path, inner_pytest) -> None:
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    run = inner_pytest(tmp_path, "-q", "--paritygate-expect", "1")
    assert run.status == 1
    assert "expected at least 1 case, but only 0 ended as passed, failed, provisional or invalid" in run.out


@pytest.mark.parametrize("count", ["-1", "x", "1.5", "٣"])
def test_an_expectation_that_is_no_count_is_a_usage_error(tmp_path: Path, inner_pytest, count: str) -> None:
    run = inner_pytest(tmp_path, f"--paritygate-expect={count}")
    assert run.status == 4
    assert "expected a count of cases, 0 or more" in run.out


def test_loading_the_plugin_imports_nothing_beyond_pytest() -> None:
    script = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import paritygate.pytest_plugin\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['paritygate']"
