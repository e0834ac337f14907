"""What this machine is: processor and cards, found without importing a framework."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from paritygate.manifest.case import Ci
from paritygate.records.model import DeviceProfile

CPU_SKU = "CPU"

#: Name as the driver reports it -> SKU of the hardware registry. Exact, because ``GB200`` is not a ``B200``, and a
#: PCIe or NVL card has other clocks and kernels than the SXM one. Sorted.
NVIDIA_SKUS: Mapping[str, str] = MappingProxyType(
    {
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
#: Platform of a profile -> name by which frameworks know its devices; ROCm builds of PyTorch speak of ``cuda`` too.
DEVICES: Mapping[str, str] = MappingProxyType({"cpu": "cpu", "cuda": "cuda", "rocm": "cuda"})

_QUERY = ("--query-gpu=index,uuid,name,compute_cap", "--format=csv,noheader")
_QUERY_TIMEOUT_S = 30


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One card as the driver names it; ``sku`` is empty for a name that is not in the table."""

    index: str
    uuid: str
    name: str
    arch: str
    sku: str


def cards(environ: Mapping[str, str] = os.environ) -> tuple[Card, ...]:
    """The NVIDIA cards that a leg may use, in the order in which it sees them; none without a driver."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return ()
    try:
        done = subprocess.run(
            [tool, *_QUERY], capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=True, env=dict(environ)
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = tuple(_card(line) for line in done.stdout.splitlines() if line.count(",") >= 3)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    return found if visible is None else _visible(found, visible.split(","))


def _visible(found: tuple[Card, ...], entries: list[str]) -> tuple[Card, ...]:
    """The named cards in their order, up to the first entry that names none, several, or one again, as CUDA does."""
    chosen: list[Card] = []
    for entry in (entry.strip() for entry in entries):
        named = [card for card in found if card.index == entry or (entry[:4] == "GPU-" and card.uuid.startswith(entry))]
        if len(named) != 1 or named[0] in chosen:
            break
        chosen += named
    return tuple(chosen)


def profile_for(ci: Ci, available: tuple[Card, ...]) -> DeviceProfile | None:
    """The device profile under which a case runs here, or None when this machine is none that the case allows."""
    if ci.cards == 0:
        return cpu_profile() if CPU_SKU in ci.sku else None
    if chosen := cards_for(ci, available):
        first = chosen[0]
        return DeviceProfile(platform="cuda", sku=first.sku, cards=ci.cards, arch=first.arch, name=first.name)
    return None


def cards_for(ci: Ci, available: tuple[Card, ...]) -> tuple[Card, ...]:
    """The cards on which a case runs here: as many of one allowed kind as it needs, or none."""
    for sku in ci.sku:
        matching = tuple(card for card in available if card.sku == sku)
        if 0 < ci.cards <= len(matching):
            return matching[: ci.cards]
    return ()


def cpu_profile() -> DeviceProfile:
    """The profile of this machine's processor."""
    return DeviceProfile(platform="cpu", sku=CPU_SKU, cards=0, arch=platform.machine(), name=_processor())


def _card(line: str) -> Card:
    index, uuid, rest = (part.strip() for part in line.split(",", 2))
    name, _, capability = (part.strip() for part in rest.rpartition(","))
    return Card(
        index=index, uuid=uuid, name=name, arch=f"sm_{capability.replace('.', '')}", sku=NVIDIA_SKUS.get(name, "")
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
