"""One CI job in neutral words: what every CI system is told about a case variant."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from paritygate.manifest.registries import Lane, Preset


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """An exit status after which the job may run again, at most ``limit`` times."""

    exit_status: int
    limit: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One case variant as one job. Texts are as meant; each CI system escapes them in its own way.

    ``key`` is the node id of the case. ``script`` runs under bash and sh. ``artifacts`` are globs, ``sources`` path
    prefixes, both relative to the project.
    """

    key: str
    label: str
    group: str
    lane: Lane
    preset: Preset
    timeout_minutes: int
    script: str
    env: Mapping[str, str]
    artifacts: tuple[str, ...]
    retries: tuple[Retry, ...]
    sources: tuple[str, ...]
