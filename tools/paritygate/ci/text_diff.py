"""Unified diffs of long generated files in seconds, not minutes.

``difflib`` alone is quadratic in repetitive text. Lines that occur once on each side are anchors (as in a patience
diff), and only what lies between two anchors is left to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

_Opcode: TypeAlias = "tuple[str, int, int, int, int]"
_CONTEXT = 3


class _Opcodes(SequenceMatcher[str]):
    """Opcodes found elsewhere, for the grouping that ``difflib`` does well."""

    def __init__(self, opcodes: list[_Opcode]) -> None:
        super().__init__(None, "", "")
        self._opcodes = opcodes

    def get_opcodes(self) -> list[_Opcode]:  # type: ignore[override] # tags are plain text here
        """The given opcodes."""
        return self._opcodes


def unified_diff(old: str | None, new: str | None, *, name: str) -> str:
    """The diff from ``old`` to ``new`` in the format of ``diff -u``; None stands for a file that does not exist."""
    before = [] if old is None else old.splitlines(keepends=True)
    after = [] if new is None else new.splitlines(keepends=True)
    lines = [
        f"--- {'/dev/null' if old is None else f'a/{name}'}\n",
        f"+++ {'/dev/null' if new is None else f'b/{name}'}\n",
    ]
    for group in _Opcodes(list(_opcodes(before, after))).get_grouped_opcodes(_CONTEXT):
        lines += _hunk(group, before, after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _hunk(group: Sequence[_Opcode], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n"
    for tag, i1, i2, j1, j2 in group:
        if tag == "equal":
            yield from (f" {line}" for line in before[i1:i2])
        else:
            yield from (f"-{line}" for line in before[i1:i2])
            yield from (f"+{line}" for line in after[j1:j2])


def _span(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _opcodes(before: Sequence[str], after: Sequence[str]) -> Iterator[_Opcode]:
    """Opcodes as ``SequenceMatcher`` gives them, equal runs joined."""
    pending: _Opcode | None = None
    for opcode in _pieces(before, after):
        tag, _, i2, _, j2 = opcode
        if pending is not None and tag == pending[0] == "equal":
            pending = (tag, pending[1], i2, pending[3], j2)
            continue
        if pending is not None:
            yield pending
        pending = opcode
    if pending is not None:
        yield pending


def _pieces(before: Sequence[str], after: Sequence[str]) -> Iterator[_Opcode]:
    i, j = 0, 0
    for anchor_i, anchor_j in [*_anchors(before, after), (len(before), len(after))]:
        matcher = SequenceMatcher(None, before[i:anchor_i], after[j:anchor_j], autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            yield tag, i + i1, i + i2, j + j1, j + j2
        if anchor_i < len(before):
            yield "equal", anchor_i, anchor_i + 1, anchor_j, anchor_j + 1
        i, j = anchor_i + 1, anchor_j + 1


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Positions of lines unique on both sides, the longest run of them that ascends on both."""
    there = {line for line, count in Counter(after).items() if count == 1}
    single = there & {line for line, count in Counter(before).items() if count == 1}
    place = {line: j for j, line in enumerate(after) if line in single}
    pairs = [(i, place[line]) for i, line in enumerate(before) if line in single]
    # Patience: tails[k] ends the lowest ascending run of length k + 1; links lead back through it.
    tails: list[int] = []
    ends: list[int] = []
    links: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        links.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(j)
            ends.append(index)
        else:
            tails[length], ends[length] = j, index
    run: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        run.append(pairs[index])
        index = links[index]
    return run[::-1]
