"""``paritygate run``: cases from preflight to report, and the exit code that CI acts on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paritygate.cli.main import BUG_EXIT_CODE, bug_text
from paritygate.cli.project import Opened, open_project, require_run_extra
from paritygate.cli.watch import settle, watcher
from paritygate.errors import ExitCode, LegError, ParitygateError, UsageError, printable
from paritygate.manifest.case import Case
from paritygate.records.model import unit_suffix
from paritygate.session.provenance import in_ci

if TYPE_CHECKING:
    from paritygate.records.model import LegRecord, MeasurementResult, RunRecord

#: Code of an error that ended a run without a record -> class of failure.
_CLASSES = {"golden": "golden", "infrastructure": "infrastructure"}
#: Worst first: over several cases the worst code decides, and 75 only when nothing else is red.
WORST_FIRST = (
    BUG_EXIT_CODE,
    ExitCode.LEG,
    ExitCode.USAGE,
    ExitCode.FAILED,
    ExitCode.PREFLIGHT,
    ExitCode.INFRASTRUCTURE,
    ExitCode.OK,
)


@click.command("run")
@click.argument("names", metavar="CASE...", nargs=-1, required=True)
@click.option("--leg", type=click.Choice(["reference", "candidate"]), help="Run one leg only, into --run-id.")
@click.option("--compare", is_flag=True, help="Compare and judge the legs that --run-id holds.")
@click.option("--run-id", help="Name of the run directory; a new one by default.")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder for run directories (project default).")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    *, names: tuple[str, ...], leg: str | None, compare: bool, run_id: str | None, artifacts: Path | None, as_json: bool
) -> int:
    """Run cases: preflight, reference leg, candidate leg, comparison, verdict, record, report.

    CASE is a node id, a case id (all its variants) or a manifest. Where CI is true, provisional is red unless the lane
    allows it.

    \b
    Exit codes, the worst of all cases:
      0   passed, or provisional where that is allowed
      1   failed or invalid, or provisional in CI
      2   usage or manifest
      3   preflight, or unvalidated: no gate for this device, or the hardware is missing
      4   a leg broke, or the run directory cannot be written any more
      70  a bug of paritygate
      75  nothing but infrastructure

    \b
    A red verdict names its class of failure, and the class decides the exit code:
      infrastructure  75  hub, network or a lost agent, in every leg that broke
      weights          4  a file of the model is missing or unreadable
      memory           4  out of memory
      timeout          4  still running after timeout_s
      backend          4  a kernel or backend is not there, or another one took its place
      golden           4  a golden is missing or altered
      crash            4  any other error of a leg
      killed           4  a signal ended the leg, and nothing says why
      structure        1  the outputs cannot be compared, or do not show what they claim (invalid)
      accuracy         1  something that must hold does not (failed)
    """  # noqa: D301 - click reads the backspace
    opened = open_project(artifacts)
    cases = [case for name in dict.fromkeys(names) for case in opened.cases(name)]
    require_run_extra()
    job = _job(opened, leg=leg, compare=compare, run_id=run_id, cases=len(cases))
    results = []
    for case in cases:
        result, text = _one(case, job, opened)
        results.append(result)
        settle(sys.stderr)
        if not as_json:
            click.echo(text)
    code = worst(result["exit_code"] for result in results)
    if as_json:
        # Plain ASCII: nothing in it can move a terminal's cursor or turn its text around.
        click.echo(json.dumps({"exit_code": int(code), "cases": results}, indent=2))
    elif count := len(opened.loaded.problems):
        problems = "1 problem" if count == 1 else f"{count} problems"
        click.echo(f"{problems} in other manifests; see: paritygate validate", err=True)
    return int(code)


def worst(codes: Iterator[int]) -> int:
    """The code that decides over several cases."""
    return min(codes, key=WORST_FIRST.index, default=ExitCode.OK)


def _job(
    opened: Opened, *, leg: str | None, compare: bool, run_id: str | None, cases: int
) -> Callable[[Case], RunRecord | LegRecord]:
    """What to do with each case.

    Raises:
        UsageError: for options that contradict each other.
    """
    from paritygate.session import run as session  # noqa: PLC0415 - loads NumPy and more, after the words are checked

    if leg is not None and compare:
        raise UsageError("--leg and --compare exclude each other", hint="run the legs first, then --compare")
    if (leg is not None or compare) and run_id is None:
        raise UsageError("--leg and --compare need --run-id", hint="give all three commands the same --run-id")
    if run_id is not None and cases > 1:
        raise UsageError(f"--run-id names one run, and {cases} cases were given", hint="give one case")
    watch = watcher(sys.stderr)
    project, registries = opened.project, opened.registries
    if leg is not None:
        name: Any = leg
        return lambda case: session.run_leg_apart(case, project, registries, name, run_id=str(run_id), progress=watch)
    if compare:
        return lambda case: session.compare_run(case, project, run_id=str(run_id), in_ci=in_ci(), progress=watch)
    return lambda case: session.run_case(case, project, registries, in_ci=in_ci(), run_id=run_id, progress=watch)


def _one(case: Case, job: Callable[[Case], RunRecord | LegRecord], opened: Opened) -> tuple[dict[str, Any], str]:
    """One case: the result as data, and as text. One broken case does not keep the others from running."""
    from paritygate.records.model import LegRecord  # noqa: PLC0415 - with the session

    try:
        record = job(case)
    except ParitygateError as error:
        result = {
            "case": case.id,
            "exit_code": int(error.exit_code),
            "error": error.message,
            "hint": error.hint,
            "failure_class": error.kind if isinstance(error, LegError) else _CLASSES.get(error.code, ""),
        }
        text = f"{case.id}: error: {error.message}" + (f"\n  fix: {error.hint}" if error.hint else "")
        return result, printable(text, lines=True)
    except Exception as error:  # noqa: BLE001 - whatever breaks here belongs to this case, and the next one still runs
        text = bug_text(error)
        return {"case": case.id, "exit_code": BUG_EXIT_CODE, "error": text, "hint": ""}, f"{case.id}: {text}"
    if isinstance(record, LegRecord):
        return _leg_result(case, record)
    return _run_result(case, record, opened)


def _leg_result(case: Case, leg: LegRecord) -> tuple[dict[str, Any], str]:
    codes = {None: ExitCode.OK, "infrastructure": ExitCode.INFRASTRUCTURE}
    result = {
        "case": case.id,
        "exit_code": int(codes.get(leg.failure, ExitCode.LEG)),
        "leg": leg.name,
        "failure": leg.failure,
        "message": leg.message,
        "items": len(leg.items),
    }
    state = f"{leg.failure}: {leg.message}" if leg.failure else f"{len(leg.items)} items in {leg.duration_s:.1f} s"
    return result, printable(f"{case.id}: {leg.name} leg: {state}")


def _run_result(case: Case, record: RunRecord, opened: Opened) -> tuple[dict[str, Any], str]:
    from paritygate.session.folders import run_folder  # noqa: PLC0415
    from paritygate.session.run import exit_code  # noqa: PLC0415

    allowed = opened.registries.allows_provisional(case.ci.lane)
    folder = run_folder(opened.project, case, record.run_id)
    shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    report = shown / ("report.md" if (folder / "report.md").exists() else "record.json")
    verdict = record.verdict
    result = {
        "case": record.case,
        "run_id": record.run_id,
        "status": verdict.status.value,
        "failure_class": verdict.failure_class,
        "exit_code": int(exit_code(record, in_ci=in_ci(), allow_provisional=allowed)),
        "reasons": [{"code": reason.code, "message": reason.message} for reason in verdict.reasons],
        "measurements": {entry.id: _plain(entry.value) for entry in record.comparison.measurements},
        "headroom": {bound.measurement: _plain(bound.headroom) for bound in verdict.bounds},
        "report": str(report),
        "record": str(shown / "record.json"),
    }
    facts = [f"  {printable(line)}" for line in _lines(record, case, shown)]
    return result, "\n".join([f"{record.case}: {verdict.status.value}", *facts, f"  report: {report}"])


def _lines(record: RunRecord, case: Case, shown: Path) -> Iterator[str]:
    from paritygate.session.advice import bound_line, next_step  # noqa: PLC0415

    if record.verdict.failure_class:
        yield f"class: {record.verdict.failure_class}"
    for reason in record.verdict.reasons:
        message = reason.message
        for leg in record.legs:
            # A path that opens from here: in the record it starts at the run directory.
            message = message.replace(f"log: {leg.log}", f"log: {shown / leg.log}")
        yield f"{reason.code}: {message}"
    yield from map(bound_line, record.verdict.bounds)
    bounded = {bound.measurement for bound in record.verdict.bounds}
    yield from (_measured_line(entry) for entry in record.comparison.measurements if entry.id not in bounded)
    if step := next_step(record, case):
        yield f"fix: {step}"
    if again := record.environment.get("judged_again"):
        yield f"judged again; kept: {', '.join(again['earlier'])}"
    yield f"scope: {record.verdict.scope}"


def _measured_line(entry: MeasurementResult) -> str:
    value = f"not computed: {entry.problem}" if entry.problem else f"{entry.value:.6g}{unit_suffix(entry.unit)}"
    return f"no bound {entry.id} = {value}, worst {entry.worst_item}"


def _plain(value: float) -> float | str:
    """A number for strict JSON; infinity and NaN are spelled, as in records."""
    number = float(value)
    return number if number - number == 0 else repr(number)
