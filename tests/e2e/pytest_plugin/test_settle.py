"""What a test reports, held against what its case left: nothing that was not compared stays green."""

from __future__ import annotations

from typing import Literal

import pytest

from paritygate.pytest_plugin.outcomes import Outcome
from paritygate.pytest_plugin.watch import settle

RED = Outcome(case="a", status="failed", detail="psnr too low", record="record.json")
GREEN = Outcome(case="a", status="passed", green=True, record="record.json")


def report_of(outcome: Literal["passed", "failed", "skipped"], longrepr: object = None) -> pytest.TestReport:
    return pytest.TestReport("test_accuracy[a]", ("t.py", 1, "t"), {}, outcome, longrepr, "call")  # type: ignore[arg-type]


def settled(
    report: pytest.TestReport, outcome: Outcome | None, *earlier: Outcome, in_ci: bool = False
) -> tuple[str, str]:
    """The report's outcome and the case's status after settling."""
    status = settle(report, name="a", outcome=outcome, in_ci=in_ci, tries=[*earlier]).status
    return report.outcome, status


def test_a_green_verdict_of_a_passing_test_stays_green() -> None:
    assert settled(report_of("passed"), GREEN) == ("passed", "passed")


def test_a_test_that_returns_before_check_turns_red() -> None:
    report = report_of("passed")
    assert settled(report, None) == ("failed", "error")
    assert "nothing was compared and there is no record" in str(report.longrepr)


def test_a_test_that_swallows_a_red_verdict_turns_red() -> None:
    report = report_of("passed")
    assert settled(report, RED) == ("failed", "failed")
    assert str(report.longrepr) == "a: the test hides that the case ended as failed: psnr too low"


def test_a_lucky_try_cannot_hide_a_red_verdict() -> None:
    report = report_of("passed")
    assert settled(report, GREEN, RED) == ("failed", "failed")
    assert report.longrepr == (
        "a: running it again hides that the case ended as failed: psnr too low (tries: failed, passed)"
    )


def test_a_try_after_one_that_broke_on_infrastructure_decides() -> None:
    broke = Outcome(case="a", status="error", infrastructure=True)
    assert settled(report_of("passed"), GREEN, broke) == ("passed", "passed")


def test_an_expected_failure_cannot_hide_a_red_verdict() -> None:
    report = report_of("skipped")
    report.wasxfail = "reason: known"
    assert settled(report, RED) == ("failed", "failed")
    assert not hasattr(report, "wasxfail")


def test_a_skip_is_kept_outside_ci_with_its_reason() -> None:
    report = report_of("skipped", ("t.py", 1, "Skipped: no H100"))
    outcome = settle(report, name="a", outcome=None, in_ci=False, tries=[])
    assert (report.outcome, outcome) == (
        "skipped",
        Outcome(case="a", status="skipped", green=True, detail="Skipped: no H100"),
    )


def test_a_skip_in_ci_turns_red() -> None:
    report = report_of("skipped", ("t.py", 1, "Skipped: quarantined"))
    assert settled(report, None, in_ci=True) == ("failed", "error")
    assert str(report.longrepr) == "a: skipped, and in CI only passed is green: Skipped: quarantined"


def test_an_error_before_the_case_ran_keeps_its_own_report() -> None:
    report = report_of("failed", "fixture broke\nmore")
    outcome = settle(report, name="a", outcome=None, in_ci=True, tries=[])
    assert (report.longrepr, outcome.status, outcome.detail) == ("fixture broke\nmore", "error", "fixture broke")
