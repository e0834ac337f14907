"""What other libraries compute on two pictures, so that a threshold written for them carries over.

Own NumPy code: neither the libraries nor FFmpeg are needed. Each number is the peer's, with the peer's faults; which
ones are faulty, and how closely each was compared, stands in ``specs.migration`` and ``docs/metrics.md``. For a new
threshold use ``image``.
"""

from __future__ import annotations

from collections.abc import Iterable

from paritygate.errors import MetricError
from paritygate.metrics import migration_ffmpeg, migration_msssim, migration_skimage, migration_torchmetrics
from paritygate.metrics.migration_pair import checked_pair
from paritygate.metrics.pixels import Array
from paritygate.metrics.values import Value, refused

_FAMILIES = (migration_ffmpeg, migration_msssim, migration_skimage, migration_torchmetrics)

#: Metrics of this module, sorted.
NAMES = tuple(sorted(name for family in _FAMILIES for name in family.NAMES))


def measure(
    names: Iterable[str], reference: Array, candidate: Array, *, data_range: float, mode: str
) -> dict[str, Value]:
    """Every named metric of one pair of pictures, in the order asked for.

    Args:
        names: of ``NAMES``, in any order.
        reference: ``(height, width, channels)``, uint8 or float32; other types and alpha are refused.
        candidate: of the same shape and dtype.
        data_range: 255 for uint8, declared for float32; values lie in ``[0, data_range]``.
        mode: what the channels are: L, LA, RGB or RGBA.

    Raises:
        MetricError: when the arrays do not fit each other or what is declared, hold values that are not finite, or a
            name is unknown.
    """
    wanted = tuple(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in NAMES]:
        raise MetricError(f"no migration metric has the name {', '.join(unknown)}")
    pair = checked_pair(reference, candidate, data_range=data_range, mode=mode)
    if pair.problem:
        return {name: refused(f"{name}: {pair.problem}") for name in wanted}
    found: dict[str, Value] = {}
    for family in _FAMILIES:
        found |= family.measure([name for name in wanted if name in family.NAMES], pair)
    return {name: found[name] for name in wanted}
