"""Two pictures that can be compared, and what was declared of them."""

from __future__ import annotations

from dataclasses import dataclass

from paritygate.metrics.pixels import Array, check_mode, check_pair


@dataclass(frozen=True)
class Pair:
    """Two arrays ``(height, width, channels)`` of one shape and dtype, their declared range and mode."""

    reference: Array
    candidate: Array
    data_range: float
    mode: str

    @property
    def sides(self) -> tuple[Array, Array]:
        """Reference, candidate."""
        return self.reference, self.candidate

    @property
    def shortest(self) -> int:
        """The shorter of height and width, in pixels."""
        return int(min(self.reference.shape[:2]))

    @property
    def problem(self) -> str:
        """Why the peers' metrics have no meaning for this pair; empty when they have one."""
        if self.mode in ("LA", "RGBA"):
            return "alpha is not a colour; compare the colours and the alpha apart"
        if self.reference.dtype.name not in ("uint8", "float32"):
            return f"it is reproduced for 8-bit and float32 pixels, not {self.reference.dtype.name}"
        return ""


def checked_pair(reference: Array, candidate: Array, *, data_range: float, mode: str) -> Pair:
    """The two arrays as a pair, unchanged.

    Raises:
        MetricError: they do not fit each other, or not what was declared.
    """
    check_pair(reference, candidate, data_range=data_range)
    check_mode(reference, mode=mode)
    return Pair(reference, candidate, float(data_range), mode)
