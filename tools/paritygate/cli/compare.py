"""``paritygate compare``: two files or two folders, measured, and judged where bounds are given."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paritygate.cli.project import require_run_extra
from paritygate.cli.table import number, table
from paritygate.cli.watch import settle, watcher
from paritygate.errors import ExitCode, UsageError, printable
from paritygate.session.progress import Progress

if TYPE_CHECKING:
    from paritygate.compare.files.result import Outcome, Part, Result, Series

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_SHAPE = re.compile(r"[0-9]+(,[0-9]+)*")
#: Shorter work shows no progress.
_PATIENCE_S = 2.0
_STATES = {
    "passed": "every bound is met",
    "failed": "a bound is missed, or a metric that was asked for has no value",
    "invalid": "something could not be compared",
    "measured": "no bounds were given, so nothing was judged",
}


@click.command("compare")
@click.argument("reference", metavar="REF", type=click.Path(path_type=Path))
@click.argument("candidate", metavar="CAND", type=click.Path(path_type=Path))
@click.option("--metric", "metrics", multiple=True, help="Measure this one (repeatable); else the default ones.")
@click.option("--bound", "bounds", multiple=True, help='Judge: "ssim>=0.97", "psnr_db.mean>=30" (repeatable).')
@click.option("--as", "kind", type=click.Choice(["image", "video", "audio", "tensor"]), help="Read both sides as this.")
@click.option("--layout", help="Axes of an array of pixels: HW, HWC, CHW, FHW, FHWC, FCHW.")
@click.option("--range", "data_range", type=float, help="Float pixels lie between 0 and this.")
@click.option("--dtype", help="Of the values in .bin files, or of raw bits in .npy.")
@click.option("--shape", help="Of the values in .bin files, such as 2,16,64.")
@click.option("--composite", metavar="#RRGGBB", help="Lay pictures with alpha on this colour first.")
@click.option("--across-representations", "across", metavar="REASON", help="Compare lossy with lossless, raw with ...")
@click.option("--ignore", multiple=True, metavar="GLOB", help="Leave out these files of folders (repeatable).")
@click.option("--threads", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Write a self-contained HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with every value.")
def command(
    *, reference: Path, candidate: Path, metrics: tuple[str, ...], bounds: tuple[str, ...], kind: Any,
    layout: str | None, data_range: float | None, dtype: str | None, shape: str | None, composite: str | None,
    across: str | None, ignore: tuple[str, ...], threads: int, report: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Compare two files or two folders: images, videos, sounds, tensors.

    Files of folders are paired by their path. Structure comes first: another size, mode, depth, number of frames, rate,
    length, dtype or shape is a failure without a number. Nothing is resized, cut or resampled. See: paritygate metrics.

    \b
    Exit codes:
      0   measured, and every bound is met
      1   a bound is missed, or something could not be compared
      2   usage
      3   an optional part of paritygate is not installed
    """  # noqa: D301 - click reads the backspace
    require_run_extra()
    from paritygate.compare.files.bounds import known_metric, parse_bounds  # noqa: PLC0415 - loads NumPy
    from paritygate.compare.files.compare import compare_files  # noqa: PLC0415
    from paritygate.compare.files.declared import Declared  # noqa: PLC0415
    from paritygate.compare.files.pairing import pair_up  # noqa: PLC0415

    parsed = parse_bounds(bounds)
    declared = Declared(
        kind=kind,
        metrics=tuple(known_metric(name).name for name in dict.fromkeys(metrics)) or None,
        bounded=tuple(dict.fromkeys(bound.metric for bound in parsed)),
        threads=threads,
        watch=_watch(),
        **_checked(layout, data_range, dtype=dtype, shape=shape, composite=composite, across=across),
    )
    if report is not None:
        _refuse_input(report, (reference, candidate))
    pairing = pair_up(reference, candidate, declared=kind, ignore=ignore)
    result = compare_files(reference, candidate, pairing, declared=declared, bounds=parsed)
    settle(sys.stderr)
    if report is not None:
        from paritygate.report.page import write_page  # noqa: PLC0415

        write_page(result, report, pairs=pairing.pairs, declared=declared)
    click.echo(_json(result) if as_json else "\n".join(printable(line, lines=True) for line in _lines(result, report)))
    return int(ExitCode.OK if result.state in ("passed", "measured") else ExitCode.FAILED)


def _checked(
    layout: str | None, data_range: float | None, *, dtype: str | None, shape: str | None, composite: str | None,
    across: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The declarations, each of a form that means something.

    Raises:
        UsageError: for the first that does not.
    """
    from paritygate.compare.files.declared import LAYOUTS  # noqa: PLC0415
    from paritygate.manifest.wording import nearest  # noqa: PLC0415
    from paritygate.media.tensors import DTYPES  # noqa: PLC0415

    if layout is not None and layout not in LAYOUTS:
        raise UsageError(f"no layout {layout!r}", hint=nearest(layout, LAYOUTS))
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"no dtype {dtype!r}", hint=nearest(dtype, DTYPES))
    if data_range is not None and not 0 < data_range < float("inf"):
        raise UsageError(
            f"--range {data_range} is no positive number", hint="values lie in [0, RANGE]; write --range 1"
        )
    if shape is not None and (not _SHAPE.fullmatch(shape) or len(shape) > 200):
        raise UsageError(f"{shape!r:.80} is no shape", hint="write --shape 2,16,64")
    if composite is not None and not _COLOUR.fullmatch(composite):
        raise UsageError(f"{composite!r:.80} is no colour", hint='write --composite "#808080"')
    if across is not None and not across.strip():
        raise UsageError("--across-representations needs a reason", hint='write --across-representations "why"')
    lengths = None if shape is None else tuple(int(length) for length in shape.split(","))
    return {"layout": layout, "data_range": data_range, "dtype": dtype, "shape": lengths, "composite": composite,
            "across": across}  # fmt: skip


def _refuse_input(report: Path, inputs: tuple[Path, ...]) -> None:
    """Keep a report from replacing what it is about.

    Raises:
        UsageError: for a name that is an input, or lies inside one that is a folder; and for a missing folder.
    """
    target = report.resolve()
    for path in inputs:
        resolved = path.resolve()
        same = report.exists() and path.exists() and report.samefile(path)
        if same or target == resolved or (resolved.is_dir() and target.is_relative_to(resolved)):
            raise UsageError(f"--report {report} would overwrite or enter {path}", hint="choose another name")
    if report.is_dir() or not report.parent.is_dir():
        raise UsageError(f"--report {report}: not a file in an existing folder")


def _watch() -> Callable[[str, int, int], None]:
    """Progress for work that takes long; nothing for the rest."""
    started = time.monotonic()
    watch = watcher(sys.stderr)

    def tell(name: str, done: int, total: int) -> None:
        if time.monotonic() - started > _PATIENCE_S:
            watch(Progress(case=printable(name), stage="compare" if total else f"frame {done}", done=done, total=total))

    return tell if sys.stderr.isatty() else lambda _name, _done, _total: None


def _json(result: Result) -> str:
    """Plain ASCII: nothing in it can move a terminal's cursor or turn its text around."""
    from paritygate.records.codec import dumps  # noqa: PLC0415 - loads with the run extra

    return json.dumps(json.loads(dumps(result)), indent=2)


def _lines(result: Result, report: Path | None) -> Iterator[str]:
    kinds = {part.kind: 0 for part in result.parts}
    for part in result.parts:
        kinds[part.kind] += 1
    for kind, count in kinds.items():
        parts = [part for part in result.parts if part.kind == kind]
        yield f"{kind}: {_what(parts[0]) if count == 1 else f'{count} pairs'}"
        yield from _numbers(parts)
        yield ""
    for finding in result.findings:
        yield f"not compared: {f'{finding.item}: ' if finding.item else ''}{finding.message} [{finding.code}]"
    yield from (f"note: {note}" for note in result.notes)
    equal = sum(part.is_identical for part in result.parts)
    if equal:
        yield f"identical: {'all' if result.is_identical else f'{equal} of {len(result.parts)}'}"
    yield from map(_bound_line, result.bounds)
    if report is not None:
        yield f"report: {report}"
    yield f"{result.state}: {_STATES[result.state]}"


def _what(part: Part) -> str:
    facts = part.reference.structure
    if part.kind == "tensor":
        text = ", ".join(f"{name} {what}" for name, what in list(facts["tensors"].items())[:3])
        return f"{part.name} ({text}{', ...' if len(facts['tensors']) > 3 else ''})"
    return f"{part.name} ({', '.join(f'{name} {value}' for name, value in facts.items())})"


def _numbers(parts: list[Part]) -> Iterator[str]:
    """A row for each metric, over all values of all pairs."""
    from paritygate.compare.aggregate import aggregate, worst_index  # noqa: PLC0415

    rows: list[tuple[str, ...]] = []
    problems: list[str] = []
    for name in dict.fromkeys(series.metric for part in parts for series in part.series):
        held = [(part, series) for part in parts for series in part.series if series.metric == name]
        values = [value for _, series in held for value in series.values.values()]
        direction = held[0][1].direction
        part, series = held[worst_index([series.worst for _, series in held], direction=direction)]
        tail = [
            aggregate(values, how, direction=direction) for how in ("p01" if direction == "higher" else "p99", "mean")
        ]
        many = [number(value) for value in tail] if len(values) > 1 else ["", ""]
        unit = "" if series.unit == "1" else series.unit
        rows.append((name, number(series.worst), *many, unit, _where(part, series, of_many=len(parts) > 1)))
        problems += [f"  no value: {name}: {problem}" for problem in list(series.problems.values())[:1]]
    is_many = any(row[2] for row in rows)
    yield from table(("metric", "worst" if is_many else "value", "p01/p99", "mean", "unit", "worst at"), rows)
    yield from problems


def _where(part: Part, series: Series, *, of_many: bool) -> str:
    found = [part.name] if of_many else []
    if series.worst_key and len(series.values) > 1:
        found.append(f"{part.keys} {series.worst_key}")
    if {"x", "y", "width", "height"} <= series.detail.keys():
        at = series.detail
        found.append(f"tile {at['width']}x{at['height']} at x {at['x']}, y {at['y']}")
    return ", ".join(found)


def _bound_line(outcome: Outcome) -> str:
    state = "met   " if outcome.satisfied else "missed"
    unit = "" if outcome.unit == "1" else f" {outcome.unit}"
    worst = f", worst: {outcome.worst}" if outcome.values > 1 else ""
    problem = f"; {outcome.problem}" if outcome.problem else ""
    value = f"{number(outcome.value)}{unit}"
    return f"{state} {outcome.bound}: {value}, headroom {number(outcome.headroom)}{worst}{problem}"
