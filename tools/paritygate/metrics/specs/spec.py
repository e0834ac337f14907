"""What is stated of every metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["audio", "image", "tensor", "threeway", "video"]

#: Kinds of a metric that is computed on an image, and on each frame of a video.
PICTURES: tuple[Kind, ...] = ("image", "video")

REFUSED = "refused: no number is computed, and a bound on it is not met"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One metric.

    ``kinds``: what it is defined for. ``direction``: which way is better; ``none`` for a description that no bound
    can judge. ``low`` and ``high`` are the ends of the range, reachable and possibly infinite. ``identical`` is the
    value for equal inputs, None where it depends on them. ``blind_to`` says what the number cannot see;
    ``non_finite`` what NaN or infinity in an input does. ``default``: measured when nobody asks. ``extra``: the
    optional part of this package that brings it, empty when it comes with ``run``. ``peer``: the implementation
    whose thresholds carry over, with the version compared and how closely the two agree; empty for the rest.
    """

    name: str
    version: int
    kinds: tuple[Kind, ...]
    formula: str
    source: str
    direction: Literal["higher", "lower", "none"]
    unit: str
    low: float
    high: float
    identical: float | None
    blind_to: str
    non_finite: str = REFUSED
    default: bool = False
    extra: str = ""
    peer: str = ""
