"""What a rule may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from paritygate.errors import Problem
from paritygate.manifest.files import Files
from paritygate.manifest.loader import Document, Pointer
from paritygate.manifest.merge import Located
from paritygate.manifest.registries import Registries


class CaseContext(NamedTuple):
    """One resolved node, complete by the schema. ``id`` is the node id."""

    id: str
    data: Mapping[str, Any]
    document: Located
    registries: Registries
    files: Files

    def at(self, pointer: Pointer, rule: str, message: str, *, hint: str = "") -> Problem:
        """A problem at a value."""
        return self.document.problem(pointer, rule, message, hint=hint)

    def at_key(self, pointer: Pointer, rule: str, message: str, *, hint: str = "") -> Problem:
        """A problem at the key that names a value, or at the nearest mapping that should hold it."""
        return self.document.problem(pointer, rule, message, hint=hint, at_key=True)


class GateContext(NamedTuple):
    """One gate file, complete by its schema, beside its case. ``nodes``: variant -> resolved document."""

    document: Document
    nodes: Mapping[str | None, Mapping[str, Any]]
    registries: Registries

    def at(self, pointer: Pointer, rule: str, message: str, *, hint: str = "") -> Problem:
        """A problem at a value."""
        return self.document.problem(pointer, rule, message, hint=hint)


class CaseRule(NamedTuple):
    """One check of a node. ``summary`` says what must hold."""

    name: str
    summary: str
    check: Callable[[CaseContext], Iterable[Problem]]


class GateRule(NamedTuple):
    """One check of a gate file. ``summary`` says what must hold."""

    name: str
    summary: str
    check: Callable[[GateContext], Iterable[Problem]]
