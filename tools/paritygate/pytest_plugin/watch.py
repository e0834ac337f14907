"""The account of one pytest session: it gathers outcomes from reports, prints them and sets the exit status.

Under pytest-xdist the controller sees the reports of all workers; a worker gathers too, but only hands over
which cases its selection left out, and judges nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from paritygate.errors import printable
from paritygate.pytest_plugin.outcomes import (
    Outcome,
    Tally,
    exit_status,
    from_properties,
    shortfall,
    standing,
    summary,
)

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
        self._expect = config.getoption("paritygate_expect") if not config.option.help else _expected(config)
        self._nothing_runs = bool(config.getoption("collectonly"))
        self._collect_only = self._nothing_runs and not in_ci()
        self._told = ""
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
        if outcome and concludes(report):
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

    def pytest_sessionfinish(self) -> None:
        """Hand over what a worker alone knows."""
        if self._worker is not None:
            self._worker[_DESELECTED] = sorted(self._tally.deselected)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the counts, every case that did not pass, and an unmet expectation."""
        short = self._shortfall()
        lines = [] if self._nothing_runs or self._tally.empty() else summary(self._tally)
        if lines or short:
            terminalreporter.section("paritygate")
        for line in lines:
            terminalreporter.line(printable(line))
        if short:
            terminalreporter.line(short, red=True)
        self._told = short

    def exit_status(self, status: int) -> int:
        """The exit status of the whole process, from pytest's own; says why where no summary was printed."""
        if self._worker is not None:
            return status
        short = self._shortfall()
        if short != self._told:
            print(short, file=sys.stderr)
        return exit_status(status, self._tally, self._expect, collect_only=self._collect_only)

    def _shortfall(self) -> str:
        short = shortfall(self._tally, self._expect, collect_only=self._collect_only)
        idle = "; --collect-only runs none" if self._nothing_runs and not self._collect_only else ""
        return f"paritygate: {short}{idle}" if short else ""


def concludes(report: pytest.TestReport) -> bool:
    """Whether a report says how its node ended; others of a node that runs again still tell of its last try."""
    return report.when == "call" or (report.when == "setup" and not report.passed)


def _expected(config: pytest.Config) -> int | None:
    """The expectation on a command line that pytest stopped reading at ``--help``."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--paritygate-expect", type=int)
    expected: int | None = parser.parse_known_args([*map(str, config.invocation_params.args)])[0].paritygate_expect
    return expected


def in_ci() -> bool:
    """Whether this process runs in CI; loaded on use, since most sessions never ask."""
    from paritygate.session import provenance  # noqa: PLC0415

    return provenance.in_ci()


def settle(
    report: pytest.TestReport, *, name: str, outcome: Outcome | None, in_ci: bool, tries: list[Outcome]
) -> Outcome:
    """The outcome of one node; turns the report red where the test, or a lucky try, hides what its case came to.

    Args:
        report: of the call, or of a set-up that did not pass.
        name: id of the case.
        outcome: what ``check()`` left, or None when it did not run or did not end.
        in_ci: in CI a skip is red.
        tries: what earlier tries of the same node came to; this one is added.
    """
    tries.append(_unchecked(report, name=name, in_ci=in_ci) if outcome is None else outcome)
    stands = standing(tries)
    if not report.failed and not stands.green:
        hides = "running it again" if tries[-1].green else "the test"
        _turn_red(report, f"{name}: {hides} hides that the case ended as {stands.status}: {stands.detail}")
    return stands


def _unchecked(report: pytest.TestReport, *, name: str, in_ci: bool) -> Outcome:
    """The outcome of a node whose ``check()`` did not end; red where it leaves no comparison behind."""
    reason = _reason(report)
    if report.passed:
        reason = "the test ended without accuracy_case.check(), so nothing was compared and there is no record"
    elif report.skipped:
        if not in_ci:
            return Outcome(case=name, status="skipped", green=True, detail=reason)
        reason = f"skipped, and in CI only passed is green: {reason}"
    if not report.failed:
        _turn_red(report, f"{name}: {reason}")
    return Outcome(case=name, status="error", detail=reason)


def _turn_red(report: pytest.TestReport, message: str) -> None:
    report.outcome = "failed"
    report.longrepr = printable(message, lines=True)
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
