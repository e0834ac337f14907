"""Real runs in an inner pytest: every way a case can end, in and out of CI, and under xdist."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

WHAT = 'what = job.spec["options"]["what"]'
#: A leg that reads beside its file what to do this time, where its options say so.
FLAKY = f"{WHAT}\n    what = Path(__file__).with_name('what.txt').read_text() if what == 'flaky' else what"

ALL = "passed 1, failed 1, provisional 2, unvalidated 1, invalid 1, error 2, skipped 1, deselected 1"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, make_project: Callable):
    project = make_project(tmp_path_factory.mktemp("runs"))
    project.add("black", "black")
    project.add("crash", "crash")
    project.add("good")
    project.add("gpu", gate="", sku="H100")
    project.add("left-out")
    project.add("nogate", gate="")
    project.add("offline", "offline")
    project.add("proposed", gate="proposed")
    project.add("trial", gate="proposed", lane="trial")
    project.add("wrong", "wrong")
    return project


@pytest.fixture(scope="module")
def outside_ci(project):
    return project.pytest("-k", "not left-out", "--junitxml", "junit.xml", "--paritygate-artifacts", "outside")


@pytest.fixture(scope="module")
def in_ci(project):
    some = "good or gpu or nogate or proposed or trial"
    options = ("--junitxml", "ci.xml", "--paritygate-artifacts", "ci", "--paritygate-expect", "4")
    return project.pytest("-n", "2", "-k", some, *options, ci=True)


def properties(project, file: str) -> dict[str, dict[str, str]]:
    """Case id -> the properties of its JUnit test case."""
    found = {}
    for case in ET.parse(project.root / file).iter("testcase"):
        values = {entry.get("name", ""): entry.get("value", "") for entry in case.iter("property")}
        found[values["paritygate.case"]] = values
    return found


def section(run) -> list[str]:
    """The lines of our summary section after the counts."""
    lines = run.out.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip("= ") == "paritygate")
    end = next(index for index, line in enumerate(lines) if index > start and line.startswith("="))
    return lines[start + 2 : end]


def test_outside_ci_each_end_is_counted_apart(outside_ci) -> None:
    assert outside_ci.status == 1
    assert outside_ci.summary() == ALL
    assert "5 failed, 3 passed, 1 skipped" in outside_ci.out


def test_every_case_that_did_not_pass_has_one_line(outside_ci) -> None:
    assert [line.partition(":")[0] for line in section(outside_ci)] == [
        "failed wrong",
        "provisional proposed",
        "provisional trial",
        "unvalidated nogate",
        "invalid black",
        "error crash",
        "error offline",
        "skipped gpu",
    ]


def test_a_failure_shows_bounds_headroom_and_report_and_no_traceback(outside_ci) -> None:
    assert "bound-not-met: output.psnr_db.min is 5." in outside_ci.out
    assert "missed output.psnr_db.min = 5." in outside_ci.out
    assert "at least 30 (headroom -24." in outside_ci.out
    assert "report.md" in outside_ci.out
    assert "Traceback" not in outside_ci.out
    assert "check.py" not in outside_ci.out


def test_a_case_without_a_gate_says_how_to_get_one(outside_ci) -> None:
    assert "fix: repeat the run, commit its records under evidence/" in outside_ci.out
    assert "write the bounds they meet to accuracy/nogate/nogate.gate.yaml" in outside_ci.out


def test_a_skip_says_which_hardware_is_missing(outside_ci) -> None:
    assert any(line.startswith("skipped gpu: needs 1 x H100; here: ") for line in section(outside_ci))


def test_junit_carries_verdict_run_and_measurements_even_infinite_ones(project, outside_ci) -> None:
    found = properties(project, "junit.xml")
    good = found["good"]
    assert good["paritygate.verdict"] == "passed"
    assert good["paritygate.measurement.output.psnr_db.min"] == "inf"
    assert good["paritygate.measurement.output.abs_diff_max.max"] == "0.0"
    record = json.loads((project.root / good["paritygate.record"]).read_text())
    assert (record["run_id"], record["case"]) == (good["paritygate.run_id"], "good")
    assert {name: values["paritygate.verdict"] for name, values in found.items()} == {
        "black": "invalid",
        "crash": "error",
        "good": "passed",
        "gpu": "skipped",
        "nogate": "unvalidated",
        "offline": "error",
        "proposed": "provisional",
        "trial": "provisional",
        "wrong": "failed",
    }


def test_in_ci_only_passed_is_green_and_provisional_where_its_lane_allows_it(in_ci) -> None:
    assert in_ci.status == 1
    assert "3 failed, 2 passed" in in_ci.out
    assert "proposed: provisional, which is red in CI" in in_ci.out
    assert "trial: provisional" not in in_ci.out
    assert "gpu: unvalidated" in in_ci.out


def test_under_xdist_every_case_keeps_one_record_and_reaches_the_summary(project, in_ci) -> None:
    counts = "passed 1, failed 0, provisional 2, unvalidated 2, invalid 0, error 0, skipped 0, deselected 5"
    assert in_ci.summary() == counts
    records = sorted((project.root / "ci").glob("*/*/record.json"))
    assert [path.parts[-3] for path in records] == ["good", "gpu", "nogate", "proposed", "trial"]
    assert len({path.parent.name for path in records}) == 5
    assert {values["paritygate.record"] for values in properties(project, "ci.xml").values()} == {
        path.relative_to(project.root).as_posix() for path in records
    }


def test_infrastructure_alone_ends_with_75(project) -> None:
    run = project.pytest("-k", "offline or good", "--paritygate-expect", "2", ci=True)
    assert run.status == 75
    assert "deselected 8" in run.summary()
    assert "expected at least 2 cases, but only 1" in run.out


def test_an_allowed_case_in_ci_is_green_and_tells_its_progress_at_once(project) -> None:
    run = project.pytest("-k", "trial", "--paritygate-expect", "1", ci=True)
    assert run.status == 0, run.out
    assert "trial: candidate leg 1/1" in run.out


def test_under_xdist_the_expectation_is_held_once_on_the_controller(in_ci) -> None:
    assert in_ci.out.count("expected at least 4 cases, but only 3 ended as") == 1


def test_repeated_runs_never_share_a_folder(project, outside_ci) -> None:
    before = len(list((project.root / "outside" / "good").iterdir()))
    artifacts = str(Path("..") / "outside")
    run = project.pytest("-k", "good", "--paritygate-artifacts", artifacts, "test_accuracy.py", folder="accuracy")
    assert run.status == 0, run.out
    assert len(list((project.root / "outside" / "good").iterdir())) == before + 1


RERUN = """
from _pytest.runner import runtestprotocol
from paritygate.errors import InfrastructureError
from paritygate.session import run

real, tries = run.run_case, []


def run_case(*args, **kwargs):
    tries.append(1)
    if len(tries) == 1:
        raise InfrastructureError("the hub does not answer")
    return real(*args, **kwargs)


run.run_case = run_case


def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, log=False, nextitem=nextitem)
    item._initrequest()
    runtestprotocol(item, nextitem=nextitem)
    return True
"""


@pytest.mark.parametrize("what", ["right", "wrong"])
def test_an_item_that_runs_again_tells_of_its_last_try_alone(tmp_path: Path, make_project: Callable, what: str) -> None:
    project = make_project(tmp_path)
    project.add("good", what)
    project.write("accuracy/conftest.py", RERUN)
    run = project.pytest("--junitxml", "junit.xml", "--paritygate-expect", "1", ci=True)
    passed = what == "right"
    assert run.status == int(not passed), run.out
    (case,) = ET.parse(tmp_path / "junit.xml").iter("testcase")
    names = [entry.get("name") for entry in case.iter("property")]
    assert len(names) == len(set(names))
    assert "paritygate.infrastructure" not in names
    assert properties(project, "junit.xml")["good"]["paritygate.verdict"] == ("passed" if passed else "failed")


def edit_legs(project, old: str, new: str) -> None:
    text = (project.root / "accuracy" / "legs.py").read_text()
    assert old in text
    project.write("accuracy/legs.py", text.replace(old, new))


RERUN_ALL = """
from _pytest.runner import runtestprotocol


def pytest_runtest_protocol(item, nextitem):
    for what in ("wrong", "wrong", "right"):
        path = item.path.parent / "what.txt"
        path.write_text(what)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        item._initrequest()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


def test_a_case_that_passes_on_its_last_try_stays_red_with_all_its_tries(
    tmp_path: Path, make_project: Callable
) -> None:
    project = make_project(tmp_path)
    edit_legs(project, WHAT, FLAKY)
    project.add("good", "flaky")
    project.write("accuracy/conftest.py", RERUN_ALL)
    run = project.pytest("--junitxml", "junit.xml", "--paritygate-expect", "1", ci=True)
    assert run.status == 1, run.out
    (line,) = section(run)
    assert line.startswith("failed good: output.psnr_db.min is 5.")
    assert line.endswith(" (tries: failed, failed, passed)")
    assert project.records() == {"good": 3}


def test_without_the_run_extra_the_failure_names_the_install_command(tmp_path: Path, make_project: Callable) -> None:
    project = make_project(tmp_path)
    project.add("good")
    project.write("accuracy/conftest.py", "import sys\nfor name in ('numpy', 'PIL'):\n    sys.modules[name] = None\n")
    run = project.pytest()
    assert run.status == 1
    assert "is not installed" in run.out
    assert "pip install 'paritygate[run]'" in run.out
    assert "Traceback" not in run.out


def test_what_a_leg_says_reaches_the_terminal_inert(tmp_path: Path, make_project: Callable) -> None:
    project = make_project(tmp_path)
    edit_legs(project, "the kernel gave up", r"\x1b[2J\u202e::error::gave up")
    project.add("loud", "crash")
    run = project.pytest()
    assert run.status == 1
    assert "gave up" in run.out
    assert "\x1b[2J" not in run.out
    assert "\u202e" not in run.out
