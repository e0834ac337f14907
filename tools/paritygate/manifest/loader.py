"""YAML text -> plain data with positions, strictly: the same file means the same to every reader.

One pass over the events of PyYAML's C parser. Mappings with text keys, lists and scalars are data; anchors,
aliases, tags and further documents are refused, so nothing can expand. All problems of a file are collected.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from paritygate.errors import ManifestError, Problem
from paritygate.manifest.scalars import Refusal, resolve
from paritygate.manifest.source import decode, read_source

Pointer: TypeAlias = "tuple[str | int, ...]"

#: Deep enough for every schema; shallow enough for the call stack.
MAX_DEPTH = 50
_NO_ANCHORS = "write the value out, or share it through `extends`"
_SNIPPET = re.compile(r"[^\s,\]}#]+")


class Document:
    """One parsed file: ``data``, its ``problems`` (empty when sound), and where each value stands.

    ``display`` is the path shown to people. Positions are found by parsing again, once, when somebody asks: a
    project has thousands of sound files, and keeping their marks costs more than parsing them.
    """

    __slots__ = ("_keys", "_values", "data", "display", "problems", "text")

    def __init__(
        self,
        *,
        text: str,
        display: str,
        data: Any,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        self.text = text
        self.display = display
        self.data = data
        self.problems = problems
        self._keys: dict[Pointer, Any] = {}
        self._values: dict[Pointer, Any] = {}

    def position(self, pointer: Pointer) -> tuple[int, int]:
        """``(line, column)``, from 1, of the value at ``pointer``, or of its nearest ancestor that exists."""
        self._ensure_marks()
        while pointer and pointer not in self._values:
            pointer = pointer[:-1]
        return _place(self._values.get(pointer))

    def key_position(self, pointer: Pointer) -> tuple[int, int]:
        """``(line, column)`` of the key that names ``pointer``; of the value for list items and the root."""
        self._ensure_marks()
        mark = self._keys.get(pointer)
        return _place(mark) if mark is not None else self.position(pointer)

    def written(self, pointer: Pointer) -> str:
        """The first word at ``pointer`` as the author wrote it: ``3.10`` where the data holds 3.1."""
        self._ensure_marks()
        mark = self._values.get(pointer)
        found = _SNIPPET.match(self.text, mark.index) if mark is not None else None
        return found.group() if found else ""

    def origin(self, pointer: Pointer) -> tuple[str, int, int]:
        """``(file, line, column)`` of the value at ``pointer``."""
        return (self.display, *self.position(pointer))

    def folder(self, pointer: Pointer) -> str:  # noqa: ARG002 - one document, one folder
        """The folder of the file, as shown: what its relative paths start from."""
        return posixpath.dirname(self.display)

    def problem(self, pointer: Pointer, rule: str, message: str, *, hint: str = "", at_key: bool = False) -> Problem:
        """A problem of this file at a value, or at the key that names it."""
        line, column = self.key_position(pointer) if at_key else self.position(pointer)
        return Problem(self.display, line, column, rule, message, hint)

    def _ensure_marks(self) -> None:
        if not self._values:
            builder = _Builder(self.text, self.display)
            builder.run()
            self._keys, self._values = builder.keys, builder.values


def load_yaml(path: Path, *, display: str, root: Path) -> Document:
    """Read and parse one file.

    Args:
        path: the file.
        display: the path that problems show, usually relative to the project.
        root: a link that leads out of this folder is refused.

    Raises:
        ManifestError: with every problem of the file; the document is then of no use.
    """
    document = parse(decode(read_source(path, display=display, root=root), display=display), display=display)
    if document.problems:
        raise ManifestError(document.problems)
    return document


def parse(text: str, *, display: str) -> Document:
    """Parse YAML text; problems are in the document, sorted, and where there are none its data is whole."""
    builder = _Builder(text, display)
    data = builder.run()
    return Document(text=text, display=display, data=data, problems=tuple(sorted(builder.problems)))


def _events(text: str) -> Callable[[], Any]:
    return yaml.CSafeLoader(text).get_event


class _Builder:
    """Turns parser events into data, remembering where each key and value stands."""

    def __init__(self, text: str, display: str) -> None:
        self.text = text
        self.display = display
        self.problems: list[Problem] = []
        self.keys: dict[Pointer, Any] = {}
        self.values: dict[Pointer, Any] = {}
        self.refused: set[str] = set()
        self.next: Callable[[], Any] = lambda: None

    def run(self) -> Any:
        try:
            # The parser reads ahead in its constructor.
            self.next = _events(self.text)
            self.next()
            if type(self.next()) is yaml.StreamEndEvent:
                self.report(None, "yaml-empty", "the file is empty", "start it with: schema_version: 1")
                return None
            data = self.node(self.next(), ())
            self.next()
            if type(event := self.next()) is not yaml.StreamEndEvent:
                message = "a second document starts here; expected one document a file"
                self.report(event.start_mark, "yaml-documents", message, "move it to a file of its own")
        except yaml.YAMLError as error:
            self.syntax(error)
            return None
        return data

    def node(self, event: Any, pointer: Pointer) -> Any:
        self.values[pointer] = event.start_mark
        kind = type(event)
        if kind is yaml.AliasEvent:
            self.once(event, "yaml-anchor", f"the alias *{event.anchor} is not allowed", _NO_ANCHORS)
            return None
        if event.anchor is not None:
            self.once(event, "yaml-anchor", f"the anchor &{event.anchor} is not allowed", _NO_ANCHORS)
        if event.tag is not None:
            self.once(event, "yaml-tag", f"the tag {event.tag} is not allowed", "remove it: the text gives the type")
        if kind is yaml.ScalarEvent:
            return self.scalar(event)
        if len(pointer) >= MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"nested deeper than {MAX_DEPTH} levels", problem_mark=event.start_mark)
        return self.mapping(pointer) if kind is yaml.MappingStartEvent else self.sequence(pointer)

    def scalar(self, event: Any) -> Any:
        if not event.implicit[0]:
            return event.value
        value = resolve(event.value)
        if type(value) is Refusal:
            self.report(event.start_mark, "yaml-number", value.message, value.hint)
            return None
        return value

    def sequence(self, pointer: Pointer) -> list[Any]:
        data: list[Any] = []
        while type(event := self.next()) is not yaml.SequenceEndEvent:
            data.append(self.node(event, (*pointer, len(data))))
        return data

    def mapping(self, pointer: Pointer) -> dict[str, Any]:
        data: dict[str, Any] = {}
        keys, following = self.keys, self.next
        while type(event := following()) is not yaml.MappingEndEvent:
            key = self.key(event, pointer)
            child = (*pointer, key)
            if key in data:
                first = keys[child]
                message = f"the key {key!r} appears twice in one mapping; it stands first on line {first.line + 1}"
                self.report(event.start_mark, "duplicate-key", message, "remove one of the two")
                self.node(following(), (*pointer, f"?{event.start_mark.index}"))
                continue
            keys[child] = event.start_mark
            data[key] = self.node(following(), child)
        return data

    def key(self, event: Any, pointer: Pointer) -> str:
        if type(event) is yaml.ScalarEvent and event.anchor is None and event.tag is None:
            value = event.value
            if not event.implicit[0] or type(resolve(value)) is str:
                return str(value)
            what = f"the key {value!r} is not text" if value else "a key is missing before ':'"
            self.report(event.start_mark, "yaml-key", what, f"quote it as '{value}'" if value else "name the key")
            return str(value)
        if type(event) is not yaml.ScalarEvent:
            self.report(
                event.start_mark, "yaml-key", "expected a word as key, not a list, mapping or alias", "write a word"
            )
        self.node(event, (*pointer, "?"))
        return f"?{event.start_mark.index}"

    def once(self, event: Any, rule: str, message: str, hint: str) -> None:
        """Report the first of its kind only: a file full of anchors has one mistake."""
        if rule not in self.refused:
            self.refused.add(rule)
            self.report(event.start_mark, rule, message, hint)

    def report(self, mark: Any, rule: str, message: str, hint: str) -> None:
        line, column = _place(mark)
        self.problems.append(Problem(self.display, line, column, rule, message, hint))

    def syntax(self, error: yaml.YAMLError) -> None:
        if isinstance(error, yaml.MarkedYAMLError):
            words = " ".join(part for part in (error.context, error.problem) if part)
            mark = error.problem_mark or error.context_mark
            self.report(mark, "yaml-syntax", f"not valid YAML: {words}", _advice(words))
            return
        offset = int(getattr(error, "position", 0) or 0)
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        message = "the file holds a control character that YAML does not allow"
        self.problems.append(Problem(self.display, line, column, "yaml-syntax", message, "save it as plain UTF-8 text"))


def _advice(words: str) -> str:
    if "cannot start any token" in words:
        return "indent with spaces, and quote text that starts with @, `, % or a tab"
    if "mapping values are not allowed" in words:
        return "quote text that holds ': '"
    if "nested deeper" in words:
        return "flatten it"
    return "check the indentation, brackets and quotes on this line and the one before"


def _place(mark: Any) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
