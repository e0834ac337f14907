"""What an ad-hoc comparison found, as frozen data; ``records.codec`` writes it as strict JSON.

Kept apart: findings (what cannot be compared, with no number), notes (what a reader should know), series (numbers).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from paritygate.metrics.specs import Kind
from paritygate.records.model import Finding, Real

RESULT_SCHEMA_VERSION = 1

#: ``measured``: no bounds were given, so nothing was judged; what was measured says how far the sides are apart.
State = Literal["passed", "failed", "invalid", "measured"]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a pair. ``structure`` must be equal on both; ``representation`` too, unless a reason is declared.

    ``sha256`` is that of the file; empty for a folder of frames, whose files are many.
    """

    path: str
    bytes: int
    sha256: str
    structure: dict[str, Any]
    representation: str
    is_lossy: bool = False
    notes: tuple[str, ...] = ()


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One metric on one pair: a value for each key (frame, tensor), one value with an empty key where there is one.

    ``typical`` is the median. ``detail`` is that of the worst value. ``problems``: key -> why it has no value.
    """

    metric: str
    version: int
    unit: str
    direction: Literal["higher", "lower", "none"]
    worst: Real
    worst_key: str
    mean: Real
    typical: Real
    p01: Real
    p99: Real
    values: dict[str, Real]
    detail: dict[str, Any] = {}
    problems: dict[str, str] = {}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One compared thing: the pair's name, and what of it (a clip has frames and may have sound).

    ``keys`` says what the keys of values are: ``frame``, ``tensor``, or empty. ``is_identical``: all values are equal
    bit by bit; false when something could not be compared.
    """

    name: str
    kind: Kind
    keys: str
    reference: Side
    candidate: Side
    is_identical: bool
    series: tuple[Series, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One bound against the aggregate of all values of its metric. ``headroom`` is positive when satisfied.

    ``values`` is the number of values it judged; ``worst`` names the worst of them. ``problem``: why it has no value.
    """

    bound: str
    metric: str
    version: int
    aggregate: str
    relation: Literal["at_least", "at_most"]
    limit: Real
    unit: str
    value: Real
    headroom: Real
    satisfied: bool
    values: int
    worst: str
    problem: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison, whole. ``pairs`` counts the pairs that were looked at, comparable or not."""

    schema_version: int
    program: str
    engine: str
    reference: str
    candidate: str
    state: State
    is_identical: bool
    pairs: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    parts: tuple[Part, ...]
    bounds: tuple[Outcome, ...]
