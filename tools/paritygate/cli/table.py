"""Aligned tables for a terminal: inert text, numbers with as many digits as people read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from paritygate.errors import printable

#: Longer cells are cut: a table is for reading, the whole text is in the JSON.
MAX_CELL = 60


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """Lines of a table, indented by two; the first ``left`` columns are text, the others are set to the right."""
    cells = [[_cut(cell) for cell in row] for row in (header, *rows)]
    used = [index for index in range(len(header)) if any(row[index] for row in cells[1:])]
    widths = {index: max(len(row[index]) for row in cells) for index in used}
    for row in cells:
        shown = (row[i].ljust(widths[i]) if i < left or not _is_numeric(header[i]) else row[i].rjust(widths[i])
                 for i in used)  # fmt: skip
        yield f"  {'  '.join(shown)}".rstrip()


def number(value: float) -> str:
    """Six digits; a value that is not quite 1 is never shown as 1."""
    if math.isnan(value):
        return "no value"
    text = f"{value:.6g}"
    return f"1 - {1 - value:.2g}" if text == "1" and value < 1 else text


def _is_numeric(title: str) -> bool:
    return title not in ("where", "unit", "bound", "worst at")


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= MAX_CELL else f"{shown[: MAX_CELL - 1]}\N{HORIZONTAL ELLIPSIS}"
