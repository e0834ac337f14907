"""``golden.json``: what a frozen reference holds, how it was made, and the digest of every file."""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn

import msgspec

from paritygate.errors import ArtifactError, GoldenError
from paritygate.records.codec import loads

GOLDEN_SCHEMA_VERSION = 1
GOLDEN_NAME = "golden.json"
#: A list of some ten thousand files.
MAX_GOLDEN_BYTES = 8 << 20

Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
#: The name of a golden is a folder and a part of a URL.
NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?\Z"


class GoldenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a golden: its digest and its size in bytes."""

    sha256: Digest
    size: Annotated[int, msgspec.Meta(ge=0, le=16 << 30)]


class GoldenItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request that the golden answers; ``id`` is that of the suite item, and of its folder in ``outputs/``."""

    id: str
    request: dict[str, Any]


class GoldenInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One conditioning file of every request, in order."""

    role: str
    sha256: Digest


class GoldenModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weights behind the golden. ``verified``: their digest was checked against the revision when it was made.

    ``snapshot``: they lay where the hub's client keeps that commit, which is all that a commit can show of them.
    """

    id: str
    revision: str
    weights: str
    verified: bool
    snapshot: bool = False


class GoldenReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The leg that made the golden: its runner, its own keys without secrets and local paths, and what it ran in.

    ``adapter`` is the digest of the adapter file. ``versions``: distribution name -> version in the leg's interpreter.
    """

    runner: str
    spec: dict[str, Any]
    requires: dict[str, str]
    adapter: str | None
    versions: dict[str, str | None]


class GoldenGenerator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Provenance: commit of the project, command, time (UTC, ISO 8601), machine and device of the leg."""

    commit: str | None
    dirty: bool | None
    command: str
    made_on: str
    platform: str
    python: str
    paritygate: str
    profile: dict[str, Any]


class Golden(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``golden.json``. ``files`` lists every other file of the folder, by relative POSIX path.

    ``version`` is None in a draft. ``settings`` are the effective ones of the leg, as observed. ``reasons`` say why a
    draft is not ``promotable``. ``reason``, ``oracle`` (independent evidence that the new version is right) and
    ``replaces`` (the digest of the version before) come with the promotion.
    """

    schema_version: int = GOLDEN_SCHEMA_VERSION
    name: Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
    version: Annotated[int, msgspec.Meta(ge=1)] | None
    case: str
    contract: str
    claim: str
    task: str
    model: GoldenModel
    items: tuple[GoldenItem, ...]
    output: dict[str, Any]
    inputs: tuple[GoldenInput, ...]
    reference: GoldenReference
    settings: dict[str, str | int | float | bool | None]
    environment: dict[str, Any]
    generator: GoldenGenerator
    promotable: bool
    reasons: tuple[str, ...]
    reason: str | None = None
    oracle: str | None = None
    replaces: Digest | None = None
    files: dict[str, GoldenFile]


class _Versioned(msgspec.Struct):
    schema_version: int


def parse_golden(data: bytes, *, source: str) -> Golden:
    """The golden that a file states; nothing in it is trusted.

    Args:
        data: the bytes of ``golden.json``.
        source: what to call the file in messages.

    Raises:
        GoldenError: for more than ``MAX_GOLDEN_BYTES``, text that is not strict JSON, a key that stands twice, a
            later schema version, or data that does not fit.
    """
    if len(data) > MAX_GOLDEN_BYTES:
        raise GoldenError(f"{source} has more than the {MAX_GOLDEN_BYTES >> 20} MiB that a golden's list may have")
    try:
        json.loads(data, object_pairs_hook=_once, parse_constant=_no_constant)
        version = loads(data, _Versioned, source=source).schema_version
        if version > GOLDEN_SCHEMA_VERSION:
            raise GoldenError(
                f"{source}: schema_version is {version}; this version reads up to {GOLDEN_SCHEMA_VERSION}",
                hint="upgrade with: pip install --upgrade paritygate",
            )
        return loads(data, Golden, source=source)
    except ArtifactError as error:
        raise GoldenError(error.message, hint="restore the golden from git; goldens are never edited") from error
    except (ValueError, RecursionError) as error:
        raise GoldenError(
            f"{source} is not strict JSON: {error}", hint="restore the golden from git; goldens are never edited"
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:200]!r} stands twice")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
