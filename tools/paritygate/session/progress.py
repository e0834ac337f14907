"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One step forward. ``done`` of ``total`` counts suite items while a leg runs; ``total`` is 0 elsewhere."""

    case: str
    stage: str
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        """A plain line for logs."""
        count = f" {self.done}/{self.total}" if self.total else ""
        return f"{self.case}: {self.stage}{count}"


Watcher = Callable[[Progress], object]


def silent(_progress: Progress) -> None:
    """A watcher that says nothing."""
