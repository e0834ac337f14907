"""Generated scripts are run, as an agent runs them, with a stand-in for pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHELLS = {"bash": ["/bin/bash", "-e", "-c"], "sh": ["/bin/sh", "-e", "-c"]}
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
GREEN = 'printf "%s\\n" "$@" > arguments.txt; echo "${SET_BEFORE-}" > seen.txt\n'


def script(workshop: Any, setup: list[str]) -> str:
    workshop.case("one", ci={"setup": setup})
    return str(workshop.uploaded()[0]["command"])


def run(tmp_path: Path, command: str, *, shell: str, pytest_body: str) -> int:
    """The exit code of a script in a folder of its own, where ``pytest`` is a shell script."""
    folder = tmp_path / "agent"
    (folder / "bin").mkdir(parents=True)
    stand_in = folder / "bin" / "pytest"
    stand_in.write_text(f"#!/bin/sh\n{pytest_body}", encoding="utf-8")
    stand_in.chmod(0o755)
    env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    return subprocess.run(
        [*SHELLS[shell], command], cwd=folder, env=env, capture_output=True, check=False, timeout=30
    ).returncode


@pytest.mark.parametrize("shell", SHELLS)
def test_pytest_gets_exactly_one_node_its_marks_and_the_expected_count(
    tmp_path: Path, workshop: Any, shell: str
) -> None:
    command = script(workshop, ["export SET_BEFORE='a $b'"])
    assert run(tmp_path, command, shell=shell, pytest_body=GREEN) == 0
    assert (tmp_path / "agent/arguments.txt").read_text().splitlines() == [
        "cases/test_accuracy.py::test_accuracy[one]",
        *("-m", "nightly and H100 and cards_1"),
        *("--paritygate-expect", "1"),
        *("--junitxml", "artifacts/one.junit.xml"),
    ]
    assert (tmp_path / "agent/seen.txt").read_text() == "a $b\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("code", [1, 4, 5, 75])
def test_the_exit_code_of_pytest_is_that_of_the_step(tmp_path: Path, workshop: Any, shell: str, code: int) -> None:
    assert run(tmp_path, script(workshop, []), shell=shell, pytest_body=f"exit {code}\n") == code


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "line", ["false", "no-such-tool --x", "cd /no/such/folder", 'echo "$NOT_SET"', "if true; then"]
)
def test_a_failing_setup_line_fails_the_step_and_no_test_runs(
    tmp_path: Path, workshop: Any, shell: str, line: str
) -> None:
    assert run(tmp_path, script(workshop, ["true", line]), shell=shell, pytest_body=GREEN) != 0
    assert not (tmp_path / "agent/arguments.txt").exists()


def test_a_failing_left_side_of_a_pipe_fails_the_step(tmp_path: Path, workshop: Any) -> None:
    assert run(tmp_path, script(workshop, ["false | true"]), shell="bash", pytest_body=GREEN) != 0


def test_a_step_whose_pytest_is_missing_is_red(tmp_path: Path, workshop: Any) -> None:
    command = script(workshop, ["export PATH=/no/such/folder"])
    assert run(tmp_path, command, shell="bash", pytest_body=GREEN) == 127


def test_the_test_command_is_last_and_stands_alone(workshop: Any) -> None:
    last = script(workshop, ["true"]).split("\n")[-1]
    assert last.startswith("pytest ")
    assert not set("|;&<>") & set(last)


def test_paths_with_blanks_and_quotes_reach_pytest_whole(tmp_path: Path, workshop: Any) -> None:
    project = {"schema_version": 1, "cases": ["cases"], "test_module": "cases/my 'own' test.py", "artifacts": "out put"}
    workshop.write("paritygate.yaml", project)
    assert run(tmp_path, script(workshop, []), shell="bash", pytest_body=GREEN) == 0
    arguments = (tmp_path / "agent/arguments.txt").read_text().splitlines()
    assert arguments[0] == "cases/my 'own' test.py::test_accuracy[one]"
    assert arguments[-1] == "out put/one.junit.xml"


def test_shellcheck_finds_nothing_in_the_scripts(tmp_path: Path, workshop: Any) -> None:
    workshop.case("cpu", ci={"hardware": {"sku": ["CPU"], "cards": 0}})
    script(workshop, ['export PATH="$PWD/bin:$PATH"', "export X=1"])
    for step in workshop.uploaded():
        path = tmp_path / f"{step['key']}.sh"
        path.write_text(step["command"] + "\n", encoding="utf-8")
        done = subprocess.run(
            [SHELLCHECK, "--shell=bash", "--severity=style", path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
