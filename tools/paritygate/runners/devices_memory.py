"""How much memory is free where the case will run, and who holds the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from paritygate.runners.devices import Card
from paritygate.runners.problems import PreflightProblem

_MIB = 1 << 20
_TIMEOUT_S = 30
_CARDS = ("--query-gpu=uuid,memory.total,memory.used,memory.free", "--format=csv,noheader,nounits")
_PROCESSES = ("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv,noheader,nounits")
#: More than this share of a card in use is another program, whether the driver shows it or not; a context alone and
#: the driver's own need stay below.
_USED_SHARE = 0.1
#: A process that holds less has a context and no model.
_SMALL_MIB = 600


class CardMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one card in MiB, and the processes that hold some: ``(pid, name, MiB)``; containers may hide them."""

    total: int
    used: int
    free: int
    processes: tuple[tuple[int, str, int], ...]


def card_memory(environ: Mapping[str, str] = os.environ) -> dict[str, CardMemory]:
    """Unique id of a card -> its memory; a card is absent when the driver does not say."""
    holders: dict[str, list[tuple[int, str, int]]] = {}
    for words in _rows(_PROCESSES, environ, 4):
        if words[1].isdigit() and words[-1].isdigit():
            name = Path(", ".join(words[2:-1])).name
            holders.setdefault(words[0], []).append((int(words[1]), name, int(words[-1])))
    return {
        words[0]: CardMemory(
            total=int(words[1]), used=int(words[2]), free=int(words[3]), processes=tuple(holders.get(words[0], ()))
        )
        for words in _rows(_CARDS, environ, 4)
        if all(word.isdigit() for word in words[1:4])
    }


def card_problems(
    cards: tuple[Card, ...], needed: int, environ: Mapping[str, str] = os.environ
) -> Iterator[PreflightProblem]:
    """Cards that another program is using, or that cannot hold the weights.

    Args:
        cards: those on which the case will run.
        needed: bytes that the weights take at least on each of them, as far as that is known.
        environ: where variables are looked up.
    """
    memory = card_memory(environ) if cards else {}
    for card in cards:
        state = memory.get(card.uuid)
        if state is None:
            continue
        place = f"card {card.index} ({card.name})"
        busy = [row for row in state.processes if row[2] >= _SMALL_MIB]
        if busy or state.used > state.total * _USED_SHARE:
            by = ", ".join(f"{name} (pid {pid}) holds {mib} MiB" for pid, name, mib in busy)
            fix = "end it" if busy else "find the program with nvidia-smi on the host and end it"
            yield PreflightProblem(
                code="memory",
                message=f"{place} has {state.used} of {state.total} MiB in use" + (f": {by}" if by else ""),
                fix=f"{fix}, wait for it, or choose another card with CUDA_VISIBLE_DEVICES",
            )
        elif state.free * _MIB < needed:
            yield PreflightProblem(
                code="memory",
                message=f"{place} has {state.free} MiB free, the weights alone take {needed // _MIB} MiB",
                fix="use a card with more memory, a smaller dtype or offload",
            )


def main_memory_problems(needed: int) -> Iterator[PreflightProblem]:
    """Whether the weights fit into the memory of this machine, or of the container."""
    free = free_memory()
    if free < needed:
        yield PreflightProblem(
            code="memory",
            message=f"{free // _MIB} MiB of memory are free, the weights alone take {needed // _MIB} MiB",
            fix="end other programs, or use a machine with more memory",
        )


def free_memory(control_groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that this process may still take: what the machine has, or what its container leaves."""
    import psutil  # noqa: PLC0415 - part of the run extra, not of the core

    free = int(psutil.virtual_memory().available)
    try:
        limit, used = (int((control_groups / name).read_text()) for name in ("memory.max", "memory.current"))
        stated = (line.split() for line in (control_groups / "memory.stat").read_text().splitlines())
        # Pages of files that the kernel gives back when they are needed.
        cached = sum(int(value) for name, value in stated if name == "inactive_file")
    except (OSError, ValueError):  # no limit, or no control groups of version 2
        return free
    return min(free, max(0, limit - used + cached))


def _rows(query: tuple[str, ...], environ: Mapping[str, str], words: int) -> Iterator[list[str]]:
    """The rows that the driver answers, split at commas; none without a driver."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return
    try:
        done = subprocess.run(
            [tool, *query], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True, env=dict(environ)
        )
    except (OSError, subprocess.SubprocessError):
        return
    for line in done.stdout.splitlines():
        found = [word.strip() for word in line.split(",")]
        if len(found) >= words:
            yield found
