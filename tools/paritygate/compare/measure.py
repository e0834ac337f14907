"""The output layer: every metric on every pair, then one number for each measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from paritygate.compare.aggregate import aggregate, worst_index
from paritygate.compare.dispatch import by_module, measure_images
from paritygate.compare.pixels import Pixels
from paritygate.errors import MetricError
from paritygate.manifest.case import Measurement
from paritygate.metrics.specs import SPECS, Kind
from paritygate.metrics.values import Value, refused
from paritygate.records.model import MeasurementResult, Real

#: which pixels -> the range they are declared to have.
DATA_RANGES: Mapping[str, float] = MappingProxyType({"float": 1.0, "stored": 255.0})

#: Which pixels -> the metrics that are measured on them.
Wanted = Mapping[str, tuple[str, ...]]


@dataclass
class Values:
    """What has been measured so far: (metric, pixels) -> place -> value, and the first problem of each.

    A place is ``<item>/<index>`` of an image or a sound, ``<item>/<index>/<frame>`` of a frame of a clip, and
    ``<item>/<index>/<name>`` of a tensor.
    """

    values: dict[tuple[str, str], dict[str, Value]] = field(default_factory=dict)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, key: str, found: Mapping[str, Value], *, pixels: str = "stored") -> None:
        """Keep what was measured at one place. A metric that has no value there is NaN, with its reason kept."""
        for metric, value in found.items():
            self.values.setdefault((metric, pixels), {})[key] = value
            if value.problem:
                self.problems.setdefault((metric, pixels), f"{key}: {value.problem}")

    def add_images(self, key: str, reference: Pixels, candidate: Pixels, *, wanted: Wanted, mode: str) -> None:
        """Measure one pair of images, whose channels are ``mode``."""
        for pixels, names in wanted.items():
            for group in by_module(names):
                self.add(key, _image_values(group, reference, candidate, pixels=pixels, mode=mode), pixels=pixels)


def wanted_metrics(measurements: Iterable[Measurement], kinds: Iterable[Kind]) -> Wanted:
    """The metrics of these kinds, each once for each sort of pixels: several aggregates share their values."""
    wanted: dict[str, dict[str, None]] = {}
    for entry in measurements:
        if not set(kinds).isdisjoint(SPECS[entry.metric].kinds):
            wanted.setdefault(entry.pixels, {})[entry.metric] = None
    return {pixels: tuple(names) for pixels, names in wanted.items()}


def results(measurements: tuple[Measurement, ...], measured: Values) -> tuple[MeasurementResult, ...]:
    """One result for each declared measurement, in the order of the manifest."""
    return tuple(_result(entry, measured) for entry in measurements)


def _result(entry: Measurement, measured: Values) -> MeasurementResult:
    spec = SPECS[entry.metric]
    assert spec.direction != "none", "the manifest's rules refuse metrics that no bound can judge"
    by_key = measured.values.get((entry.metric, entry.pixels), {})
    problem = measured.problems.get((entry.metric, entry.pixels), "")
    if not by_key:
        problem = "nothing was compared that it is measured on"
    keys, numbers = list(by_key), [value.number for value in by_key.values()]
    worst = keys[worst_index(numbers, direction=spec.direction)] if keys else ""
    return MeasurementResult(
        id=entry.id,
        metric=entry.metric,
        aggregate=entry.aggregate,
        pixels=entry.pixels,
        unit=spec.unit,
        direction=spec.direction,
        value=Real(aggregate(numbers, entry.aggregate, direction=spec.direction)),
        typical=Real(aggregate(numbers, "median", direction=spec.direction)),
        worst_item=worst,
        worst_detail=_plain(by_key[worst].detail) if keys else {},
        values={key: Real(value.number) for key, value in by_key.items()},
        target=None if entry.target is None else Real(entry.target),
        problem=problem,
    )


def _image_values(
    names: tuple[str, ...], reference: Pixels, candidate: Pixels, *, pixels: str, mode: str
) -> dict[str, Value]:
    sides = {"reference": reference.of(pixels), "candidate": candidate.of(pixels)}
    lacking = [name for name, side in sides.items() if side is None]
    if lacking:
        return dict.fromkeys(names, refused(f"no float pixels from the {' and the '.join(lacking)} leg"))
    left, right = (side for side in sides.values() if side is not None)
    try:
        return measure_images(names, left, right, data_range=DATA_RANGES[pixels], mode=mode)
    except MetricError as error:
        return dict.fromkeys(names, refused(error.message))


def _plain(value: Any) -> Any:
    """JSON data of a value's detail: what JSON cannot say is spelt, as ``nan``."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain
