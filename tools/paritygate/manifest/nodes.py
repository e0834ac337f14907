"""One manifest file -> its nodes: ``extends`` resolved, then one merged document for each variant."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from paritygate.errors import ManifestError, Problem
from paritygate.manifest.loader import Document, Pointer
from paritygate.manifest.merge import Located, Merged
from paritygate.manifest.schemas import check, check_data, check_variants, from_the_future, has_shape

#: Reads a file by its project-relative path; raises ManifestError when there is no text to parse.
Read: TypeAlias = Callable[[str], Document]


class Node(NamedTuple):
    """One resolved case: ``data`` without ``extends`` and ``variants``, complete by the schema."""

    variant: str | None
    document: Located
    data: dict[str, Any]


def nodes(document: Document, read: Read) -> tuple[list[Node], list[Problem]]:
    """The nodes of a manifest, and every problem of the files it is made of.

    A file whose data means something is checked as far as it goes; nodes come only from files without problems.
    """
    data = document.data
    if not (isinstance(data, dict) and has_shape(document) and ("extends" in data or data.get("variants"))):
        # `variants: []` is the same as none.
        problems = [*document.problems, *check(document, "case")]
        return ([] if problems else [Node(None, document, _plain(data))]), problems
    if too_new := from_the_future(document):
        return [], [too_new]
    problems = list(document.problems)
    merged = _extended(document, read, problems)
    found = _variants(merged, problems)
    return ([] if problems else found), problems


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in {"extends", "variants"}}


def _extended(document: Document, read: Read, problems: list[Problem]) -> Merged:
    """The document over its bases, the outermost base first."""
    chain = [document]
    while (base := _base(chain, read, problems)) is not None:
        chain.append(base)
    chain.reverse()
    merged = Merged(((chain[0], ()),), chain[0].data)
    for layer in chain[1:]:
        merged = merged.over(layer, (), layer.data)
    return merged


def _base(chain: list[Document], read: Read, problems: list[Problem]) -> Document | None:
    """The next base, or None at the end of the chain or at a problem."""
    document = chain[-1]
    if not isinstance(document.data, dict) or "extends" not in document.data:
        return None

    def refuse(message: str, hint: str) -> None:
        problems.append(document.problem(("extends",), "extends", message, hint=hint))

    name = document.data["extends"]
    if not isinstance(name, str) or not name.strip():
        refuse("extends: expected a path relative to this file", "write the path of one YAML file")
        return None
    path = posixpath.normpath(posixpath.join(document.folder(()), name))
    if name.startswith("/") or "\\" in name or path.startswith(".."):
        refuse(f"extends: {name!r} leads out of the project", "write a relative path to a file of the project")
        return None
    if path in (cycle := [link.display for link in chain]):
        loop = [*cycle[cycle.index(path) :], path]
        refuse(f"extends: a cycle: {' -> '.join(loop)}", "let one of them stand alone")
        return None
    try:
        base = read(path)
    except ManifestError as error:
        refuse(f"extends: {path}: {error.problems[0].message}", error.problems[0].hint)
        return None
    if not isinstance(base.data, dict) and not base.problems:
        refuse(f"extends: {path} holds no mapping", "name a YAML file with keys of a case")
        return None
    problems += base.problems
    if too_new := from_the_future(base):
        problems.append(too_new)
        return None
    return base if isinstance(base.data, dict) else None


def _variants(merged: Merged, problems: list[Problem]) -> list[Node]:
    base = Merged(merged.layers, _plain(merged.data))
    variants = merged.data.get("variants")
    if not variants:
        problems += _new(check_data(base, "case"), problems)
        return [Node(None, base, base.data)]
    owner, place = merged.source(("variants",))
    if faults := check_variants(owner):
        problems += faults
        return []
    found = []
    for index, variant in enumerate(variants):
        pointer: Pointer = (*place, index)
        over = {key: value for key, value in variant.items() if key != "id"}
        node = base.over(owner, pointer, over)
        problems += _new(check_data(node, "case"), problems)
        found.append(Node(variant["id"], node, node.data))
    return found


def _new(found: list[Problem], known: list[Problem]) -> list[Problem]:
    """Problems at places not reported yet: variants share their base, and the loader was there first."""
    places = {(problem.path, problem.line, problem.column) for problem in known}
    return [problem for problem in found if (problem.path, problem.line, problem.column) not in places]
