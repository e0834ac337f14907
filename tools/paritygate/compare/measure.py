"""The output layer: every metric on every pair of images, then one number for each measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from paritygate.compare.aggregate import aggregate, worst_index
from paritygate.compare.pixels import Pixels
from paritygate.errors import MetricError
from paritygate.manifest.case import Measurement
from paritygate.metrics.image import METRICS
from paritygate.metrics.specs import SPECS
from paritygate.records.model import MeasurementResult, Real

#: which pixels -> the range they are declared to have.
DATA_RANGES: Mapping[str, float] = MappingProxyType({"float": 1.0, "stored": 255.0})


@dataclass
class Values:
    """What has been measured so far: (metric, pixels) -> ``<item>/<image>`` -> value, and the first problem of each."""

    values: dict[tuple[str, str], dict[str, Real]] = field(default_factory=dict)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, key: str, reference: Pixels, candidate: Pixels, *, wanted: Iterable[tuple[str, str]]) -> None:
        """Measure one pair of images. A metric that has no value here is NaN, with its reason kept."""
        for metric, kind in wanted:
            try:
                value = _one(metric, kind, reference, candidate)
            except MetricError as error:
                value = math.nan
                self.problems.setdefault((metric, kind), f"{key}: {error.message}")
            self.values.setdefault((metric, kind), {})[key] = Real(value)


def wanted_metrics(measurements: tuple[Measurement, ...]) -> tuple[tuple[str, str], ...]:
    """Each (metric, pixels) once: several aggregates share their values."""
    return tuple(dict.fromkeys((entry.metric, entry.pixels) for entry in measurements))


def results(measurements: tuple[Measurement, ...], measured: Values) -> tuple[MeasurementResult, ...]:
    """One result for each declared measurement, in the order of the manifest."""
    return tuple(_result(entry, measured) for entry in measurements)


def _result(entry: Measurement, measured: Values) -> MeasurementResult:
    spec = SPECS[entry.metric]
    assert spec.direction != "none", "the manifest's rules refuse metrics that no bound can judge"
    by_key = measured.values.get((entry.metric, entry.pixels), {})
    problem = measured.problems.get((entry.metric, entry.pixels), "")
    if not by_key:
        problem = "no pair of images was compared"
    keys, numbers = list(by_key), list(by_key.values())
    return MeasurementResult(
        id=entry.id,
        metric=entry.metric,
        aggregate=entry.aggregate,
        pixels=entry.pixels,
        unit=spec.unit,
        direction=spec.direction,
        value=Real(aggregate(numbers, entry.aggregate, direction=spec.direction)),
        typical=Real(aggregate(numbers, "median", direction=spec.direction)),
        worst_item=keys[worst_index(numbers, direction=spec.direction)] if keys else "",
        values=by_key,
        target=None if entry.target is None else Real(entry.target),
        problem=problem,
    )


def _one(metric: str, kind: str, reference: Pixels, candidate: Pixels) -> float:
    if kind == "stored":
        return METRICS[metric](reference.stored, candidate.stored, data_range=DATA_RANGES[kind])
    lacking = [name for name, side in (("reference", reference), ("candidate", candidate)) if side.floats is None]
    if lacking:
        raise MetricError(f"no float pixels from the {' and the '.join(lacking)} leg")
    return METRICS[metric](reference.floats, candidate.floats, data_range=DATA_RANGES[kind])
