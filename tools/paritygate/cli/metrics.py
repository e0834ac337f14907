"""``paritygate metrics``: what can be measured, and what each number means and cannot see."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, get_args

import click

from paritygate.errors import UsageError, printable
from paritygate.manifest.wording import nearest
from paritygate.metrics.kernel import engine
from paritygate.metrics.specs import SPECS, Kind, Spec

_WIDTH = 96
_MARGIN = 13
_BETTER = {"higher": "higher is better", "lower": "lower is better", "none": "describes, never judged"}
_TITLES = {
    "audio": "two sounds",
    "image": "two images",
    "tensor": "two tensors",
    "threeway": "exact reference, low-precision reference and target (paritygate threeway)",
    "video": "two clips: each frame with all metrics of images, and",
}


@click.command("metrics")
@click.argument("name", required=False)
@click.option("--kind", type=click.Choice(get_args(Kind)), help="Only what is measured on this.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(*, name: str | None, kind: Kind | None, as_json: bool) -> int:
    """List all metrics with direction, unit and range, or explain one: formula, source, what it is blind to.

    A star marks what is measured when nobody asks for other metrics.
    """
    if name is not None and name not in SPECS:
        raise UsageError(f"no metric {name!r}", hint=nearest(name, SPECS) or "list them with: paritygate metrics")
    if name is not None and kind is not None:
        raise UsageError("NAME and --kind exclude each other")
    shown = [spec for spec in SPECS.values() if name in (None, spec.name) and (kind is None or kind in spec.kinds)]
    if as_json:
        click.echo(json.dumps({"engine": engine(), "metrics": [_data(spec) for spec in shown]}, indent=2))
    else:
        click.echo(
            "\n".join(printable(line, lines=True) for line in (_one(shown[0]) if name else _catalog(shown, kind)))
        )
    return 0


def _catalog(specs: list[Spec], kind: Kind | None) -> Iterator[str]:
    width = max(len(spec.name) for spec in specs) + 2
    for group in get_args(Kind) if kind is None else (kind,):
        rows = [spec for spec in specs if group in spec.kinds]
        if group == "video" and kind is None:
            # What is measured on images is measured on frames too, and listed once.
            rows = [spec for spec in rows if "image" not in spec.kinds]
        if not rows:
            continue
        yield f"{group}: {_TITLES[group]}" if kind is None else f"measured on {group}:"
        for spec in rows:
            extra = f"  needs paritygate[{spec.extra}]" if spec.extra else ""
            star = "*" if spec.default else " "
            unit = "" if spec.unit == "1" else f" {spec.unit}"
            yield f" {star} {spec.name:<{width}}{spec.direction:<7} {_range(spec)}{unit}{extra}"
        yield ""
    yield f"*: measured by default. Engine: {engine()}. Explain one: paritygate metrics {specs[0].name}"


def _one(spec: Spec) -> Iterator[str]:
    yield f"{spec.name} (version {spec.version})"
    identical = "depends on the inputs" if spec.identical is None else f"{spec.identical:g}"
    facts = {
        "measured on": ", ".join(spec.kinds) + (", by default" if spec.default else ", when asked for"),
        "formula": spec.formula,
        "source": spec.source,
        "direction": _BETTER[spec.direction],
        "range": f"{_range(spec)}{'' if spec.unit == '1' else f' {spec.unit}'}",
        "identical": identical,
        "blind to": spec.blind_to,
        "non-finite": spec.non_finite,
        "peer": spec.peer,
        "needs": f"pip install 'paritygate[{spec.extra or 'run'}]'",
    }
    for name, text in facts.items():
        if text:
            body = textwrap.wrap(text, _WIDTH - _MARGIN - 2, break_long_words=False, break_on_hyphens=False)
            yield f"  {name:<{_MARGIN}}" + ("\n" + " " * (_MARGIN + 2)).join(body)


def _range(spec: Spec) -> str:
    return f"{spec.low:g} to {spec.high:g}"


def _data(spec: Spec) -> dict[str, Any]:
    """The facts as strict JSON; infinity is spelled, as in records."""
    return {
        key: repr(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(spec).items()
    }
