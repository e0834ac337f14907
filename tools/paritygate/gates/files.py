"""``<name>.gate.yaml`` -> Gate. A bound that could never fail, or never be met, is refused here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from paritygate.errors import ManifestError
from paritygate.manifest.case import Case
from paritygate.manifest.loader import Document, Pointer, load_yaml
from paritygate.manifest.registries import Registries
from paritygate.manifest.rules.context import GateContext
from paritygate.manifest.rules.table import GATE_RULES
from paritygate.manifest.schemas import check

_Relation = Literal["at_least", "at_most"]
#: Rules that look beyond one variant of one case; ``validate`` has the other variants and the registries.
_WIDER_RULES = frozenset({"gate-device", "gate-variant"})


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One limit on one measurement."""

    measurement: str
    relation: _Relation
    limit: float


@dataclass(frozen=True, kw_only=True)
class GateProfile:
    """The bounds of one variant on one device under one contract.

    ``cards`` is 0 on a processor. ``exact`` lists the items that were equal at selection.
    """

    sku: str
    cards: int
    arch: str | None
    variant: str | None
    contract: str
    status: Literal["proposed", "accepted"]
    exact: tuple[str, ...]
    bounds: tuple[Bound, ...]
    evidence: str
    selected: str
    pointer: Pointer = field(default=(), compare=False)

    @property
    def device(self) -> str:
        """The device in words, such as ``H100 x8`` or ``CPU aarch64``."""
        return f"{device_words(self.sku, self.cards)}{f' {self.arch}' if self.arch else ''}"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One gate file. ``path`` is project-relative; ``document`` keeps positions for later checks."""

    path: str
    profiles: tuple[GateProfile, ...]
    document: Document = field(compare=False, repr=False)


def device_words(sku: str, cards: int) -> str:
    """A SKU with its number of cards, where it has any."""
    return f"{sku} x{cards}" if cards else sku


def load_gate(case: Case) -> Gate | None:
    """The gate file beside the case's manifest; None when there is none.

    Raises:
        ManifestError: with every problem of the file, at its line.
    """
    path = case.gate_file
    if not path.exists() and not path.is_symlink():
        return None
    display = path.relative_to(case.root).as_posix()
    document = load_yaml(path, display=display, root=case.root)
    if problems := check(document, "gate"):
        raise ManifestError(problems)
    measured = [{"id": entry.id, "metric": entry.metric} for entry in case.measure.output]
    node = {"id": case.base_id, "measure": {"output": measured}}
    context = GateContext(document, {case.variant: node}, Registries())
    own = (rule for rule in GATE_RULES if rule.name not in _WIDER_RULES)
    if problems := [problem for rule in own for problem in rule.check(context)]:
        raise ManifestError(problems)
    return Gate(
        path=display,
        profiles=tuple(
            _profile(entry, document.data["contract"], ("profiles", index))
            for index, entry in enumerate(document.data["profiles"])
        ),
        document=document,
    )


def _profile(entry: dict[str, Any], contract: str, pointer: Pointer) -> GateProfile:
    selected = entry.get("selected")
    return GateProfile(
        sku=entry["device"]["sku"],
        cards=entry["device"].get("cards", 0),
        arch=entry["device"].get("arch"),
        variant=entry.get("variant"),
        contract=entry.get("contract", contract),
        status=entry["status"],
        exact=tuple(entry["exact"]),
        bounds=tuple(_bound(bound) for bound in entry["bounds"]),
        evidence=entry["evidence"],
        selected=f"selected by {selected['by']} on {selected['on']}: {selected['reason']}" if selected else "",
        pointer=pointer,
    )


def _bound(entry: dict[str, Any]) -> Bound:
    relation: _Relation = "at_least" if "at_least" in entry else "at_most"
    return Bound(measurement=entry["measurement"], relation=relation, limit=float(entry[relation]))
