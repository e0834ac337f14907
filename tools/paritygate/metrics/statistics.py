"""What one image looks like, in numbers: symptoms to read beside a failed comparison, never to judge it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paritygate.metrics.pixels import COLOURS, Array, check_array, check_mode, check_range

_LUMA = np.array((0.299, 0.587, 0.114))
#: A channel that deviates by less than half a level of 255 shows nothing.
_NEAR_CONSTANT = 0.5 / 255


def statistics(image: Array, *, data_range: float, mode: str) -> dict[str, Any]:
    """The symptoms of one image ``(height, width, channels)``, as shares of the data range or of the pixels.

    Keys are the names in ``specs.image.SYMPTOMS`` (``saturation`` and ``skin_tone_share`` only with colours), and

    - ``channel_means`` and ``channel_deviations``: one number for each channel, alpha included;
    - ``constant``: "yes" when every colour channel has one value, "nearly" when none deviates by half a level of 255
      or more, else "no".

    Raises:
        MetricError: for an array that is no image of this mode and range, or holds values that are not finite.
    """
    check_array(image, side="image")
    check_range(image, data_range, side="image")
    check_mode(image, mode=mode)
    values = image.astype(np.float64) / data_range
    colours = values[..., : COLOURS[mode]]
    means, deviations = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    spread = float(np.ptp(colours, axis=(0, 1)).max())
    found = {
        "channel_means": [float(value) for value in means],
        "channel_deviations": [float(value) for value in deviations],
        "clipped_high_share": float(np.mean(colours == 1.0)),
        "clipped_low_share": float(np.mean(colours == 0.0)),
        "edge_strength": _edge_strength(colours @ _LUMA if COLOURS[mode] == len(_LUMA) else colours[..., 0]),
        "level_deviation": float(deviations[: COLOURS[mode]].mean()),
        "level_spread": spread,
        "mean_level": float(means[: COLOURS[mode]].mean()),
    }
    nearly = bool((deviations[: COLOURS[mode]] < _NEAR_CONSTANT).all())
    found["constant"] = "yes" if spread == 0 else "nearly" if nearly else "no"
    if COLOURS[mode] == len(_LUMA):
        found["saturation"], found["skin_tone_share"] = _saturation(colours), _skin_tone_share(colours)
    return found


def _edge_strength(luma: Array) -> float:
    steps = [np.abs(np.diff(luma, axis=axis)) for axis in (0, 1)]
    count = sum(step.size for step in steps)
    return math.fsum(float(step.sum()) for step in steps) / count if count else 0.0


def _saturation(colours: Array) -> float:
    high = colours.max(axis=2)
    return float(np.mean((high - colours.min(axis=2)) / np.where(high == 0, 1.0, high)))


def _skin_tone_share(colours: Array) -> float:
    levels = np.rint(colours * 255)
    red, green, blue = levels[..., 0], levels[..., 1], levels[..., 2]
    bright = (red > 95) & (green > 40) & (blue > 20)
    warm = (red > blue) & (red - green > 15) & (levels.max(axis=2) - levels.min(axis=2) > 15)
    return float(np.mean(bright & warm))
