"""One self-contained HTML page of an ad-hoc comparison: no script, nothing fetched, every text inert."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from paritygate.compare.aggregate import aggregate
from paritygate.compare.files.declared import Declared
from paritygate.compare.files.pairing import Pair
from paritygate.compare.files.result import Outcome, Part, Result, Series, Side
from paritygate.errors import UsageError
from paritygate.records.store import write_text_atomic
from paritygate.report.page_pictures import Shown, worst_pictures
from paritygate.report.page_plot import plot
from paritygate.report.page_style import STYLE
from paritygate.report.text import number, plain

#: Pairs with a section of their own; the summary and the JSON hold all.
MAX_PARTS = 60
#: Pairs with pictures, the worst first.
MAX_PICTURED = 12
#: What is plotted over the frames of a clip when so much is measured that not everything can be.
PLOTTED = ("ssim", "psnr_db", "abs_diff_mean", "temporal_error")

_STATES = {
    "passed": "every bound is met",
    "failed": "a bound is missed, or a metric that was asked for has no value",
    "invalid": "something could not be compared",
    "measured": "no bounds were given, so nothing was judged",
}


def write_page(result: Result, path: Path, *, pairs: Sequence[Pair], declared: Declared) -> None:
    """Write the page of a comparison, whole or not at all.

    Args:
        result: what was measured.
        path: where; never one of the files that were compared.
        pairs: of the comparison: their worst frames are read again to be shown.
        declared: as the comparison was made.

    Raises:
        UsageError: when ``path`` is one of the inputs.
        ArtifactError: when it cannot be written.
    """
    inputs = [side for pair in pairs for side in (pair.reference, pair.candidate)]
    if path.exists() and any(path.samefile(side) for side in inputs):
        raise UsageError(f"--report {path} would overwrite what is compared", hint="choose another name")
    ranked = _ranked(result)
    pictures: dict[str, tuple[Shown, ...] | str] = {}
    by_name = {pair.name: pair for pair in pairs}
    for part in [part for part in ranked if part.kind in ("image", "video")][:MAX_PICTURED]:
        pictures[part.name] = worst_pictures(part, by_name[part.name], declared, bounds=result.bounds)
    write_text_atomic(path, render(result, pictures), durable=False)


def render(result: Result, pictures: dict[str, tuple[Shown, ...] | str]) -> str:
    """The page as text; ``pictures`` are those of a pair, or why there are none."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    parts = _ranked(result)
    body = [
        _head(result),
        _bounds(result.bounds),
        _texts("Not compared", [f"{f.item or ''}: {f.message} [{f.code}]" for f in result.findings], "bad"),
        _summary(result) if len(result.parts) > 1 else "",
        *(_part(part, pictures.get(part.name, ()), result.bounds) for part in parts[:MAX_PARTS]),
        _texts("", [f"{len(parts) - MAX_PARTS} more pairs are in the JSON"] if len(parts) > MAX_PARTS else [], ""),
        _texts("Notes", result.notes, ""),
        f"<footer>{_text(result.program)} &middot; engine: {_text(result.engine)}</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(result.state)}: {_text(Path(result.candidate).name)}</title>\n<style>{STYLE}</style>\n"
        "</head>\n<body>\n<main>\n" + "\n".join(part for part in body if part) + "\n</main>\n</body>\n</html>\n"
    )


def _ranked(result: Result) -> list[Part]:
    """The pairs with the worst value of a missed bound first, then of any bound, equal ones last."""
    missed = [outcome.worst for outcome in result.bounds if not outcome.satisfied]
    bounded = [outcome.worst for outcome in result.bounds]

    def rank(part: Part) -> tuple[bool, bool, bool]:
        def worst_of(places: list[str]) -> bool:
            return any(place == part.name or place.startswith(f"{part.name} {part.keys} ") for place in places)

        return (not worst_of(missed), not worst_of(bounded), part.is_identical)

    return sorted(result.parts, key=rank)


def _head(result: Result) -> str:
    equal = sum(part.is_identical for part in result.parts)
    identical = f" &middot; {equal} identical" if equal else ""
    count = "1 pair" if result.pairs == 1 else f"{result.pairs} pairs"
    return (
        f'<header><span class="state {_text(result.state)}">{_text(result.state)}</span>'
        f"<div><h1>{_text(Path(result.candidate).name or result.candidate)}</h1>"
        f'<p class="dim">{_STATES[result.state]} &middot; {count}{identical}</p></div></header>\n'
        f'<dl class="sides"><dt>reference</dt><dd>{_text(result.reference)}</dd>'
        f"<dt>candidate</dt><dd>{_text(result.candidate)}</dd></dl>"
    )


def _bounds(outcomes: Iterable[Outcome]) -> str:
    rows = [
        (
            f'<span class="{"good" if outcome.satisfied else "bad"}">{"met" if outcome.satisfied else "missed"}</span>',
            f"<code>{_text(outcome.bound)}</code>",
            _number(outcome.value, outcome.unit),
            _number(outcome.headroom, outcome.unit),
            str(outcome.values),
            _text(outcome.worst)
            + (f'<br><span class="bad">{_text(outcome.problem)}</span>' if outcome.problem else ""),
        )
        for outcome in outcomes
    ]
    header = ("", "bound", "value", "headroom", "values", "worst")
    return f"<section><h2>Bounds</h2>{_table(header, rows, numeric=(2, 3, 4))}</section>" if rows else ""


def _summary(result: Result) -> str:
    rows = []
    for kind in dict.fromkeys(part.kind for part in result.parts):
        parts = [part for part in result.parts if part.kind == kind]
        for name in dict.fromkeys(series.metric for part in parts for series in part.series):
            held = [(part, series) for part in parts for series in part.series if series.metric == name]
            direction = held[0][1].direction
            values = [value for _, series in held for value in series.values.values()]
            worst = aggregate(values, "all", direction=direction)
            at = next((part.name for part, series in held if series.worst == worst), "")
            mean = aggregate(values, "mean", direction=direction)
            unit = held[0][1].unit
            rows.append(
                (
                    kind,
                    f"<code>{_text(name)}</code>",
                    _number(worst, unit),
                    _number(mean, unit),
                    str(len(values)),
                    _text(at),
                )
            )
    header = ("kind", "metric", "worst", "mean", "values", "worst pair")
    return f"<section><h2>All pairs</h2>{_table(header, rows, numeric=(2, 3, 4))}</section>"


def _part(part: Part, pictures: tuple[Shown, ...] | str, bounds: tuple[Outcome, ...]) -> str:
    same = ' <span class="good">identical</span>' if part.is_identical else ""
    figures = f'<p class="dim">{_text(pictures)}</p>' if isinstance(pictures, str) else "".join(map(_figure, pictures))
    plots = "".join(plot(series, limit=_limit(series, bounds)) for series in _plotted(part, bounds))
    return (
        f"<section><h2>{_text(part.name)} <small>{part.kind}</small>{same}</h2>"
        f'{figures}<div class="plots">{plots}</div>{_series(part)}{_sides(part)}</section>'
    )


def _plotted(part: Part, bounds: tuple[Outcome, ...]) -> list[Series]:
    if part.keys != "frame":
        return []
    many = [series for series in part.series if len(series.values) > 1]
    bounded = {outcome.metric for outcome in bounds}
    return many if len(many) <= 6 else [s for s in many if s.metric in bounded or s.metric in PLOTTED]


def _limit(series: Series, bounds: tuple[Outcome, ...]) -> float | None:
    """Where a bound on every frame lies; one on a mean is no line in a plot of frames."""
    found = [b.limit for b in bounds if b.metric == series.metric and b.aggregate in ("all", "min", "max")]
    return found[0] if found else None


def _figure(shown: Shown) -> str:
    pictures = "".join(
        f'<figure><svg viewBox="0 0 {shown.width} {shown.height}" role="img" aria-label="{_text(title)}">'
        f'<image href="data:image/png;base64,{data}" width="{shown.width}" height="{shown.height}"/>'
        f"{shown.outline}</svg>"
        f"<figcaption>{_text(title)}</figcaption></figure>"
        for title, data in shown.pictures
    )
    return f'<h3>{_text(shown.title)}</h3><div class="trio{" small" if shown.is_small else ""}">{pictures}</div>'


def _series(part: Part) -> str:
    rows = []
    for series in part.series:
        where = f"{part.keys} {series.worst_key}" if series.worst_key and len(series.values) > 1 else ""
        if {"x", "y", "width", "height"} <= series.detail.keys():
            place = series.detail
            tile = f"{place['width']}x{place['height']} at x {place['x']}, y {place['y']}"
            where = f"{where}, {tile}" if where else tile
        problem = next(iter(series.problems.values()), "")
        many = len(series.values) > 1
        tail = series.p01 if series.direction == "higher" else series.p99
        rows.append(
            (
                f"<code>{_text(series.metric)}</code>",
                _number(series.worst, series.unit),
                _number(tail, series.unit) if many else "",
                _number(series.typical, series.unit) if many else "",
                _number(series.mean, series.unit) if many else "",
                _text(where) + (f' <span class="bad">{_text(problem)}</span>' if problem else ""),
            )
        )
    header = ("metric", "worst", "p01 / p99", "median", "mean", "worst at")
    table = _table(header, rows, numeric=(1, 2, 3, 4))
    return f"<details{' open' if len(rows) <= 12 else ''}><summary>{len(rows)} metrics</summary>{table}</details>"


def _sides(part: Part) -> str:
    names = dict.fromkeys((*part.reference.structure, *part.candidate.structure))
    rows = [
        (_text(name), *(_text(side.structure.get(name)) for side in (part.reference, part.candidate))) for name in names
    ]
    facts: tuple[tuple[str, str], ...] = (
        ("file", "path"),
        ("bytes", "bytes"),
        ("sha256", "sha256"),
        ("stored as", "representation"),
    )
    rows = [(title, *(_text(getattr(side, key)) for side in _both(part))) for title, key in facts] + rows
    table = _table(("", "reference", "candidate"), rows)
    return f"<details><summary>Files and structure</summary>{table}</details>"


def _both(part: Part) -> tuple[Side, Side]:
    return part.reference, part.candidate


def _texts(title: str, texts: Iterable[str], kind: str) -> str:
    items = "".join(f"<li>{_text(text)}</li>" for text in texts)
    heading = f"<h2>{_text(title)}</h2>" if title else ""
    return f'<section class="{kind}-box">{heading}<ul>{items}</ul></section>' if items else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[int] = ()) -> str:
    """A table of cells that are already escaped; empty columns are left out."""
    kept = list(rows)
    used = [index for index in range(len(header)) if any(row[index] for row in kept)]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}{' class=n' if index in numeric else ''}>{cells[index]}</{tag}>" for index in used)

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in kept)
    return f'<div class="wide"><table><thead><tr>{line(header, "th")}</tr></thead><tbody>{body}</tbody></table></div>'


def _number(value: float, unit: str) -> str:
    return _text(number(value, unit))


def _text(value: object) -> str:
    return html.escape(plain(value, limit=2000), quote=True)
