"""``paritygate show``: a case as it is after ``extends`` and ``variants``, each value with its file and line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click

from paritygate.cli.project import open_project
from paritygate.errors import printable
from paritygate.manifest.case import Case
from paritygate.manifest.contract import contract
from paritygate.manifest.index import load_nodes
from paritygate.manifest.loader import Pointer
from paritygate.manifest.merge import Located
from paritygate.manifest.nodes import Node
from paritygate.manifest.scalars import resolve
from paritygate.manifest.suite import items
from paritygate.manifest.wording import spell

_COMMENT_COLUMN = 72
#: Text that YAML reads back as itself without quotes.
_BARE = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+@() -]*(?<! )\Z")


@click.command("show")
@click.argument("case")
@click.option("--json", "as_json", is_flag=True, help="Print data, origins and contract as JSON.")
def command(*, case: str, as_json: bool) -> int:
    """Print the resolved CASE (node id, case id or manifest) with the file and line of each value."""
    opened = open_project()
    shown = [(one, _node(load_nodes(opened.project, one.manifest), one)) for one in opened.cases(case)]
    if as_json:
        click.echo(json.dumps([_data(one, node) for one, node in shown], indent=2))
    else:
        click.echo("\n---\n".join("\n".join(_lines(one, node)) for one, node in shown))
    return 0


def _node(nodes: list[Node], case: Case) -> Node:
    return next(node for node in nodes if node.variant == case.variant)


def _data(case: Case, node: Node) -> dict[str, Any]:
    origins = {spell(pointer): _origin(node.document, pointer) for pointer in _leaves(node.data, ())}
    return {
        "id": case.id,
        "variant": case.variant,
        "manifest": case.manifest,
        "contract": contract(case),
        "items": len(items(case)),
        "case": node.data,
        "origins": origins,
    }


def _leaves(value: Any, pointer: Pointer) -> Iterator[Pointer]:
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if not children:
        yield pointer
    for key, child in children:
        yield from _leaves(child, (*pointer, key))


def _lines(case: Case, node: Node) -> Iterator[str]:
    yield f"# {case.id}: {case.manifest}"
    count = len(items(case))
    yield f"# contract {contract(case)}; {count} request{'s' * (count > 1)}"
    yield from _mapping(node.data, (), 0, node.document)


def _mapping(data: dict[str, Any], pointer: Pointer, indent: int, document: Located) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{' ' * indent}{_scalar(key)}:", value, (*pointer, key), indent, document)


def _entry(head: str, value: Any, pointer: Pointer, indent: int, document: Located) -> Iterator[str]:
    """One key or list item: its value on the same line, or its children below."""
    if isinstance(value, dict) and value:
        yield head
        yield from _mapping(value, pointer, indent + 2, document)
    elif isinstance(value, list) and value:
        yield head
        for index, item in enumerate(value):
            yield from _entry(f"{' ' * (indent + 2)}-", item, (*pointer, index), indent + 2, document)
    else:
        origin = _origin(document, pointer)
        place = origin.rpartition(":")[0] or origin
        yield f"{f'{head} {_scalar(value)}':<{_COMMENT_COLUMN}}  # {printable(place)}"


def _origin(document: Located, pointer: Pointer) -> str:
    """``file:line:column`` of a value that a file states; what follows from such values is ``derived``."""
    if pointer[0] not in document.data:
        return "derived"
    return "{}:{}:{}".format(*document.origin(pointer))


def _scalar(value: Any) -> str:
    """A value as YAML on one line; JSON is YAML, so everything unusual is JSON."""
    if isinstance(value, str) and _BARE.match(value) and resolve(value) == value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
