"""One metric over the frames of a clip, as inline SVG with axes; the worst frame is marked."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from paritygate.compare.files.result import Series
from paritygate.report.text import number, plain

_WIDTH, _HEIGHT = 520, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 30, 34
_TICKS = 4
#: Longer clips are drawn by the worst value of so many equal stretches: a single bad frame stays in sight.
_MAX_POINTS = 600


def plot(series: Series, *, limit: float | None = None) -> str:
    """The plot of all values. Infinity is drawn on the upper edge, and a frame without a value is a gap.

    Args:
        series: its keys are frame numbers.
        limit: a bound on every value, drawn as a dashed line.
    """
    points = [(int(key), float(value)) for key, value in series.values.items()]
    finite = [value for _, value in points if math.isfinite(value)]
    low, step_size, steps = _scale(finite if limit is None else [*finite, limit])
    high = low + step_size * steps
    first, last = points[0][0], points[-1][0]

    def x(frame: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (frame - first) / max(last - first, 1)

    def y(value: float) -> float:
        share = 1.0 if value == math.inf else (value - low) / (high - low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(max(share, 0.0), 1.0)

    unit = f", {series.unit}" if series.unit != "1" else ""
    marks = [f'<text class="title" x="{_LEFT}" y="18">{_text(series.metric)}{_text(unit)}</text>']
    for step in range(steps + 1):
        value = low + step_size * step
        marks.append(f'<path class="axis" d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}"/>')
        marks.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.6g}</text>')
    frames = dict.fromkeys(round(first + (last - first) * step / _TICKS) for step in range(_TICKS + 1))
    marks += [f'<text x="{x(frame):.1f}" y="{_HEIGHT - 18}" text-anchor="middle">{frame}</text>' for frame in frames]
    marks.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 3}" text-anchor="middle">frame</text>')
    if limit is not None:
        marks.append(f'<path class="limit" d="M{_LEFT} {y(limit):.1f}H{_WIDTH - _RIGHT}"/>')
    for stretch in _stretches(_thinned(points, series.direction)):
        if len(stretch) == 1:
            marks.append(f'<circle class="dot" cx="{x(stretch[0][0]):.1f}" cy="{y(stretch[0][1]):.1f}" r="2"/>')
        path = "L".join(f"{x(frame):.1f} {y(value):.1f}" for frame, value in stretch)
        marks.append(f'<path class="curve" d="M{path}"/>')
    if math.isfinite(series.worst):
        frame = int(series.worst_key)
        anchor = "end" if x(frame) > _WIDTH * 0.6 else "start"
        near = y(series.worst) + (-8 if y(series.worst) > _HEIGHT / 2 else 16)
        shift = -7 if anchor == "end" else 7
        marks.append(f'<circle class="worst" cx="{x(frame):.1f}" cy="{y(series.worst):.1f}" r="4"/>')
        label = _text(f"frame {frame}: {number(series.worst, series.unit)}")
        marks.append(
            f'<text class="label" x="{x(frame) + shift:.1f}" y="{near:.1f}" text-anchor="{anchor}">{label}</text>'
        )
    title = _text(f"{series.metric} of {len(points)} frames, worst {number(series.worst)} at frame {series.worst_key}")
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">{"".join(marks)}</svg>'


def _scale(values: list[float]) -> tuple[float, float, int]:
    """Where an axis begins, the round distance of its ticks (1, 2 or 5 times a power of ten), and their number."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    spread = (high - low) or abs(high) * 0.01 or 1.0
    power = 10.0 ** math.floor(math.log10(spread / _TICKS))
    size = next(power * factor for factor in (1, 2, 5, 10) if spread / (power * factor) <= _TICKS)
    start = math.floor(low / size + 1e-9)
    return start * size, size, max(1, math.ceil(high / size - 1e-9) - start)


def _thinned(points: list[tuple[int, float]], direction: str) -> list[tuple[int, float]]:
    if len(points) <= _MAX_POINTS:
        return points
    size = math.ceil(len(points) / _MAX_POINTS)
    sign = 1 if direction == "higher" else -1
    groups = (points[start : start + size] for start in range(0, len(points), size))
    return [min(group, key=lambda point: (not math.isnan(point[1]), sign * point[1])) for group in groups]


def _stretches(points: list[tuple[int, float]]) -> Iterator[list[tuple[int, float]]]:
    """Runs of points that have a value."""
    run: list[tuple[int, float]] = []
    for point in points:
        if math.isnan(point[1]):
            if run:
                yield run
            run = []
        else:
            run.append(point)
    if run:
        yield run


def _text(value: object) -> str:
    return html.escape(plain(value), quote=True)
