"""The typed form of one resolved case variant: what every other room reads.

A ``Case`` is built only from a document that passed the schema and the rules, so nothing here
validates. Paths are project-relative POSIX strings unless they are ``pathlib.Path``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

Claim = Literal["native-parity", "acceleration", "api-consistency", "golden-regression"]
LegName = Literal["reference", "candidate", "low_precision"]
Aggregate = Literal["min", "max", "mean", "median", "p01", "p99", "all"]

OutputKind = Literal["images", "video", "audio", "video_audio", "tensors"]
Representation = Literal["encoded", "raw"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Which weights. ``path`` is project-relative (a snapshot that ships with the project)."""

    id: str
    revision: str
    weights: Literal["trained", "random"]
    path: str | None = None
    path_env: str | None = None


class InputMedia(msgspec.Struct, frozen=True, kw_only=True):
    """One conditioning file; ``path`` is project-relative."""

    role: str
    path: str
    sha256: str


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The declared structure of what each request gives. Sizes in pixels, rates in hertz.

    ``representation``: clips and sound are compared as the engine's own arrays (``raw``, what None means), or as the
    files that it encoded. ``composite``: the colour, ``#rrggbb``, that RGBA images are laid on before anything is
    measured; without it nothing is laid on anything, and all four channels are compared.
    """

    kind: OutputKind
    count: int = 1
    width: int | None = None
    height: int | None = None
    mode: str = "RGB"
    layers: int | None = None
    alpha: str | None = None
    frames: int | None = None
    fps: float | None = None
    sample_rate_hz: int | None = None
    channels: int | None = None
    representation: Representation | None = None
    composite: str | None = None

    @property
    def has_video(self) -> bool:
        """Whether each request gives a clip."""
        return self.kind in ("video", "video_audio")

    @property
    def has_audio(self) -> bool:
        """Whether each request gives sound."""
        return self.kind in ("audio", "video_audio")

    @property
    def compared_as(self) -> Representation:
        """``representation``, with its default."""
        return self.representation or "raw"

    @property
    def measured_mode(self) -> str:
        """The mode of the pixels that are measured."""
        return "RGB" if self.composite else self.mode


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """What an acceleration case switches on, and how a run shows that it really ran."""

    name: str
    baseline: str
    enabled_by: str
    exercised_by: str


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file a leg needs that a command builds; ``path`` is project-relative."""

    path: str
    made_by: str


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What a leg or a case needs. ``sku`` is a list of alternatives; the first is the default."""

    sku: tuple[str, ...]
    cards: int


class Leg(msgspec.Struct, frozen=True, kw_only=True):
    """One side of the comparison.

    ``hardware`` is None for a leg that runs where ``Ci`` says; another one is carried, not used yet. ``spec`` holds the
    runner's own keys (pipeline, dtype, options, server, ...) as resolved. ``adapter`` is project-relative. ``requires``
    maps distribution name to version specifier, or to ``@`` and the commit of its sources.
    """

    name: LegName
    runner: str
    adapter: str | None
    python: str | None
    timeout_s: float
    requires: Mapping[str, str]
    assets: tuple[Asset, ...]
    feature: Feature | None
    hardware: Hardware | None = None
    spec: Mapping[str, Any]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A deliberate inequality of the legs. ``field`` is a settings name, or a prefix of dotted names."""

    field: str
    reason: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One number to compute over all items of the output layer.

    ``pixels`` is ``stored`` (8-bit values as written to the lossless file) or ``float`` (before rounding).
    ``id`` is ``output.<metric>.<aggregate>``, or ``output.float.<metric>.<aggregate>`` for float pixels,
    unless the manifest names it.
    """

    id: str
    metric: str
    aggregate: Aggregate
    pixels: Literal["stored", "float"]
    target: float | None


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """The layers of measurement; ``parts`` is carried for the diagnosis work and not run yet."""

    exact: tuple[str, ...]
    parts: tuple[Mapping[str, Any], ...]
    output: tuple[Measurement, ...]


class TensorInput(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a component: the tensor ``entry`` of a golden, a mapping of name, version and digest."""

    golden: Mapping[str, Any]
    entry: str


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """What a component case calls, and with what; carried for the diagnosis work and not run yet."""

    name: str
    inputs: Mapping[str, TensorInput] = {}
    forward: Mapping[str, Any] = {}


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass does and does not speak for."""

    exercises: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


class Ci(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when CI runs the case. ``sku`` is a list of alternatives; the first is the default."""

    lane: str
    group: str | None
    sku: tuple[str, ...]
    cards: int
    timeout_minutes: int
    sources: tuple[str, ...]
    setup: tuple[str, ...]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the suite. ``id`` is the zero-padded index: never derived from the prompt."""

    id: str
    request: Mapping[str, Any]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case variant, resolved.

    ``id`` is the node id (``<case id>`` or ``<case id>-<variant id>``); ``base_id`` and ``variant`` are its halves.
    ``document`` is the resolved manifest as plain data (``extends`` and ``variants`` applied).
    ``bases`` are the manifests that this one extends, nearest first, project-relative.
    """

    id: str
    base_id: str
    variant: str | None
    root: Path
    manifest: str
    bases: tuple[str, ...] = ()
    title: str
    claim: Claim
    task: str
    model: Model
    initial_latents: Literal["seeded", "shared"]
    inputs: tuple[InputMedia, ...]
    output: Output
    reference: Leg
    candidate: Leg
    low_precision: Leg | None
    differences: tuple[Difference, ...]
    component: Component | None = None
    measure: Measure
    checklist_require: tuple[str, ...]
    coverage: Coverage
    ci: Ci
    document: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The directory that holds the manifest, absolute."""
        return (self.root / self.manifest).parent

    @property
    def gate_file(self) -> Path:
        """``<name>.gate.yaml`` beside ``<name>.case.yaml``, absolute; it may not exist."""
        path = self.root / self.manifest
        return path.with_name(path.name.removesuffix(".case.yaml") + ".gate.yaml")

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The legs in the order in which they run."""
        return tuple(leg for leg in (self.reference, self.low_precision, self.candidate) if leg is not None)
