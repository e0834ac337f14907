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
    """One resolved case: ``data`` without ``extends`` and ``variants``, complete by the schema.

    ``suffix`` is what tells the titles of variants apart; empty where the variant has a title of its own.
    """

    variant: str | None
    document: Located
    data: dict[str, Any]
    suffix: str = ""


def nodes(document: Document, read: Read) -> tuple[list[Node], list[Problem]]:
    """The nodes of a manifest, and every problem of the files it is made of.

    A file whose data means something is checked as far as it goes; nodes come only from files without problems.
    """
    data = document.data
    if not (isinstance(data, dict) and has_shape(document) and ("extends" in data or data.get("variants"))):
        # `variants: []` is the same as none.
        problems = [*document.problems, *check(document, "case")]
        return ([] if problems else [Node(None, document, _filled(_plain(data)))]), problems
    if too_new := from_the_future(document):
        return [], [too_new]
    try:
        merged = _extended(document, read)
    except ManifestError as error:
        # Without its base a file misses half of its keys; only the reason is worth reading.
        return [], [*document.problems, *error.problems]
    problems = list(document.problems)
    found = _variants(merged, problems)
    return ([] if problems else found), problems


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in {"extends", "variants"}}


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    """The data with what it need not say twice: a title, and of images the size of the request, when there is one."""
    output = {"kind": "images", **data.get("output", {"count": 1, "mode": "RGB"})}
    if output["kind"] == "images" and "sizes" not in data.get("suite", {}):
        output |= {key: data["request"][key] for key in ("width", "height") if key in data["request"].keys() - output}
    return {**data, "title": data.get("title", data["id"]), "output": output}


def _extended(document: Document, read: Read) -> Merged:
    """The document over its bases, the outermost base first.

    Raises:
        ManifestError: when a base cannot be used.
    """
    chain = [document]
    while "extends" in chain[-1].data:
        chain.append(_base(chain, read))
    chain.reverse()
    merged = Merged(((chain[0], ()),), chain[0].data)
    for layer in chain[1:]:
        merged = merged.over(layer, (), layer.data)
    return merged


def _base(chain: list[Document], read: Read) -> Document:
    document = chain[-1]

    def refusal(message: str, hint: str) -> ManifestError:
        return ManifestError([document.problem(("extends",), "extends", f"extends: {message}", hint=hint)])

    name = document.data["extends"]
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise refusal("expected a path relative to this file", "write the path of one YAML file")
    path = posixpath.normpath(posixpath.join(document.folder(()), name))
    if name.startswith("/") or "\\" in name or path.startswith(".."):
        raise refusal(f"{name!r} leads out of the project", "write a relative path to a file of the project")
    if path in (seen := [link.display for link in chain]):
        raise refusal(f"a cycle: {' -> '.join([*seen[seen.index(path) :], path])}", "let one of them stand alone")
    try:
        base = read(path)
    except ManifestError as error:
        raise refusal(f"{path}: {error.problems[0].message}", error.problems[0].hint) from None
    if base.problems:
        raise ManifestError(base.problems)
    if not isinstance(base.data, dict):
        raise refusal(f"{path} holds no mapping", "name a YAML file with keys of a case")
    if too_new := from_the_future(base):
        raise ManifestError([too_new])
    return base


def _variants(merged: Merged, problems: list[Problem]) -> list[Node]:
    base = Merged(merged.layers, _plain(merged.data))
    variants = merged.data.get("variants", [])
    if variants == []:
        problems += _new(check_data(base, "case"), problems)
        return [] if problems else [Node(None, base, _filled(base.data))]
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
        suffix = "" if "title" in variant else f" ({variant['id']})"
        found.append((variant["id"], node, suffix))
    return [] if problems else [Node(name, node, _filled(node.data), suffix) for name, node, suffix in found]


def _new(found: list[Problem], known: list[Problem]) -> list[Problem]:
    """Problems at places not reported yet: variants share their base, and the loader was there first."""
    places = {(problem.path, problem.line, problem.column) for problem in known}
    return [problem for problem in found if (problem.path, problem.line, problem.column) not in places]
