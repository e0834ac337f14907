"""Names of metrics on pictures -> the module that computes them, so that metrics of one module share their work."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from paritygate.errors import MetricError
from paritygate.metrics.specs.image import IMAGE
from paritygate.metrics.specs.migration import MIGRATION
from paritygate.metrics.specs.perceptual import PERCEPTUAL
from paritygate.metrics.values import Value

#: Metric of a pair of images -> the module below ``metrics`` that measures it.
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        spec.name: module
        for module, specs in (("image", IMAGE), ("migration", MIGRATION), ("perceptual", PERCEPTUAL))
        for spec in specs
    }
)


def by_module(names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The names in groups that share their work, each name once.

    Raises:
        MetricError: for a name that is not measured on images.
    """
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        if name not in _MODULES:
            raise MetricError(f"no image metric has the name {name}")
        groups.setdefault(_MODULES[name], []).append(name)
    return tuple(tuple(group) for group in groups.values())


def measure_images(
    names: Iterable[str], reference: NDArray[Any], candidate: NDArray[Any], *, data_range: float, mode: str
) -> dict[str, Value]:
    """Every named metric of one pair of images, in the order asked for, whatever module computes it.

    Args:
        names: of metrics whose kinds include ``image``.
        reference: ``(height, width, channels)``.
        candidate: of the same shape and dtype.
        data_range: declared: 255 for uint8, 65535 for uint16, 1.0 for floats in [0, 1].
        mode: what the channels are: L, LA, RGB or RGBA.

    Raises:
        MetricError: when the arrays do not fit each other or what is declared, or a name is unknown.
        MissingExtraError: when the part of this package that computes one is not installed.
    """
    wanted = tuple(names)
    found: dict[str, Value] = {}
    for group in by_module(wanted):
        module = importlib.import_module(f"paritygate.metrics.{_MODULES[group[0]]}")
        found |= module.measure(group, reference, candidate, data_range=data_range, mode=mode)
    return {name: found[name] for name in wanted}
