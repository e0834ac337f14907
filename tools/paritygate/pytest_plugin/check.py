"""One case inside a test: run it through ``session``, and turn the verdict into pass, fail or skip.

Loaded when a test asks for its case; what is heavy lies behind ``session`` and loads when the case runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec.structs
import pytest

from paritygate.errors import ExitCode, ParitygateError, missing_extra, printable
from paritygate.manifest.case import Case
from paritygate.pytest_plugin.outcomes import Outcome
from paritygate.pytest_plugin.watch import Target
from paritygate.records.model import RunRecord, Status
from paritygate.session.advice import bound_line, next_step

#: A reason with this code says that the machine lacks the declared hardware.
_NO_HARDWARE = "hardware"


class AccuracyCase:
    """What ``accuracy_case`` is inside a test.

    ``outcome`` is None until the case ended.
    """

    def __init__(
        self, target: Target, *, in_ci: bool, artifacts: str | None, announce: Callable[[object], object]
    ) -> None:
        self.case: Case = target.case
        self._outcome: Outcome | None = None
        self._registries = target.registries
        self._project = msgspec.structs.replace(target.project, artifacts=artifacts) if artifacts else target.project
        self._in_ci = in_ci
        self._announce = announce
        self._message = ""

    @property
    def outcome(self) -> Outcome | None:
        """How the case ended; a test can read it and not change it."""
        return self._outcome

    def check(self) -> None:
        """Run the case once, keep its record, and fail or skip the test unless the verdict is green.

        Outside CI a case whose hardware is absent is a skip; in CI nothing but ``passed`` is green, and
        ``provisional`` where the lane allows it.
        """
        __tracebackhide__ = True
        outcome = self._outcome or self._run()
        message = printable(self._message, lines=True)
        if outcome.status == "skipped":
            pytest.skip(message)
        if not outcome.green:
            pytest.fail(message, pytrace=False)

    def _run(self) -> Outcome:
        self._outcome = self._ended()
        return self._outcome

    def _ended(self) -> Outcome:
        try:
            from paritygate.session.run import exit_code, run_case  # noqa: PLC0415 - collecting needs none of it

            record = run_case(self.case, self._project, self._registries, in_ci=self._in_ci, progress=self._announce)
        except ParitygateError as error:
            return self._broken(error)
        except ModuleNotFoundError as error:
            if (missing := missing_extra(error)) is None:
                raise
            return self._broken(missing)
        allowed = self._registries.allows_provisional(self.case.ci.lane)
        return self._concluded(record, exit_code(record, in_ci=self._in_ci, allow_provisional=allowed))

    def _concluded(self, record: RunRecord, code: ExitCode) -> Outcome:
        from paritygate.session.folders import run_folder  # noqa: PLC0415 - collecting needs none of it

        verdict = record.verdict
        folder = run_folder(self._project, self.case, record.run_id)
        written = folder / "record.json"
        absent = verdict.status is Status.UNVALIDATED and verdict.reasons[0].code == _NO_HARDWARE
        skipped = absent and not self._in_ci
        self._message = verdict.reasons[0].message if skipped else "\n".join(self._lines(record, folder))
        return Outcome(
            case=record.case,
            status="skipped" if skipped else verdict.status.value,
            green=code is ExitCode.OK or skipped,
            detail=_one_line(verdict.reasons[0].message),
            record=os.path.relpath(written, self.case.root) if written.is_file() else "",
            run_id=record.run_id,
            infrastructure=code is ExitCode.INFRASTRUCTURE,
            measurements={entry.id: repr(float(entry.value)) for entry in record.comparison.measurements},
        )

    def _broken(self, error: ParitygateError) -> Outcome:
        """The run ended without a verdict."""
        self._message = f"{self.case.id}: error: {error.message}" + (f"\n  fix: {error.hint}" if error.hint else "")
        return Outcome(
            case=self.case.id,
            status="error",
            detail=_one_line(error.message.replace("\n", ": ", 1)),
            infrastructure=error.exit_code is ExitCode.INFRASTRUCTURE,
        )

    def _lines(self, record: RunRecord, folder: Path) -> Iterator[str]:
        """What a person needs to see of a run that is not green."""
        verdict = record.verdict
        provisional = verdict.status is Status.PROVISIONAL and self._in_ci
        yield f"{record.case}: {verdict.status.value}" + (", which is red in CI" if provisional else "")
        if verdict.failure_class:
            yield f"  class: {verdict.failure_class}"
        for reason in verdict.reasons:
            yield f"  {reason.code}: {reason.message}"
        yield from (f"  {bound_line(bound)}" for bound in verdict.bounds)
        if step := next_step(record, self.case):
            yield f"  fix: {step}"
        report = folder / "report.md"
        yield f"  report: {report}" if report.is_file() else f"  record: {folder / 'record.json'}"
        yield f"  again: paritygate run {record.case}"


def _one_line(text: str) -> str:
    return text.partition("\n")[0].strip()
