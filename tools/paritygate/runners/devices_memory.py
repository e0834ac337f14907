"""How much memory is free where the case will run, and who holds the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from paritygate.runners.drivers import NPU_ROWS, Card, ask, is_count, rocm_cards
from paritygate.runners.problems import PreflightProblem

_MIB = 1 << 20
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


def card_problems(
    cards: tuple[Card, ...], needed: int, environ: Mapping[str, str] = os.environ
) -> Iterator[PreflightProblem]:
    """Cards that another program is using, or that cannot hold the weights.

    Args:
        cards: those on which the case will run.
        needed: bytes that the weights take at least on each of them, as far as that is known.
        environ: where variables are looked up.
    """
    if not cards:
        return
    query, variable = _PLATFORMS[cards[0].platform]
    memory = query(environ)
    for card in cards:
        state = memory.get(card.uuid)
        if state is None:
            continue
        place = f"card {card.index} ({card.name})"
        busy = [row for row in state.processes if row[2] >= _SMALL_MIB]
        if busy or state.used > state.total * _USED_SHARE:
            by = ", ".join(f"{name} (pid {pid}) holds {mib} MiB" for pid, name, mib in busy)
            fix = "end it" if busy else "find the program on the host and end it"
            yield PreflightProblem(
                code="memory",
                message=f"{place} has {state.used} of {state.total} MiB in use" + (f": {by}" if by else ""),
                fix=f"{fix}, wait for it, or choose another card with {variable}",
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


def _nvidia(environ: Mapping[str, str]) -> dict[str, CardMemory]:
    holders: dict[str, list[tuple[int, str, int]]] = {}
    for words in _rows(_PROCESSES, environ):
        if is_count(words[1]) and is_count(words[-1]):
            name = Path(", ".join(words[2:-1])).name
            holders.setdefault(words[0], []).append((int(words[1]), name, int(words[-1])))
    return {
        words[0]: CardMemory(
            total=int(words[1]), used=int(words[2]), free=int(words[3]), processes=tuple(holders.get(words[0], ()))
        )
        for words in _rows(_CARDS, environ)
        if all(is_count(word) for word in words[1:4])
    }


def _rows(query: tuple[str, ...], environ: Mapping[str, str]) -> list[list[str]]:
    """The rows that ``nvidia-smi`` answers, of four words or more."""
    rows = [[word.strip() for word in line.split(",")] for line in ask("nvidia-smi", query, environ).splitlines()]
    return [row for row in rows if len(row) >= 4]


def _amd(environ: Mapping[str, str]) -> dict[str, CardMemory]:
    found = {}
    for name, facts in rocm_cards(ask("rocm-smi", ("--showmeminfo", "vram", "--json"), environ)).items():
        words = [facts.get(f"vram total {word}memory (b)", "") for word in ("", "used ")]
        if all(is_count(word) for word in words):
            total, used = (int(word) // _MIB for word in words)
            found[name] = CardMemory(total=total, used=used, free=total - used, processes=())
    return found


def _ascend(environ: Mapping[str, str]) -> dict[str, CardMemory]:
    rows = NPU_ROWS.finditer(ask("npu-smi", ("info",), environ))
    sizes = {row["bus"]: (int(row["total"]), int(row["used"])) for row in rows}
    return {
        bus: CardMemory(total=total, used=used, free=total - used, processes=()) for bus, (total, used) in sizes.items()
    }


#: Platform -> how its memory is asked for, and the variable that chooses among its cards.
_PLATFORMS: Mapping[str, tuple[Callable[[Mapping[str, str]], dict[str, CardMemory]], str]] = MappingProxyType(
    {
        "cuda": (_nvidia, "CUDA_VISIBLE_DEVICES"),
        "npu": (_ascend, "ASCEND_RT_VISIBLE_DEVICES"),
        "rocm": (_amd, "HIP_VISIBLE_DEVICES"),
    }
)
