"""Documents laid over one another, each value keeping the file and line it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from paritygate.errors import Problem
from paritygate.manifest.loader import Document, Pointer


class Located(Protocol):
    """Data that can say where each value stands: one document, or several merged."""

    @property
    def data(self) -> Any:
        """Plain data."""

    def problem(self, pointer: Pointer, rule: str, message: str, *, hint: str = "", at_key: bool = False) -> Problem:
        """A problem at a value, or at the key that names it."""

    def written(self, pointer: Pointer) -> str:
        """The first word of the value as its author wrote it."""

    def origin(self, pointer: Pointer) -> tuple[str, int, int]:
        """``(file, line, column)`` of the value."""

    def folder(self, pointer: Pointer) -> str:
        """The project-relative folder of the file that states the value: its relative paths start there."""


class Merged:
    """Layers of documents, the last one winning.

    A layer is a document and the pointer in it at which the layer starts: a variant is a part of its file.
    """

    __slots__ = ("data", "layers")

    def __init__(self, layers: tuple[tuple[Document, Pointer], ...], data: Any) -> None:
        self.layers = layers
        self.data = data

    def problem(self, pointer: Pointer, rule: str, message: str, *, hint: str = "", at_key: bool = False) -> Problem:
        """A problem in the file that states the value, or that states its nearest ancestor."""
        document, place = self.source(pointer)
        return document.problem(place, rule, message, hint=hint, at_key=at_key)

    def written(self, pointer: Pointer) -> str:
        """The first word of the value as its author wrote it."""
        document, place = self.source(pointer)
        return document.written(place)

    def origin(self, pointer: Pointer) -> tuple[str, int, int]:
        """``(file, line, column)`` of the value that won."""
        document, place = self.source(pointer)
        return document.origin(place)

    def over(self, document: Document, pointer: Pointer, data: Mapping[str, Any]) -> Merged:
        """This with one more layer on top."""
        return Merged((*self.layers, (document, pointer)), deep_merge(self.data, data))

    def folder(self, pointer: Pointer) -> str:
        """The project-relative folder of the file that states the value."""
        return self.source(pointer)[0].folder(())

    def source(self, pointer: Pointer) -> tuple[Document, Pointer]:
        """The document that states a value, and the pointer of the value in it."""
        for length in range(len(pointer), -1, -1):
            for document, start in reversed(self.layers):
                place = (*start, *pointer[:length])
                if _contains(document.data, place):
                    return document, place
        return self.layers[-1]


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merged key by key, everything else replaced; neither argument is changed.

    A leg with another runner replaces the leg below it: the keys of one runner mean nothing to another.
    """
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and not _has_another_runner(below, value):
            merged[key] = deep_merge(below, value)
        else:
            merged[key] = value
    return merged


def _has_another_runner(below: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "runner" in below and "runner" in value and below["runner"] != value["runner"]


def value_at(data: Any, pointer: Pointer) -> Any:
    """The value at a pointer, or None."""
    for part in pointer:
        if isinstance(part, int):
            if not isinstance(data, list) or part >= len(data):
                return None
            data = data[part]
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data


def _contains(data: Any, pointer: Pointer) -> bool:
    if not pointer:
        return True
    parent = value_at(data, pointer[:-1])
    last = pointer[-1]
    return (isinstance(parent, list) and isinstance(last, int) and last < len(parent)) or (
        isinstance(parent, dict) and last in parent
    )
