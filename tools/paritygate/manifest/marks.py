"""Marks of a case, and the expression that selects it: pytest and CI read the same declaration."""

from __future__ import annotations

from paritygate.manifest.case import Case
from paritygate.manifest.registries import MODALITIES, Registries

_PLATFORM_NAMES = {"cpu": "CPUs", "cuda": "CUDA devices", "npu": "Ascend NPUs", "rocm": "ROCm devices"}


def marks(case: Case, registries: Registries) -> tuple[str, ...]:
    """The names of a case's pytest marks, each once.

    ``accuracy``, the lane, the platforms, every SKU that can run it, ``cards_<n>`` where it needs cards, and
    what its output is: for example ``accuracy nightly cuda H100 B200 cards_1 image``.
    """
    ci = case.ci
    hardware = registries.hardware
    platforms = [hardware[sku].platform for sku in ci.sku if sku in hardware]
    cards = [f"cards_{ci.cards}"] if ci.cards else []
    return tuple(dict.fromkeys(["accuracy", ci.lane, *platforms, *ci.sku, *cards, *MODALITIES[case.output.kind]]))


def mark_expression(case: Case, *, sku: str) -> str:
    """The ``-m`` expression of the step that runs a case on ``sku``: ``nightly and H100 and cards_1``."""
    parts = [case.ci.lane, sku]
    if case.ci.cards:
        parts.append(f"cards_{case.ci.cards}")
    return " and ".join(parts)


def all_marks(registries: Registries) -> dict[str, str]:
    """Every mark that a case may carry, with its description: what ``--strict-markers`` must know. Sorted."""
    known = {"accuracy": "an accuracy case of paritygate"}
    for lane in registries.lanes.values():
        known[lane.name] = f"lane: {lane.description}"
    for hardware in registries.hardware.values():
        known[hardware.platform] = f"runs on {_PLATFORM_NAMES[hardware.platform]}"
        known[hardware.sku] = f"can run on {hardware.sku}"
        known |= {f"cards_{count}": f"needs {count} card{'s' * (count > 1)}" for count in hardware.cards if count}
    known |= {mark: f"its output holds {mark}" for names in MODALITIES.values() for mark in names}
    return dict(sorted(known.items()))
