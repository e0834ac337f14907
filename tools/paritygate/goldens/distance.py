"""How far two versions of a golden lie apart, file by file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from paritygate.compare.files.compare import compare_files
from paritygate.compare.files.declared import Declared
from paritygate.compare.files.pairing import pair_up
from paritygate.metrics.specs import Kind
from paritygate.records.model import OUTPUTS_FOLDER, Real

#: What is compared -> the largest difference of any value.
_METRICS: Mapping[Kind, str] = MappingProxyType(
    {"audio": "abs_error_max", "image": "abs_diff_max", "tensor": "abs_error_max", "video": "abs_diff_max"}
)


class Distance(NamedTuple):
    """One file: the largest absolute difference of its values, in the unit of the metric; or why there is none."""

    file: str
    metric: str
    largest: Real
    problem: str = ""


def distances(before: Path, after: Path) -> tuple[Distance, ...]:
    """What moved between two verified goldens, every file of their outputs, the largest difference first.

    Pictures and clips are measured as shares of their range, arrays in their own numbers.
    """
    pairing = pair_up(before / OUTPUTS_FOLDER, after / OUTPUTS_FOLDER, ignore=("*.json",))
    metrics = tuple(sorted({_METRICS[pair.kind] for pair in pairing.pairs}))
    result = compare_files(before, after, pairing, declared=Declared(metrics=metrics, across="two versions"))
    found = [
        Distance(part.name, series.metric, Real(max(series.values.values())))
        for part in result.parts
        for series in part.series
        if series.metric == _METRICS[part.kind]
    ]
    found.sort(key=lambda entry: (-entry.largest, entry.file))
    broken = (Distance(finding.item or "", "", Real("nan"), finding.message) for finding in result.findings)
    return (*broken, *found)
