"""Rules on metrics: each exists, means something for this output, can be judged, and is not blind alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from paritygate.errors import Problem
from paritygate.manifest.loader import Pointer
from paritygate.manifest.rules.context import CaseContext
from paritygate.manifest.wording import nearest
from paritygate.metrics.specs import SPECS, Kind, Spec

#: Kind of output -> the kinds of metrics that it can be measured with.
METRIC_KINDS: Mapping[str, tuple[Kind, ...]] = MappingProxyType(
    {
        "audio": ("audio",),
        "images": ("image",),
        "tensors": ("tensor",),
        "video": ("video",),
        "video_audio": ("audio", "video"),
    }
)
#: How names begin that see the magnitude, which cosine does not: 0.3 times a signal has the cosine 1.
MAGNITUDE = ("abs_error_", "level_difference_", "relative_l2", "relative_linf")

_PICTURES: frozenset[Kind] = frozenset({"image", "video"})


def metric(case: CaseContext) -> Iterable[Problem]:
    """Every metric exists."""
    known = _fitting(case.data["output"]["kind"])
    for pointer, entry in _entries(case):
        if entry["metric"] not in SPECS:
            message = f"no metric {entry['metric']!r}"
            yield case.at((*pointer, "metric"), "metric", message, hint=nearest(entry["metric"], known))


def metric_kind(case: CaseContext) -> Iterable[Problem]:
    """Every metric is defined for what is compared: the kind of the output, and alpha where it is needed."""
    output = case.data["output"]
    known = _judged(output["kind"])
    for pointer, spec in _known(case):
        place = (*pointer, "metric")
        if spec.name not in _fitting(output["kind"]):
            message = f"{spec.name} is measured on {' and '.join(spec.kinds)}, and the output is {output['kind']}"
            yield case.at(place, "metric-kind", message, hint=nearest(spec.name, known))
        elif _needs_alpha(spec) and (output.get("mode") != "RGBA" or "composite" in output):
            laid = "its images are laid on a colour" if "composite" in output else f"the mode is {_mode(output)}"
            message = f"{spec.name} is measured on images with alpha, and {laid}"
            yield case.at(place, "metric-kind", message, hint="measure another, or declare mode: RGBA and no composite")


def metric_direction(case: CaseContext) -> Iterable[Problem]:
    """Every metric has a better direction: a description can be shown, and no bound can judge it."""
    known = _judged(case.data["output"]["kind"])
    for pointer, spec in _known(case):
        if spec.direction == "none":
            message = f"{spec.name} describes, and neither more nor less of it is better: no gate could bound it"
            yield case.at((*pointer, "metric"), "metric-direction", message, hint=nearest(spec.name, known))


def cosine_alone(case: CaseContext) -> Iterable[Problem]:
    """Where cosine is measured, so is a magnitude."""
    found = list(_known(case))
    if any(spec.name.startswith(MAGNITUDE) for _, spec in found):
        return
    for pointer, spec in found:
        if spec.name == "cosine":
            message = "cosine alone is blind to scale: 0.3 times the output has the cosine 1"
            hint = "measure a magnitude beside it, such as relative_l2"
            yield case.at((*pointer, "metric"), "cosine-alone", message, hint=hint)


def float_pixels(case: CaseContext) -> Iterable[Problem]:
    """Float pixels are asked for where there are any: of images and raw clips."""
    output = case.data["output"]
    for pointer, entry in _entries(case):
        spec = SPECS.get(entry["metric"])
        if entry.get("pixels") != "float" or spec is None:
            continue
        place, hint = (*pointer, "pixels"), "remove pixels"
        if output["kind"] in ("audio", "tensors") or _PICTURES.isdisjoint(spec.kinds):
            yield case.at(place, "float-pixels", f"{spec.name} is not measured on pixels here", hint=hint)
        elif output.get("representation") == "encoded":
            message = "an encoded clip holds no float pixels"
            yield case.at(place, "float-pixels", message, hint=f"{hint}, or compare representation: raw")


def target(case: CaseContext) -> Iterable[Problem]:
    """A target lies within the range of its metric."""
    for pointer, entry in _entries(case):
        spec = SPECS.get(entry["metric"])
        value = entry.get("target")
        if spec is not None and value is not None and not spec.low <= value <= spec.high:
            message = f"the target {value} is outside the range of {spec.name}, {spec.low:g} to {spec.high:g}"
            yield case.at((*pointer, "target"), "target", message)


def _entries(case: CaseContext) -> Iterator[tuple[Pointer, Mapping[str, Any]]]:
    for index, entry in enumerate(case.data["measure"].get("output", ())):
        yield ("measure", "output", index), entry


def _known(case: CaseContext) -> Iterator[tuple[Pointer, Spec]]:
    """The measurements whose metric exists, with its facts."""
    for pointer, entry in _entries(case):
        if (spec := SPECS.get(entry["metric"])) is not None:
            yield pointer, spec


@cache
def _fitting(kind: str) -> frozenset[str]:
    """The metrics of a kind of output."""
    kinds = set(METRIC_KINDS[kind])
    return frozenset(name for name, spec in SPECS.items() if not kinds.isdisjoint(spec.kinds))


@cache
def _judged(kind: str) -> frozenset[str]:
    """Those of them that a bound can judge."""
    return frozenset(name for name in _fitting(kind) if SPECS[name].direction != "none")


def _needs_alpha(spec: Spec) -> bool:
    return spec.name.startswith("alpha_") or spec.name == "ssim_rgba"


def _mode(output: Mapping[str, Any]) -> str:
    return str(output.get("mode", "RGB"))
