"""One measured number, and why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Value:
    """One metric of one pair.

    ``number`` is NaN when it could not be computed; ``problem`` then says why. ``detail`` is JSON data that says
    where or how (the worst tile, the channel, the index).
    """

    number: float
    detail: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def refused(reason: str) -> Value:
    """No number, for this reason."""
    return Value(math.nan, problem=reason)
