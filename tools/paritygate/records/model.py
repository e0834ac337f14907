"""What one run leaves behind, as frozen data.

Numbers that may be infinite or NaN have the type ``Real``: JSON spells them ``"inf"``, ``"-inf"`` and ``"nan"``,
so that a perfect PSNR stays readable and the file stays strict JSON (see ``codec``).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import msgspec

RECORD_SCHEMA_VERSION = 1
EFFECTIVE_SCHEMA_VERSION = 1

#: Names of files in a run directory that more than one room reads or writes; the last three are relative to a leg's.
SHARED_LATENTS = "shared/latents.npy"
OUTPUTS_FOLDER = "outputs"
OUTPUTS_NAME = "outputs.json"
EFFECTIVE_NAME = "effective.json"


class Real(float):
    """A float that keeps infinity and NaN through JSON."""


class Status(str, Enum):
    """Verdicts, worst first: the order is the precedence."""

    ERROR = "error"
    INVALID = "invalid"
    FAILED = "failed"
    UNVALIDATED = "unvalidated"
    PROVISIONAL = "provisional"
    PASSED = "passed"


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The device and numerical environment that a gate holds for. ``sku`` is ``CPU`` or a registry name."""

    platform: str
    sku: str
    cards: int
    arch: str
    name: str


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """One image as written by a leg. Paths are relative to the leg's directory.

    ``float_path`` is a ``.npy`` of float32 ``(height, width, channels)`` in [0, 1] before rounding, where the
    leg can give it.
    """

    path: str
    sha256: str
    float_path: str | None = None
    float_sha256: str | None = None


class OutputMedia(msgspec.Struct, frozen=True, kw_only=True):
    """One clip, sound or set of tensors as written by a leg. ``path`` is relative to the leg's directory.

    ``raw``: the engine's own array in a ``.npy`` file, ``(frames, height, width, channels)`` uint8, or float32 in
    [0, 1], of a clip at ``fps`` frames a second; ``(samples, channels)`` float32 of sound at ``sample_rate_hz``; or
    tensors by name in a file of tensors. ``encoded``: a file as the engine gives it, which says such things itself;
    one of a clip may hold its sound too.
    """

    role: Literal["video", "audio", "tensors"]
    path: str
    sha256: str
    representation: Literal["encoded", "raw"]
    fps: float | None = None
    sample_rate_hz: int | None = None


class OutputItem(msgspec.Struct, frozen=True, kw_only=True):
    """What a leg produced for one suite item."""

    id: str
    images: tuple[OutputFile, ...] = ()
    media: tuple[OutputMedia, ...] = ()


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Whether another value of a request key changed the output; ``detail`` says by how much, against a repetition."""

    exercised: bool
    detail: str


#: Name below ``Effective.environment`` -> the settings that only repeat what a leg was called with.
AS_CALLED = "as_called"


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """What really took effect in a leg, as observed there (``effective.json``).

    ``settings``: dotted name -> JSON scalar. Names below ``config.`` are the exact item ``config``.
    ``token_ids``: item id -> rows of ids. ``timesteps``, ``sigmas``: as the sampler used them, or None when the
    leg cannot show them. ``initial_latents``: item id -> sha256 of the little-endian float32 bytes.
    ``features``: feature name -> counters that show it ran. ``environment``: versions and paths; never compared.
    ``effects``: request key -> what another value of it did. ``pending``: stages that could have been shown and are not
    there yet.
    """

    schema_version: int = EFFECTIVE_SCHEMA_VERSION
    settings: dict[str, str | int | float | bool | None] = {}
    token_ids: dict[str, list[list[int]]] = {}
    timesteps: list[int | float] | None = None
    sigmas: list[Real] | None = None
    initial_latents: dict[str, str] = {}
    features: dict[str, dict[str, int | float | str | bool]] = {}
    environment: dict[str, Any] = {}
    effects: dict[str, Effect] = {}
    pending: tuple[str, ...] = ()


class LegRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One leg as run. ``failure`` is None or one of ``runners.failures.KINDS``.

    ``interpreter`` is relative to the project, or a bare file name when it lies outside: records are committed as
    evidence, and a whole path may name a home folder.
    """

    name: str
    runner: str
    interpreter: str
    duration_s: float
    exit_code: int | None
    failure: str | None
    message: str
    log: str
    items: tuple[OutputItem, ...]
    effective: Effective | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One reason, in words, with a stable code. ``item`` names the suite item where there is one."""

    code: str
    message: str
    item: str | None = None


class ExactResult(msgspec.Struct, frozen=True, kw_only=True):
    """One item of the exact layer: token_ids, timesteps, sigmas, initial_latents or config.

    ``pending``: an import could still bring it.
    """

    name: str
    status: Literal["equal", "different", "unreported", "pending"]
    detail: str

    @property
    def is_shown(self) -> bool:
        """Whether both legs showed it, so that it was compared."""
        return self.status in ("equal", "different")


class ChecklistRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting on both sides. ``note`` is the declared reason, or which leg did not report.

    ``group``: ``source``, ``randomness``, ``numerics`` or ``output``; empty in records of earlier versions.
    """

    field: str
    reference: str
    candidate: str
    verdict: Literal["equal", "declared", "undeclared", "unreported", "declared-but-equal"]
    note: str
    group: str = ""


class EffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an effect probe of one leg found about one request key."""

    leg: str
    field: str
    exercised: bool
    detail: str


class MeasurementResult(msgspec.Struct, frozen=True, kw_only=True):
    """One aggregated metric with every value behind it.

    ``pixels``: the 8-bit values as stored, or the floats before rounding. ``values``: one per item x output in suite
    order, keyed ``<item>/<index>`` for an image or a sound, ``<item>/<index>/<frame>`` for a frame of a clip and
    ``<item>/<index>/<name>`` for a tensor. ``typical`` is their median. ``worst_detail``: what the metric tells of its
    value at ``worst_item``, such as the place of the worst tile.
    ``problem`` is empty, or why no number could be computed; ``value`` is then NaN and satisfies nothing.
    """

    id: str
    metric: str
    aggregate: str
    pixels: Literal["stored", "float"]
    unit: str
    direction: Literal["higher", "lower"]
    value: Real
    typical: Real
    worst_item: str
    values: dict[str, Real]
    target: Real | None = None
    problem: str = ""
    worst_detail: dict[str, Any] = {}


def unit_suffix(unit: str) -> str:
    """The unit as it follows a number, nothing for a pure number."""
    return "" if unit in ("", "1") else f" {unit}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Everything observed about the two legs, before any bound.

    A non-empty ``invalid`` means structure, non-finite or degenerate output; measurements are then empty.
    ``bit_identical`` is true when every stored output file decodes to equal arrays.
    """

    invalid: tuple[Finding, ...] = ()
    exact: tuple[ExactResult, ...] = ()
    checklist: tuple[ChecklistRow, ...] = ()
    measurements: tuple[MeasurementResult, ...] = ()
    bit_identical: bool = False
    feature: Finding | None = None
    effects: tuple[EffectResult, ...] = ()


class BoundResult(msgspec.Struct, frozen=True, kw_only=True):
    """One bound against one value. ``headroom`` is positive when satisfied, in the metric's unit."""

    measurement: str
    relation: Literal["at_least", "at_most"]
    limit: Real
    value: Real
    satisfied: bool
    headroom: Real

    @property
    def words(self) -> str:
        """The limit in words, as exact as it was written: ``at least 0.9999999``."""
        return f"{self.relation.replace('_', ' ')} {self.limit:.15g}"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is worth. ``scope`` says in words what a pass speaks for; ``gate`` where the bounds came from.

    ``failure_class``: empty unless the verdict is error, invalid or failed; else why, as one of ``infrastructure``,
    ``weights``, ``memory``, ``timeout``, ``backend``, ``golden``, ``crash``, ``killed``, ``structure`` or ``accuracy``.
    """

    status: Status
    reasons: tuple[Finding, ...]
    scope: str
    gate: str
    gate_status: Literal["accepted", "proposed", "none"]
    bounds: tuple[BoundResult, ...] = ()
    failure_class: str = ""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``record.json``: one run, whole. Times are UTC in ISO 8601; paths are relative to the run directory.

    ``weights_verified``: whether the digest of the weights' folder was checked against the declared revision, on
    every machine where a leg ran.
    """

    schema_version: int
    run_id: str
    case: str
    base_case: str
    variant: str | None
    title: str
    claim: str
    contract: str
    model_id: str
    model_revision: str
    weights: Literal["trained", "random"]
    purpose: Literal["run", "diagnostic"]
    started: str
    duration_s: float
    attempt: int
    in_ci: bool
    profile: DeviceProfile
    environment: dict[str, Any]
    legs: tuple[LegRecord, ...]
    comparison: Comparison
    verdict: Verdict
    weights_verified: bool = False
