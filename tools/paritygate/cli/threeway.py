"""``paritygate threeway``: is a target as near to the exact result as a low-precision reference is?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paritygate.cli.project import require_run_extra
from paritygate.cli.table import number, table
from paritygate.errors import ExitCode, MetricError, UsageError, printable

if TYPE_CHECKING:
    from paritygate.metrics.threeway import ThreeWay
    from paritygate.records.model import Finding

_SHAPE = re.compile(r"[0-9]+(,[0-9]+)*")
RESULT_SCHEMA_VERSION = 1


@click.command("threeway")
@click.argument("fp32", metavar="FP32", type=click.Path(path_type=Path))
@click.argument("low", metavar="LOW", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option(
    "--bhattacharyya", type=float, default=0.99, show_default=True, help="At least this overlap of errors ..."
)
@click.option("--sigma-ratio", type=float, default=1.0, show_default=True, help="... or at most this ratio of spreads.")
@click.option("--linf-ratio", type=float, default=5.0, show_default=True, help="Below this: ratio of largest errors.")
@click.option("--l2-ratio", type=float, default=3.0, show_default=True, help="Below this: ratio of error norms.")
@click.option("--floor", type=float, default=0.0, show_default=True, help="An absolute error that counts as none.")
@click.option("--dtype", help="Of the values in .bin files, or of raw bits in .npy.")
@click.option("--shape", help="Of the values in .bin files, such as 2,16,64.")
@click.option("--ignore", multiple=True, metavar="GLOB", help="Leave out these files of folders (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with the bins of both histograms.")
def command(
    *, fp32: Path, low: Path, target: Path, bhattacharyya: float, sigma_ratio: float, linf_ratio: float,
    l2_ratio: float, floor: float, dtype: str | None, shape: str | None, ignore: tuple[str, ...], as_json: bool,
) -> int:  # fmt: skip
    """Compare the errors of LOW and TARGET against FP32: three files of tensors, or three folders by name.

    The rule: (bhattacharyya >= 0.99 or sigma ratio <= 1) and L-inf ratio < 5 and L2 ratio < 3, worst over inputs.

    \b
    Exit codes:
      0   the rule holds
      1   it does not, or the inputs cannot be judged (not finite, constant, structure)
      2   usage
    """  # noqa: D301 - click reads the backspace
    require_run_extra()
    from paritygate.compare.files.triples import match_three, read_three  # noqa: PLC0415 - loads NumPy
    from paritygate.metrics.threeway import measure  # noqa: PLC0415
    from paritygate.metrics.threeway_rule import Rule  # noqa: PLC0415

    try:
        rule = Rule(
            bhattacharyya_at_least=bhattacharyya,
            sigma_ratio_at_most=sigma_ratio,
            linf_ratio_below=linf_ratio,
            l2_ratio_below=l2_ratio,
            floor=floor,
        )
    except MetricError as error:
        raise UsageError(error.message, hint="see: paritygate threeway --help") from error
    threes = match_three((fp32, low, target), ignore=ignore)
    findings = list(threes.findings)
    try:
        triples = read_three(threes, dtype=dtype, shape=_lengths(shape), findings=findings)
        result = measure(triples, rule=rule)
        problem = ""
    except MetricError as error:
        result, problem = None, error.message
    verdict = "invalid" if findings or result is None else result.verdict
    if as_json:
        click.echo(json.dumps(_data(result, verdict, problem, findings=findings, notes=threes.notes), indent=2))
    else:
        for line in _lines(result, verdict, problem, findings=findings, notes=threes.notes):
            click.echo(printable(line, lines=True))
    return int(ExitCode.OK if verdict == "passed" else ExitCode.FAILED)


def _lengths(shape: str | None) -> tuple[int, ...] | None:
    if shape is not None and (not _SHAPE.fullmatch(shape) or len(shape) > 200):
        raise UsageError(f"{shape!r:.80} is no shape", hint="write --shape 2,16,64")
    return None if shape is None else tuple(int(length) for length in shape.split(","))


def _lines(
    result: ThreeWay | None, verdict: str, problem: str, *, findings: list[Finding], notes: tuple[str, ...]
) -> Iterator[str]:
    if result is not None:
        header = ("input", "values", "low max", "target max", "L-inf ratio", "low L2", "target L2", "L2 ratio")
        yield from table(header, [_row(row) for row in result.rows])
        yield ""
        for clause in result.clauses:
            yield f"{'met   ' if clause.met else 'missed'} {clause.text}: {clause.found}"
        if result.bins is not None:
            yield f"bins: {result.bins.definition}"
        yield from (f"note: {note}" for note in result.notes)
        if result.verdict == "invalid":
            yield from (f"cannot be judged: {reason}" for reason in result.reasons)
    yield from (f"not compared: {found.item or ''}: {found.message} [{found.code}]" for found in findings)
    yield from (f"note: {note}" for note in notes)
    if problem:
        yield f"cannot be judged: {problem}"
    yield verdict


def _row(row: Any) -> tuple[str, ...]:
    count = 1
    for length in row.shape:
        count *= length
    numbers = (row.low.max_abs, row.target.max_abs, row.linf_ratio, row.low.l2, row.target.l2, row.l2_ratio)
    return (row.name, str(count), *map(number, numbers))


def _data(
    result: ThreeWay | None, verdict: str, problem: str, *, findings: list[Finding], notes: tuple[str, ...]
) -> dict[str, Any]:
    from paritygate.metrics.kernel import engine  # noqa: PLC0415 - with the rest

    return {
        "schema_version": RESULT_SCHEMA_VERSION,
        "engine": engine(),
        "verdict": verdict,
        "problem": problem,
        "findings": [{"code": found.code, "message": found.message, "item": found.item} for found in findings],
        "notes": list(notes),
        "result": None if result is None else _plain(asdict(result)),
    }


def _plain(value: Any) -> Any:
    """Strict JSON: infinity and NaN are spelled, as in records."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if value - value == 0 else repr(float(value))
    return value
