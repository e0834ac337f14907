"""One case inside a test: run it through ``session``, and turn the verdict into pass, fail or skip.

Loaded when a test asks for its case; what is heavy lies behind ``session`` and loads when the case runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paritygate.errors import ExitCode, ParitygateError
from paritygate.manifest.case import Case
from paritygate.pytest_plugin.outcomes import Outcome
from paritygate.pytest_plugin.watch import Target
from paritygate.records.model import BoundResult, RunRecord, Status

#: A reason with this code says that the machine lacks the declared hardware.
_NO_HARDWARE = "hardware"


class AccuracyCase:
    """What ``accuracy_case`` is inside a test.

    ``outcome`` is None until the case ended; ``green`` says whether that outcome is green here.
    """

    def __init__(self, target: Target, *, in_ci: bool, artifacts: str | None) -> None:
        self.case: Case = target.case
        self.outcome: Outcome | None = None
        self.green = False
        self._registries = target.registries
        self._project = replace(target.project, artifacts=artifacts) if artifacts else target.project
        self._in_ci = in_ci
        self._message = ""

    def check(self) -> None:
        """Run the case once, keep its record, and fail or skip the test unless the verdict is green.

        Outside CI a case whose hardware is absent is a skip; in CI nothing but ``passed`` is green, and
        ``provisional`` where the lane allows it.
        """
        __tracebackhide__ = True
        if self.outcome is None:
            self._run()
        assert self.outcome is not None
        if self.outcome.status == "skipped":
            pytest.skip(self._message)
        if not self.green:
            pytest.fail(self._message, pytrace=False)

    def _run(self) -> None:
        try:
            from paritygate.session.run import exit_code, run_case  # noqa: PLC0415 - collecting needs none of it

            record = run_case(self.case, self._project, self._registries, in_ci=self._in_ci, progress=print)
        except ParitygateError as error:
            self._break(error)
            return
        lane = self._registries.lanes.get(self.case.ci.lane)
        allowed = lane is not None and lane.allow_provisional
        code = exit_code(record, in_ci=self._in_ci, allow_provisional=allowed)
        self._conclude(record, code)

    def _conclude(self, record: RunRecord, code: ExitCode) -> None:
        folder = Path(self._project.root, self._project.artifacts, record.case, record.run_id)
        written = folder / "record.json"
        absent = [reason.message for reason in record.verdict.reasons if reason.code == _NO_HARDWARE]
        skipped = record.verdict.status is Status.UNVALIDATED and bool(absent) and not self._in_ci
        reasons = [reason.message for reason in record.verdict.reasons]
        self.green = code is ExitCode.OK or skipped
        self._message = "\n".join(self._lines(record, folder))
        self.outcome = Outcome(
            case=record.case,
            status="skipped" if skipped else record.verdict.status.value,
            detail=" ".join((reasons or [record.verdict.scope])[0].split()),
            record=str(written) if written.is_file() else "",
            run_id=record.run_id,
            infrastructure=code is ExitCode.INFRASTRUCTURE,
            measurements={m.id: repr(float(m.value)) for m in record.comparison.measurements},
        )

    def _break(self, error: ParitygateError) -> None:
        """The run ended without a verdict."""
        self._message = f"{self.case.id}: error: {error.message}" + (f"\n  fix: {error.hint}" if error.hint else "")
        self.outcome = Outcome(
            case=self.case.id,
            status="error",
            detail=" ".join(error.message.split()),
            infrastructure=error.exit_code is ExitCode.INFRASTRUCTURE,
        )

    def _lines(self, record: RunRecord, folder: Path) -> Iterator[str]:
        """What a person needs to see of a run that is not green."""
        verdict = record.verdict
        provisional = verdict.status is Status.PROVISIONAL and self._in_ci
        yield f"{record.case}: {verdict.status.value}" + (", which is red in CI" if provisional else "")
        for reason in verdict.reasons:
            yield f"  {reason.code}: {reason.message}"
        yield from map(_bound_line, verdict.bounds)
        yield f"  report: {folder / 'report.md'}"
        yield f"  again: paritygate run {record.case}"


def _bound_line(bound: BoundResult) -> str:
    met = "met   " if bound.satisfied else "missed"
    relation = bound.relation.replace("_", " ")
    return (
        f"  {met} {bound.measurement} = {bound.value:.6g}, {relation} {bound.limit:.6g} (headroom {bound.headroom:.6g})"
    )
