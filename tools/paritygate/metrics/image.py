"""Image metrics: two arrays in, numbers out. Not for files, suites or bounds.

Reference and candidate have one shape ``(height, width, channels)``, one dtype (uint8, uint16, float32 or float64), a
declared ``data_range`` (255, 65535, or the format's own range for floats; never the range of the data) and a declared
``mode`` that says what the channels are. Arrays that do not fit raise ``MetricError``; a metric that has no meaning for
this pair is refused with its reason. What each name computes is stated in ``specs.image``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from paritygate.errors import MetricError
from paritygate.metrics import ssim as _ssim
from paritygate.metrics.levels import Differences, differences
from paritygate.metrics.pixels import CHANNELS, COLOURS, Array, check_mode, check_pair
from paritygate.metrics.specs.image import IMAGE, PERCENTILES, SYMPTOMS, TOLERANCES
from paritygate.metrics.statistics import statistics
from paritygate.metrics.tiles import Floats, highest_mean
from paritygate.metrics.values import Value, refused

__all__ = ["default_names", "measure", "statistics"]


def measure(
    names: Iterable[str], reference: Array, candidate: Array, *, data_range: float, mode: str
) -> dict[str, Value]:
    """Every named metric of one pair of images; what several of them need is computed once.

    Args:
        names: of ``specs.image``, in any order.
        reference: ``(height, width, channels)``.
        candidate: of the same shape and dtype.
        data_range: 255 for uint8, 65535 for uint16, declared for floats; values lie in ``[0, data_range]``.
        mode: what the channels are: L, LA, RGB or RGBA, alpha straight.

    Raises:
        MetricError: when the arrays do not fit each other or what is declared, hold values that are not finite, or a
            name is unknown.
    """
    wanted = tuple(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in _TABLE]
    if unknown:
        raise MetricError(f"no image metric has the name {', '.join(unknown)}")
    check_pair(reference, candidate, data_range=data_range)
    check_mode(reference, mode=mode)
    pair = _Pair(reference, candidate, data_range=data_range, mode=mode)
    return {name: _TABLE[name](pair) for name in wanted}


def default_names(mode: str) -> tuple[str, ...]:
    """What is measured when nobody asks for other names, sorted; alpha only where the mode has it."""
    return tuple(
        spec.name for spec in IMAGE if spec.default and (_has_alpha(mode) or not spec.name.startswith("alpha_"))
    )


class _Pair:
    """Two checked images, and the work that metrics share, done when the first of them asks."""

    def __init__(self, reference: Array, candidate: Array, *, data_range: float, mode: str) -> None:
        self.reference, self.candidate = reference, candidate
        self.data_range, self.mode = data_range, mode
        self.height, self.width = reference.shape[:2]
        self._sums: dict[_ssim.Plane, Floats] = {}

    @functools.cached_property
    def differences(self) -> Differences:
        return differences(self.reference, self.candidate, data_range=self.data_range)

    def loss_sums(self, planes: Iterable[_ssim.Plane]) -> Floats:
        """1 - SSIM added up in cells, mean over planes."""
        wanted = tuple(planes)
        for plane in wanted:
            if plane not in self._sums:
                self._sums[plane] = _ssim.loss_sums(
                    self.reference, self.candidate, data_range=self.data_range, plane=plane
                )
        sums: Floats = self._sums[wanted[0]].copy()
        for plane in wanted[1:]:
            sums += self._sums[plane]
        sums /= len(wanted)
        return sums

    @functools.cached_property
    def symptoms(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        sides = (self.reference, self.candidate)
        both = [statistics(side, data_range=self.data_range, mode=self.mode) for side in sides]
        return both[0], both[1]


def _has_alpha(mode: str) -> bool:
    return CHANNELS[mode] > COLOURS[mode]


def _too_small(pair: _Pair) -> Value | None:
    if min(pair.height, pair.width) >= _ssim.WINDOW:
        return None
    window = f"{_ssim.WINDOW}x{_ssim.WINDOW}"
    return refused(f"ssim is not applicable: the image is {pair.width}x{pair.height}, its window is {window} pixels")


def _mean_ssim(pair: _Pair, planes: Iterable[_ssim.Plane]) -> Value:
    windows = (pair.height - 2 * _ssim.RADIUS) * (pair.width - 2 * _ssim.RADIUS)
    return _too_small(pair) or Value(1.0 - float(pair.loss_sums(planes).sum()) / windows)


def _ssim_rgba(pair: _Pair) -> Value:
    if pair.mode != "RGBA":
        return refused(f"ssim_rgba is defined for RGBA images, not {pair.mode}")
    return _mean_ssim(pair, range(CHANNELS["RGBA"]))


def _ssim_worst_tile(pair: _Pair) -> Value:
    small = _too_small(pair)
    if small is not None:
        return small
    loss, place = highest_mean(
        pair.loss_sums(range(COLOURS[pair.mode])), height=pair.height, width=pair.width, margin=_ssim.RADIUS
    )
    return Value(1.0 - loss, place)


def _psnr_db(pair: _Pair) -> Value:
    mean_square = pair.differences.mean_square
    if mean_square == 0:
        return Value(math.inf)
    return Value(20.0 * math.log10(pair.data_range) - 10.0 * math.log10(mean_square))


def _abs_diff_worst_tile(pair: _Pair) -> Value:
    total, place = highest_mean(pair.differences.cell_sums, height=pair.height, width=pair.width)
    return Value(total / pair.reference.shape[2] / pair.data_range, place)


def _signed_mean_worst(pair: _Pair) -> Value:
    signed = [mean / pair.data_range for mean in pair.differences.signed]
    return Value(max(map(abs, signed)), {"signed_mean_per_channel": signed})


def _share(amount: Callable[[Differences], float]) -> Callable[[_Pair], Value]:
    return lambda pair: Value(amount(pair.differences) / pair.data_range)


def _alpha(amount: Callable[[Differences], float]) -> Callable[[_Pair], Value]:
    def value(pair: _Pair) -> Value:
        if not _has_alpha(pair.mode):
            return refused(f"{pair.mode} images have no alpha channel")
        return Value(amount(pair.differences) / pair.data_range)

    return value


def _percentile(suffix: str) -> Callable[[_Pair], Value]:
    return _share(lambda found: found.percentiles[suffix])


def _mismatch(tolerance: int, *, pixels: str) -> Callable[[_Pair], Value]:
    return lambda pair: Value(getattr(pair.differences, pixels)[tolerance])


def _symptom(name: str) -> Callable[[_Pair], Value]:
    def value(pair: _Pair) -> Value:
        reference, candidate = pair.symptoms
        if name not in candidate:
            return refused(f"{name} is defined for colours, not {pair.mode}")
        return Value(candidate[name], {"reference": reference[name], "candidate": candidate[name]})

    return value


_TABLE: Mapping[str, Callable[[_Pair], Value]] = MappingProxyType(
    {
        "abs_diff_max": _share(lambda found: found.maximum),
        "abs_diff_mean": _share(lambda found: found.mean),
        **{f"abs_diff_{suffix}": _percentile(suffix) for suffix in PERCENTILES},
        "abs_diff_worst_tile": _abs_diff_worst_tile,
        "alpha_error_max": _alpha(lambda found: found.alpha_max),
        "alpha_error_mean": _alpha(lambda found: found.alpha_mean),
        **{f"channel_mismatch_over_{level}": _mismatch(level, pixels="channel_over") for level in TOLERANCES},
        **{f"pixel_mismatch_over_{level}": _mismatch(level, pixels="pixel_over") for level in TOLERANCES},
        "psnr_db": _psnr_db,
        "signed_mean_worst": _signed_mean_worst,
        "ssim": lambda pair: _mean_ssim(pair, range(COLOURS[pair.mode])),
        "ssim_rgba": _ssim_rgba,
        "ssim_worst_tile": _ssim_worst_tile,
        "ssim_y": lambda pair: _mean_ssim(pair, ("y",)),
        **{name: _symptom(name) for name in SYMPTOMS},
    }
)
