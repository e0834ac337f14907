"""The account of one pytest session: it gathers outcomes from reports, prints them and sets the exit status.

Under pytest-xdist the controller sees the reports of all workers; a worker gathers too, but only hands over
which cases its selection left out, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from paritygate.pytest_plugin.outcomes import Outcome, Tally, exit_status, from_properties, shortfall, summary

if TYPE_CHECKING:
    from paritygate.manifest.case import Case
    from paritygate.manifest.project import Project
    from paritygate.manifest.registries import Registries

#: The name by which a test asks for a case.
FIXTURE = "accuracy_case"

_DESELECTED = "paritygate_deselected"


@dataclass(frozen=True)
class Target:
    """One case with what is needed to run it: the parameter behind the fixture."""

    case: Case
    project: Project
    registries: Registries


def target_of(item: pytest.Item) -> Target | None:
    """The case of a node; None for every other test, also one with a fixture of its own under our name."""
    call = getattr(item, "callspec", None)
    target = call.params.get(FIXTURE) if call else None
    return target if isinstance(target, Target) else None


class Watch:
    """The hooks that need the session's tally."""

    def __init__(self, config: pytest.Config) -> None:
        self._tally = Tally()
        self._expect: int | None = config.getoption("paritygate_expect")
        self._collect_only = bool(config.getoption("collectonly"))
        self._worker: dict[str, Any] | None = getattr(config, "workeroutput", None)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count what is left after selection."""
        self._tally.selected = sum(target_of(item) is not None for item in session.items)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember the cases that a selection left out."""
        self._tally.deselected.update(item.nodeid for item in items if target_of(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome from the report that concludes a case, and note every failure of any test."""
        outcome = from_properties(report.user_properties)
        if outcome and report.when != "teardown":
            self._tally.add(report.nodeid, outcome)
        if report.failed:
            broke = bool(outcome and outcome.infrastructure and report.when != "teardown")
            self._tally.add_red(report.nodeid, infrastructure=broke)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected is never infrastructure."""
        if report.failed:
            self._tally.add_red(report.nodeid, infrastructure=False)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over from an xdist worker what its selection left out."""
        self._tally.deselected.update(getattr(node, "workeroutput", {}).get(_DESELECTED, ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over, or set the exit status."""
        if self._worker is not None:
            self._worker[_DESELECTED] = sorted(self._tally.deselected)
            return
        session.exitstatus = exit_status(
            int(session.exitstatus), self._tally, self._expect, collect_only=self._collect_only
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the counts, every case that did not pass, and an unmet expectation."""
        short = shortfall(self._tally, self._expect, collect_only=self._collect_only)
        if self._tally.empty() and not short:
            return
        terminalreporter.section("paritygate")
        if not self._collect_only:
            for line in summary(self._tally):
                terminalreporter.line(line)
        if short:
            terminalreporter.line(f"paritygate: {short}", red=True)


def settle(report: pytest.TestReport, *, name: str, outcome: Outcome | None, green: bool, in_ci: bool) -> Outcome:
    """The outcome of one node; turns the report red where the test hides what its case came to.

    Args:
        report: of the call, or of a set-up that did not pass.
        name: id of the case.
        outcome: what ``check()`` left, or None when it did not run or did not end.
        green: whether that outcome is green here.
        in_ci: in CI a skip is red.
    """
    if outcome is not None:
        if not report.failed and not green:
            _turn_red(report, f"{name}: the test hides that the case ended as {outcome.status}: {outcome.detail}")
        return outcome
    reason = _reason(report)
    if report.passed:
        reason = "the test ended without accuracy_case.check(), so nothing was compared and there is no record"
    elif report.skipped:
        if not in_ci:
            return Outcome(case=name, status="skipped", detail=reason)
        reason = f"skipped, and in CI only passed is green: {reason}"
    if not report.failed:
        _turn_red(report, f"{name}: {reason}")
    return Outcome(case=name, status="error", detail=reason)


def _turn_red(report: pytest.TestReport, message: str) -> None:
    report.outcome = "failed"
    report.longrepr = message
    # An expected failure is told apart by this attribute alone.
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _reason(report: pytest.TestReport) -> str:
    """The first line of why a report is not green, without a traceback."""
    detail = report.longrepr
    if isinstance(detail, tuple):
        text = detail[2]
    elif crash := getattr(detail, "reprcrash", None):
        text = crash.message
    else:
        text = str(detail or getattr(report, "wasxfail", ""))
    return text.strip().partition("\n")[0]
