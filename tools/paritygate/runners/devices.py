"""What this machine is: processor and cards, and under which profile a case runs on it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from paritygate.manifest.case import Ci
from paritygate.records.model import DeviceProfile
from paritygate.runners.drivers import Card

CPU_SKU = "CPU"

#: Platform of a profile -> name by which frameworks know its devices; ROCm builds of PyTorch speak of ``cuda`` too.
DEVICES: Mapping[str, str] = MappingProxyType({"cpu": "cpu", "cuda": "cuda", "npu": "npu", "rocm": "cuda"})


def profile_for(ci: Ci, available: tuple[Card, ...]) -> DeviceProfile | None:
    """The device profile under which a case runs here, or None when this machine is none that the case allows."""
    if ci.cards == 0:
        return cpu_profile() if CPU_SKU in ci.sku else None
    if chosen := cards_for(ci, available):
        first = chosen[0]
        return DeviceProfile(platform=first.platform, sku=first.sku, cards=ci.cards, arch=first.arch, name=first.name)
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


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
