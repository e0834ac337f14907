"""The hand-written registries beside the pipelines: hardware, lanes, sources.

A SKU is declared once; the preset of each card count is computed from it. A missing file is an empty registry,
so a project without CI needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from paritygate.errors import ManifestError, Problem
from paritygate.manifest.loader import Document, load_yaml
from paritygate.manifest.registry_rules import hardware_problems, lane_problems, source_problems
from paritygate.manifest.schemas import check
from paritygate.manifest.wording import nearest

if TYPE_CHECKING:
    from paritygate.manifest.project import Project

Platform = Literal["cpu", "cuda", "npu", "rocm"]

#: Platform -> the Kubernetes resource that one card counts as.
CARD_RESOURCES: Mapping[str, str | None] = MappingProxyType(
    {"cpu": None, "cuda": "nvidia.com/gpu", "npu": "huawei.com/Ascend910", "rocm": "amd.com/gpu"}
)
#: Kind of output -> the marks that say so.
MODALITIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": ("audio",),
        "images": ("image",),
        "tensors": ("tensor",),
        "video": ("video",),
        "video_audio": ("video", "audio"),
    }
)
#: Marks and words of pytest that a SKU or a lane may not take.
_RESERVED_MARKS = frozenset(
    {"accuracy", "and", "not", "or", "False", "None", "True", "filterwarnings", "parametrize", "skip", "skipif"}
    | {"tryfirst", "trylast", "usefixtures", "xfail"}
    | set(CARD_RESOURCES)
    | {mark for marks in MODALITIES.values() for mark in marks}
)


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """Processor cores, memory and shared memory (GiB)."""

    cpu: int = 0
    memory_gib: int = 0
    shm_gib: int = 0


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the node that a job sees, read only."""

    name: str
    host_path: str
    mount_path: str


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """One SKU. ``cards`` are the offered counts, ascending; a job gets ``base`` plus ``per_card`` for each card."""

    sku: str
    platform: Platform
    cards: tuple[int, ...]
    queue: str
    image: str | None = None
    base: Resources = Resources()
    per_card: Resources = Resources()
    node_selector: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = {}
    setup: tuple[str, ...] = ()


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A SKU with a card count: what one job asks for. ``name`` is ``<sku>_<cards>`` in lower case."""

    name: str
    hardware: Hardware
    cards: int
    resources: Resources

    @property
    def card_resource(self) -> str | None:
        """The Kubernetes resource name of one card; None without cards."""
        return CARD_RESOURCES[self.hardware.platform]


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """When a lane runs and what it allows. ``condition`` is a Buildkite ``if``; times in minutes."""

    name: str
    description: str
    condition: str = msgspec.field(name="if")
    group: str
    max_timeout_minutes: int
    allow_provisional: bool = False

    @property
    def file(self) -> str:
        """The name of the generated pipeline."""
        return f"accuracy-{self.name}.yml"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A path prefix that steps depend on; ``external`` ones live in another repository."""

    path: str
    external: bool = False


class Registries(msgspec.Struct, frozen=True, kw_only=True):
    """All three registries. ``shared`` are the sources on which every step depends."""

    hardware: Mapping[str, Hardware] = {}
    lanes: Mapping[str, Lane] = {}
    sources: Mapping[str, tuple[Source, ...]] = {}
    shared: tuple[Source, ...] = ()

    def preset(self, sku: str, cards: int) -> Preset | None:
        """What a job on that many cards of a SKU asks for; None where the registry offers no such thing."""
        hardware = self.hardware.get(sku)
        if hardware is None or cards not in hardware.cards:
            return None
        base, each = hardware.base, hardware.per_card
        total = Resources(
            cpu=base.cpu + cards * each.cpu,
            memory_gib=base.memory_gib + cards * each.memory_gib,
            shm_gib=base.shm_gib + cards * each.shm_gib,
        )
        return Preset(name=f"{sku}_{cards}".lower(), hardware=hardware, cards=cards, resources=total)

    def allows_provisional(self, lane: str) -> bool:
        """Whether a provisional verdict is green in that lane; no for a lane that is not declared."""
        return lane in self.lanes and self.lanes[lane].allow_provisional

    def unmet(self, sku: str, cards: int) -> tuple[str, str] | None:
        """Why no preset serves this hardware, as (message, hint); None where one does."""
        if sku not in self.hardware:
            return f"no SKU {sku!r} in hardware.yml", nearest(sku, self.hardware)
        offered = self.hardware[sku].cards
        if cards in offered:
            return None
        counts = ", ".join(str(count) for count in offered)
        elsewhere = sorted(name for name, hardware in self.hardware.items() if cards in hardware.cards)
        other = f"; {cards} are offered by {', '.join(elsewhere)}" if elsewhere else "; no pool offers as many"
        message = f"no preset {f'{sku}_{cards}'.lower()}: {sku} is offered with {counts} cards"
        return message, f"use one of {counts}{other}"


def load_registries(project: Project) -> Registries:
    """Read ``hardware.yml``, ``lanes.yml`` and ``sources.yml``.

    Raises:
        ManifestError: with the problems of all three files.
    """
    problems: list[Problem] = []
    documents = {name: _read(project, name, problems) for name in ("hardware", "lanes", "sources")}
    hardware, lanes, sources = (documents[name] for name in ("hardware", "lanes", "sources"))
    if hardware is not None:
        problems += hardware_problems(hardware, _RESERVED_MARKS)
    if lanes is not None:
        skus = frozenset() if hardware is None else frozenset(hardware.data["skus"])
        problems += lane_problems(lanes, _RESERVED_MARKS | skus)
    if sources is not None:
        problems += source_problems(sources, project.root)
    if problems:
        raise ManifestError(problems)
    skus_data, lanes_data, sources_data = ({} if document is None else document.data for document in documents.values())
    return Registries(
        hardware={sku: _hardware(sku, entry) for sku, entry in skus_data.get("skus", {}).items()},
        lanes={name: _lane(name, entry) for name, entry in lanes_data.get("lanes", {}).items()},
        sources={name: _sources(entries) for name, entries in sources_data.get("sources", {}).items()},
        shared=_sources(sources_data.get("shared", [])),
    )


def _read(project: Project, name: Literal["hardware", "lanes", "sources"], problems: list[Problem]) -> Document | None:
    """The sound document of a registry, or None with its problems noted."""
    display = f"{project.buildkite}/{name}.yml"
    path = project.root / display
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # reading it says why
        pass
    try:
        document = load_yaml(path, display=display, root=project.root)
    except ManifestError as error:
        problems += error.problems
        return None
    found = check(document, name)
    problems += found
    return None if found else document


def _hardware(sku: str, entry: Mapping[str, Any]) -> Hardware:
    return msgspec.convert({**entry, "sku": sku, "cards": sorted(entry["cards"])}, Hardware)


def _lane(name: str, entry: Mapping[str, Any]) -> Lane:
    return msgspec.convert({**entry, "name": name}, Lane)


def _sources(entries: Iterable[Any]) -> tuple[Source, ...]:
    return tuple(Source(path=entry) if isinstance(entry, str) else msgspec.convert(entry, Source) for entry in entries)
