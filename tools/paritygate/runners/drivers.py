"""The cards that the drivers of this machine list, by the tool of each maker; no framework is imported."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from paritygate.runners.asking import UnansweredError, ask_program

#: Name as the driver reports it -> SKU of the hardware registry. Exact, because ``GB200`` is not a ``B200``, and a
#: PCIe or NVL card has other clocks and kernels than the SXM one. Sorted.
SKUS: Mapping[str, str] = MappingProxyType(
    {
        "910B1": "ASCEND_910B1",
        "910B2": "ASCEND_910B2",
        "910B3": "ASCEND_910B3",
        "910B4": "ASCEND_910B4",
        "AMD Instinct MI210": "MI210",
        "AMD Instinct MI250X": "MI250X",
        "AMD Instinct MI300X": "MI300X",
        "AMD Instinct MI300X OAM": "MI300X",
        "AMD Instinct MI325X": "MI325X",
        "AMD Instinct MI355X": "MI355X",
        "NVIDIA A10": "A10",
        "NVIDIA A100 80GB PCIe": "A100_PCIE",
        "NVIDIA A100-PCIE-40GB": "A100_PCIE",
        "NVIDIA A100-SXM4-40GB": "A100",
        "NVIDIA A100-SXM4-80GB": "A100",
        "NVIDIA B200": "B200",
        "NVIDIA GB200": "GB200",
        "NVIDIA GeForce RTX 4090": "RTX4090",
        "NVIDIA GeForce RTX 5090": "RTX5090",
        "NVIDIA H100 80GB HBM3": "H100",
        "NVIDIA H100 NVL": "H100_NVL",
        "NVIDIA H100 PCIe": "H100_PCIE",
        "NVIDIA H20": "H20",
        "NVIDIA H200": "H200",
        "NVIDIA L4": "L4",
        "NVIDIA L40S": "L40S",
    }
)
#: One card of ``npu-smi info``: its name and health, and below them its bus and what of its memory is used.
NPU_ROWS = re.compile(
    r"^\| *(?P<index>[0-9]{1,9}) +(?P<name>\S+) *\| *\S+ *\|.*\|\s*"
    r"^\| *[0-9]{1,9} *\| *(?P<bus>\S+) *\|.*?(?P<used>[0-9]{1,15}) */ *(?P<total>[0-9]{1,15}) *\|",
    re.MULTILINE,
)

_TIMEOUT_S = 30
#: Machines of many cards print some ten thousand characters.
_MAX_BYTES = 1 << 20
_COUNT = re.compile(r"[0-9]{1,15}")
_NVIDIA_QUERY = ("--query-gpu=index,uuid,name,compute_cap", "--format=csv,noheader")


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One card as the driver names it; ``sku`` is empty for a name that is not in the table."""

    index: str
    uuid: str
    name: str
    arch: str
    sku: str
    platform: str = "cuda"


def cards(environ: Mapping[str, str] = os.environ) -> tuple[Card, ...]:
    """The cards that a leg may use, in the order in which it sees them; none without a driver."""
    for listed in _DRIVERS:
        if found := listed(environ):
            return found
    return ()


def ask(tool: str, arguments: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """What a tool of a driver prints; nothing where it is not installed, fails or does not end."""
    path = shutil.which(tool, path=environ.get("PATH"))
    if path is None:
        return ""
    try:
        printed = ask_program([path, *arguments], environment=environ, timeout_s=_TIMEOUT_S)
    except UnansweredError:
        return ""
    return printed[:_MAX_BYTES].decode("utf-8", "replace")


def silent_tools(environ: Mapping[str, str]) -> list[str]:
    """The tools of drivers that are installed, where :func:`cards` finds none."""
    return [tool for tool in ("nvidia-smi", "rocm-smi", "npu-smi") if shutil.which(tool, path=environ.get("PATH"))]


def is_count(word: str) -> bool:
    """Whether a word is a number that a driver can mean."""
    return _COUNT.fullmatch(word) is not None


def rocm_cards(text: str) -> dict[str, dict[str, str]]:
    """What ``rocm-smi --json`` tells of each card, ``card0`` first, with its keys in lower case."""
    try:
        data = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError):
        return {}
    found = {
        name: {key.lower(): str(value) for key, value in data[name].items()} for name in data if is_count(name[4:])
    }
    return dict(sorted(found.items(), key=lambda row: int(row[0][4:])))


def _nvidia(environ: Mapping[str, str]) -> tuple[Card, ...]:
    lines = ask("nvidia-smi", _NVIDIA_QUERY, environ).splitlines()
    found = tuple(_nvidia_card(line) for line in lines if line.count(",") >= 3)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    return found if visible is None else _visible(found, visible.split(","))


def _nvidia_card(line: str) -> Card:
    index, uuid, rest = (part.strip() for part in line.split(",", 2))
    name, _, capability = (part.strip() for part in rest.rpartition(","))
    return Card(index=index, uuid=uuid, name=name, arch=f"sm_{capability.replace('.', '')}", sku=SKUS.get(name, ""))


def _visible(found: tuple[Card, ...], entries: list[str]) -> tuple[Card, ...]:
    """The named cards in their order, up to the first entry that names none, several, or one again, as CUDA does."""
    chosen: list[Card] = []
    for entry in (entry.strip() for entry in entries):
        named = [card for card in found if card.index == entry or (entry[:4] == "GPU-" and card.uuid.startswith(entry))]
        if len(named) != 1 or named[0] in chosen:
            break
        chosen += named
    return tuple(chosen)


def _amd(environ: Mapping[str, str]) -> tuple[Card, ...]:
    told = rocm_cards(ask("rocm-smi", ("--showproductname", "--showuniqueid", "--json"), environ))
    found = tuple(
        Card(
            index=name[4:],
            uuid=name,
            name=facts.get("card series", ""),
            arch=facts.get("gfx version", ""),
            sku=SKUS.get(facts.get("card series", ""), ""),
            platform="rocm",
        )
        for name, facts in told.items()
    )
    # HIP counts what ROCr has left over.
    for variables in (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")):
        stated = next((environ[name] for name in variables if name in environ), None)
        found = _at(found, stated)
    return found


def _ascend(environ: Mapping[str, str]) -> tuple[Card, ...]:
    rows = NPU_ROWS.finditer(ask("npu-smi", ("info",), environ))
    found = tuple(
        Card(
            index=row["index"],
            uuid=row["bus"],
            name=row["name"],
            arch=row["name"].lower(),
            sku=SKUS.get(row["name"], ""),
            platform="npu",
        )
        for row in rows
    )
    return _at(found, environ.get("ASCEND_RT_VISIBLE_DEVICES"))


def _at(found: tuple[Card, ...], stated: str | None) -> tuple[Card, ...]:
    """The cards at the stated places, up to the first that is none; all when nothing is stated."""
    if stated is None:
        return found
    chosen: list[Card] = []
    for entry in (entry.strip() for entry in stated.split(",")):
        if not is_count(entry) or int(entry) >= len(found) or found[int(entry)] in chosen:
            break
        chosen.append(found[int(entry)])
    return tuple(chosen)


_DRIVERS: tuple[Callable[[Mapping[str, str]], tuple[Card, ...]], ...] = (_nvidia, _amd, _ascend)
