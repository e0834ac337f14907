"""What cannot be green: skips, deselections, tests that do not test, and a step whose case slipped away."""

from __future__ import annotations

import shlex

import pytest

from paritygate.ci.build import build_steps
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries

NODE = "accuracy/test_accuracy.py::test_accuracy"

NOT_TESTS = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no disk")

def test_returns_early(accuracy_case):
    if not accuracy_case.case.ci.cards:
        return
    accuracy_case.check()

def test_error_in_a_fixture(broken, accuracy_case):
    accuracy_case.check()

@pytest.mark.xfail(reason="known", run=False)
def test_expected_to_fail_unrun(accuracy_case):
    accuracy_case.check()

@pytest.mark.skip(reason="quarantined")
def test_skipped(accuracy_case):
    accuracy_case.check()
"""

HIDING = """
import pytest

def test_swallows_the_verdict(accuracy_case):
    try:
        accuracy_case.check()
    except BaseException:
        return

@pytest.mark.xfail(reason="known")
def test_expected_to_fail(accuracy_case):
    accuracy_case.check()

@pytest.mark.xfail(reason="known", strict=False)
def test_checks_twice(accuracy_case):
    with pytest.raises(BaseException):
        accuracy_case.check()
    accuracy_case.check()
"""


def test_tests_that_do_not_test_are_red_in_ci(inner_project) -> None:
    inner_project.add("a", gate="")
    inner_project.write("accuracy/test_accuracy.py", NOT_TESTS)
    run = inner_project.pytest("-q", "--paritygate-expect", "1", ci=True)
    assert run.status == 1
    assert "1 failed, 3 errors" in run.out
    assert "a: the test ended without accuracy_case.check(), so nothing was compared and there is no record" in run.out
    assert "a: skipped, and in CI only passed is green: Skipped: quarantined" in run.out
    assert "expected at least 1 case, but only 0 ended" in run.out


def test_skips_outside_ci_stay_skips_and_cannot_meet_an_expectation(inner_project) -> None:
    inner_project.add("a", gate="")
    inner_project.write("accuracy/test_accuracy.py", NOT_TESTS)
    free = inner_project.pytest("-q", "-k", "skipped or unrun")
    bound = inner_project.pytest("-q", "-k", "skipped or unrun", "--paritygate-expect", "1")
    assert (free.status, bound.status) == (0, 1)
    assert "skipped 2, deselected 2" in free.summary()


def test_a_red_verdict_cannot_be_hidden(inner_project) -> None:
    inner_project.add("a", "wrong")
    inner_project.write("accuracy/test_accuracy.py", HIDING)
    run = inner_project.pytest("-q", "--paritygate-expect", "1")
    assert run.status == 1
    assert "3 failed" in run.out
    hidden = "a: the test hides that the case ended as failed: output.psnr_db.min is"
    assert sum(line.startswith(hidden) for line in run.out.splitlines()) == 3
    assert inner_project.records() == {"a": 3}


#: What a conftest, or a plugin, may do to a report or to the session.
COVERING_UP = {
    "exit status": """
def pytest_sessionfinish(session):
    session.exitstatus = 0
""",
    "exit status, last": """
@pytest.hookimpl(trylast=True, wrapper=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 0
""",
    "report": """
@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtest_makereport():
    report = yield
    report.outcome = "passed"
    return report
""",
    "attribute": """
@pytest.fixture(autouse=True)
def cover(accuracy_case, monkeypatch):
    def check():
        accuracy_case.green = True
        with pytest.raises(pytest.fail.Exception):
            type(accuracy_case).check(accuracy_case)
        with pytest.raises(AttributeError):
            accuracy_case.outcome = None
    accuracy_case.check = check
""",
}


@pytest.mark.parametrize("what", COVERING_UP)
def test_a_red_verdict_ends_the_session_red_whatever_its_conftest_does(inner_project, what: str) -> None:
    inner_project.add("a", "wrong")
    inner_project.write("accuracy/conftest.py", f"import pytest\n{COVERING_UP[what]}")
    run = inner_project.pytest("-q", "--paritygate-expect", "1")
    assert run.status == 1
    assert "passed 0, failed 1" in run.summary()


@pytest.fixture
def step(inner_project):
    """A project, and the words after ``pytest`` in the generated step of its only case."""
    inner_project.add("a")
    project = find_project(inner_project.root)
    registries = load_registries(project)
    (step,) = build_steps(load_cases(project, registries).cases, project, registries)
    program, *words = shlex.split(step.script.splitlines()[-1])
    assert program == "pytest"
    assert words[:5] == [f"{NODE}[a]", "-m", "nightly and CPU", "--paritygate-expect", "1"]
    return inner_project, words


def test_a_step_is_green_until_a_changed_mark_takes_its_case_away(step) -> None:
    project, words = step
    assert project.pytest(*words, ci=True).status == 0
    manifest = project.root / "accuracy" / "a" / "a.case.yaml"
    manifest.write_text(manifest.read_text().replace("lane: nightly", "lane: trial"))
    moved = project.pytest(*words, ci=True)
    assert moved.status == 5
    assert "deselected 1" in moved.summary()
    assert "expected at least 1 case, but only 0 ended" in moved.out


def test_a_step_is_red_when_one_of_its_two_cases_slipped_away(step) -> None:
    project, words = step
    project.add("b", gate="", lane="trial")
    run = project.pytest(*words[1:4], "2", ci=True)
    assert run.status == 1
    assert "1 passed, 1 deselected" in run.out
    assert "expected at least 2 cases, but only 1 ended" in run.out


def test_a_step_whose_case_was_renamed_is_red(step) -> None:
    project, words = step
    manifest = project.root / "accuracy" / "a" / "a.case.yaml"
    manifest.write_text(manifest.read_text().replace("id: a\n", "id: b\n"))
    (project.root / "accuracy" / "a" / "a.gate.yaml").unlink()
    assert project.pytest(*words, ci=True).status == 4


def test_collecting_alone_tells_a_step_that_selects_too_little(step) -> None:
    project, words = step
    assert project.pytest(*words, "--collect-only", "-q").status == 0
    short = project.pytest(*words[:4], "2", "--collect-only", "-q")
    assert short.status == 1
    assert "expected at least 2 cases, but only 1 selected" in short.out


@pytest.mark.parametrize("mode", ["--collect-only", "--fixtures", "--fixtures-per-test", "--help", "--setup-plan"])
def test_a_step_in_ci_is_red_when_an_inherited_option_keeps_its_case_from_running(step, mode: str) -> None:
    project, words = step
    project.write("pytest.ini", f"[pytest]\naddopts = {mode}\n")
    run = project.pytest(*words, ci=True)
    assert run.status == 1, run.out
    assert run.out.count("paritygate: expected at least 1 case, but only 0 ended") == 1
    assert run.out.count("--collect-only runs none") == (mode == "--collect-only")


def test_collecting_alone_prints_no_empty_section(step) -> None:
    project, words = step
    project.add("b", gate="", lane="trial")
    run = project.pytest("accuracy", *words[1:], "--collect-only")
    assert run.status == 0
    assert "= paritygate =" not in run.out
