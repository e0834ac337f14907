"""The arithmetic of a session: what counts, what the exit status is, and what the summary says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paritygate.pytest_plugin.outcomes import (
    CONCLUSIVE,
    STATUSES,
    Outcome,
    Tally,
    exit_status,
    from_properties,
    shortfall,
    standing,
    summary,
)


def tally_of(*outcomes: Outcome, red: bool = False) -> Tally:
    tally = Tally()
    for outcome in outcomes:
        tally.add(f"test_accuracy[{outcome.case}]", outcome)
        if red:
            tally.add_red(f"test_accuracy[{outcome.case}]", infrastructure=outcome.infrastructure)
    return tally


def ended(status: str, case: str = "a", *, record: str = "record.json") -> Outcome:
    return Outcome(case=case, status=status, green=status in ("passed", "skipped"), record=record)


def broke(case: str = "a") -> Outcome:
    return Outcome(case=case, status="error", infrastructure=True)


@pytest.mark.parametrize("status", STATUSES)
def test_only_a_finished_comparison_meets_the_expectation(status: str) -> None:
    assert bool(shortfall(tally_of(ended(status)), 1)) is (status not in CONCLUSIVE)


@pytest.mark.parametrize("status", sorted(CONCLUSIVE))
def test_a_verdict_without_a_written_record_does_not_count(status: str) -> None:
    assert shortfall(tally_of(ended(status, record="")), 1)


def test_one_case_under_two_nodes_counts_once() -> None:
    tally = Tally()
    tally.add("one.py::test[a]", ended("passed"))
    tally.add("two.py::test[a]", ended("passed"))
    assert shortfall(tally, 2) == (
        "expected at least 2 cases, but only 1 ended as passed, failed, provisional or invalid"
    )


def test_collecting_alone_holds_the_selection_against_the_expectation() -> None:
    tally = Tally(selected=2)
    assert shortfall(tally, 2, collect_only=True) == ""
    assert exit_status(0, tally, 3, collect_only=True) == 1


@pytest.mark.parametrize(
    ("status", "expect", "outcomes", "wanted"),
    [
        pytest.param(0, None, [], 0, id="no expectation"),
        pytest.param(0, 0, [], 0, id="nothing expected"),
        pytest.param(0, 1, [ended("passed")], 0, id="met"),
        pytest.param(0, 1, [], 1, id="nothing ran"),
        pytest.param(0, 1, [ended("skipped")], 1, id="skipped"),
        pytest.param(0, 2, [ended("passed")], 1, id="one of two"),
        pytest.param(1, 1, [ended("failed")], 1, id="failed"),
        *[pytest.param(status, 1, [], status, id=f"pytest's own {status}") for status in (2, 3, 4, 5)],
        *[pytest.param(status, 1, [broke()], status, id=f"{status} beside infrastructure") for status in (2, 3, 4, 5)],
    ],
)
def test_the_exit_status(status: int, expect: int | None, outcomes: list[Outcome], wanted: int) -> None:
    assert exit_status(status, tally_of(*outcomes), expect) == wanted


def test_a_red_case_is_red_whatever_its_test_and_pytest_say() -> None:
    assert exit_status(0, tally_of(ended("failed")), None) == 1
    tally = tally_of(broke(), red=True)
    tally.add("test_accuracy[b]", ended("failed", "b"))
    assert exit_status(1, tally, None) == 1


def test_a_red_try_stands_and_tells_of_all_tries() -> None:
    red = replace(ended("failed"), detail="psnr is 5", run_id="1")
    kept = standing([red, ended("invalid"), ended("passed")])
    assert kept == replace(red, detail="psnr is 5 (tries: failed, invalid, passed)")
    assert standing([broke(), ended("passed")]).green


def test_a_node_reported_twice_keeps_its_red_outcome() -> None:
    tally = Tally()
    for status in ("failed", "passed"):
        tally.add("test_accuracy[a]", ended(status))
    assert exit_status(0, tally, 1) == 1
    assert summary(tally)[1:] == ["failed a: (tries: failed, passed)"]


def test_75_needs_every_red_node_to_be_infrastructure() -> None:
    assert exit_status(1, tally_of(broke(), broke("b"), red=True), 2) == 75
    assert exit_status(1, tally_of(broke(), ended("failed", "b"), red=True), 2) == 1


def test_75_is_kept_only_while_infrastructure_explains_what_is_missing() -> None:
    assert exit_status(1, tally_of(broke(), red=True), 1) == 75
    assert exit_status(1, tally_of(broke(), red=True), 2) == 1


def test_a_failure_of_any_other_test_rules_out_75() -> None:
    tally = tally_of(broke(), red=True)
    tally.add_red("test_other", infrastructure=False)
    assert exit_status(1, tally, None) == 1


def test_a_teardown_failure_beside_infrastructure_rules_out_75() -> None:
    tally = tally_of(broke(), red=True)
    tally.add_red("test_accuracy[a]", infrastructure=False)
    assert exit_status(1, tally, None) == 1


def test_1_without_a_red_node_stays_1() -> None:
    assert exit_status(1, Tally(), None) == 1


def test_an_outcome_survives_the_way_through_report_properties() -> None:
    outcome = Outcome(
        case="a",
        status="failed",
        green=True,
        detail="psnr",
        record="r.json",
        run_id="1",
        infrastructure=True,
        measurements={"output.psnr_db.min": "inf", "output.ssim.min": "nan"},
    )
    assert from_properties([("other", 1), *outcome.properties()]) == outcome


def test_reports_of_other_tests_hold_no_outcome() -> None:
    assert from_properties([("paritygate.case", "a"), ("other", "x")]) is None


def test_the_summary_counts_every_status_apart_and_names_what_did_not_pass() -> None:
    outcomes = [Outcome(case=f"case-{status}", status=status, detail=f"why {status}") for status in STATUSES[:-1]]
    tally = tally_of(*outcomes)
    tally.deselected |= {"x", "y"}
    counts, *lines = summary(tally)
    assert counts == ("passed 1, failed 1, provisional 1, unvalidated 1, invalid 1, error 1, skipped 1, deselected 2")
    assert lines == [f"{status} case-{status}: why {status}" for status in STATUSES[1:-1]]
