"""Generated scripts are run, as an agent runs them, with a stand-in for pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paritygate.ci.build import build_steps
from paritygate.errors import ManifestError
from paritygate.manifest.index import load_project
from paritygate.manifest.project import find_project

SHELLS = {"bash": ["/bin/bash", "-e", "-c"], "sh": ["/bin/sh", "-e", "-c"]}
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
GREEN = 'printf "%s\\n" "$@" > arguments.txt; echo "${SET_BEFORE-} ${PYTEST_ADDOPTS-unset}" > seen.txt\n'


def script(workshop: Any, setup: list[str]) -> str:
    workshop.case("one", ci={"setup": setup})
    return str(workshop.uploaded()[0]["command"])


#: Each ends the script, or hides what follows it, with status 0.
EARLY_ENDS = (
    '[ -n "${NOT_SET-}" ] || exit 0',
    "true; exit 0",
    "cd / && exit 0",
    "if true; then exit 0; fi",
    "exit 0",
    "exit",
    "{ exit 0; }",
    "stop() { exit 0; }; stop",
    'eval "exit 0"',
    "return 0",
    ". ./leave.sh",
)


def run(tmp_path: Path, command: str, *, shell: str, pytest_body: str) -> int:
    """The exit code of a script in a folder of its own, where ``pytest`` is a shell script."""
    folder = tmp_path / "agent"
    (folder / "bin").mkdir(parents=True)
    stand_in = folder / "bin" / "pytest"
    stand_in.write_text(f"#!/bin/sh\n{pytest_body}", encoding="utf-8")
    stand_in.chmod(0o755)
    (folder / "leave.sh").write_text("exit 0\n", encoding="utf-8")
    env = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    return subprocess.run(
        [*SHELLS[shell], command], cwd=folder, env=env, capture_output=True, check=False, timeout=30
    ).returncode


@pytest.mark.parametrize("shell", SHELLS)
def test_pytest_gets_exactly_one_node_its_marks_and_the_expected_count(
    tmp_path: Path, workshop: Any, shell: str
) -> None:
    command = script(workshop, ["export SET_BEFORE='a $b'", "export PYTEST_ADDOPTS=--collect-only"])
    assert run(tmp_path, command, shell=shell, pytest_body=GREEN) == 0
    assert (tmp_path / "agent/arguments.txt").read_text().splitlines() == [
        "cases/test_accuracy.py::test_accuracy[one]",
        *("-m", "nightly and H100 and cards_1"),
        *("--paritygate-expect", "1"),
        *("--junitxml", "artifacts/one.junit.xml"),
    ]
    assert (tmp_path / "agent/seen.txt").read_text() == "a $b unset\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("code", [0, 1, 4, 5, 75])
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


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line", EARLY_ENDS)
def test_a_setup_line_that_ends_the_script_early_is_red(tmp_path: Path, workshop: Any, shell: str, line: str) -> None:
    assert run(tmp_path, script(workshop, ["true", line, "true"]), shell=shell, pytest_body=GREEN) != 0
    assert not (tmp_path / "agent/arguments.txt").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_an_early_end_says_what_happened_and_keeps_its_own_red_status(
    tmp_path: Path, workshop: Any, shell: str
) -> None:
    assert run(tmp_path, script(workshop, ["false || exit 75"]), shell=shell, pytest_body=GREEN) == 75
    done = subprocess.run(
        [*SHELLS[shell], script(workshop, ["exit 0"])], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "the setup ended the script before the test\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_subshell_that_ends_leaves_the_test_to_decide(tmp_path: Path, workshop: Any, shell: str) -> None:
    assert run(tmp_path, script(workshop, ["(exit 0)"]), shell=shell, pytest_body="exit 75\n") == 75


@pytest.mark.parametrize("text", ["echo a\nexit 0", "echo a\r", "echo a\n"])
@pytest.mark.parametrize("place", ["case", "hardware"])
def test_a_line_break_in_a_setup_line_is_refused(workshop: Any, text: str, place: str) -> None:
    hardware = json.loads((workshop.root / ".buildkite/hardware.yml").read_text())
    hardware["skus"]["H100"]["setup"] = [text] * (place == "hardware")
    workshop.write(".buildkite/hardware.yml", hardware)
    with pytest.raises(ManifestError, match=r"\[format\].*expected one shell line, without a line break"):
        script(workshop, [text] * (place == "case"))


def test_the_environment_of_the_pool_cannot_make_a_step_forget_that_it_is_ci(workshop: Any) -> None:
    workshop.case("one")
    project = find_project(workshop.root)
    registries, loaded = load_project(project)
    pool = msgspec.structs.replace(registries.hardware["H100"], env={"CI": "false", "A": "1"})
    (step,) = build_steps(loaded.cases, project, msgspec.structs.replace(registries, hardware={"H100": pool}))
    assert step.env == {"A": "1", "CI": "true"}


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
