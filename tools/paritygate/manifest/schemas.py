"""Documents against their JSON Schema, with errors in our words and at the author's line.

The schemas are JSON Schema 2020-12 in ``schema/*.schema.json``, usable by editors as they are. The annotation
``x-expected`` beside a keyword says in words what is expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec
from jsonschema_rs import Draft202012Validator

from paritygate.errors import Problem
from paritygate.manifest.loader import Document
from paritygate.manifest.merge import Located
from paritygate.manifest.wording import describe

SchemaName = Literal["case", "gate", "hardware", "lanes", "project", "sources"]

#: The newest ``schema_version`` that this package understands.
SCHEMA_VERSION = 1
#: Loader problems after which the shape of the data means nothing.
_FATAL = frozenset({"file", "yaml-anchor", "yaml-documents", "yaml-empty", "yaml-syntax", "yaml-tag"})


@cache
def schema_text(name: SchemaName) -> str:
    """The schema file as shipped."""
    return (resources.files("paritygate.manifest") / "schema" / f"{name}.schema.json").read_text("utf-8")


@cache
def schema_data(name: SchemaName) -> dict[str, Any]:
    """The schema as data. Treat it as read-only: it is shared."""
    data: dict[str, Any] = json.loads(schema_text(name))
    return data


@cache
def validator(name: SchemaName) -> Draft202012Validator:
    """The compiled validator, built once a process."""
    return Draft202012Validator(schema_data(name))


def check(document: Document, name: SchemaName) -> list[Problem]:
    """Every way in which a document breaks its schema, sorted; places the loader already reported are left out.

    A ``schema_version`` from the future is the only problem reported of its file: its other keys may be right.
    """
    if not has_shape(document):
        return []
    if too_new := from_the_future(document):
        return [too_new]
    known = {(problem.line, problem.column) for problem in document.problems}
    return [problem for problem in check_data(document, name) if (problem.line, problem.column) not in known]


def check_data(document: Located, name: SchemaName) -> list[Problem]:
    """Every way in which plain or merged data breaks a schema, sorted."""
    errors = _errors(name, document.data)
    # JSON Schema takes 512.0 for an integer; whoever computes with it as one does not.
    if errors or _whole_float(name).search(msgspec.json.encode(document.data)):
        errors += [error for error in _errors(name, _unwhole(document.data)) if error.kind.name == "type"]
    return sorted(describe(document, schema_data(name), errors)) if errors else []


def _errors(name: SchemaName, data: Any) -> list[Any]:
    return [] if validator(name).is_valid(data) else list(validator(name).iter_errors(data))


@cache
def _whole_float(name: SchemaName) -> re.Pattern[bytes]:
    """Finds, in data as compact JSON, a whole number spelled as a float under a key that takes integers somewhere.

    A search of the text costs a tenth of a walk over the data, which thousands of manifests would feel.
    """
    keys = sorted(set(_integer_keys(schema_data(name), schema_data(name).get("$defs", {}))))
    return re.compile(rb'"(?:%s)":[^"{}]*?\d(?:\.0|e\d+)[,\]}]' % b"|".join(key.encode() for key in keys))


def _integer_keys(schema: Any, definitions: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _integer_keys(part, definitions)
    elif isinstance(schema, dict):
        yield from (key for key, part in schema.get("properties", {}).items() if _takes_integers(part, definitions))
        for part in schema.values():
            yield from _integer_keys(part, definitions)


def _takes_integers(schema: Any, definitions: Mapping[str, Any]) -> bool:
    """Whether a value, or an item of a list, may have to be an integer."""
    if isinstance(schema, list):
        return any(_takes_integers(part, definitions) for part in schema)
    if not isinstance(schema, dict):
        return False
    if "integer" in schema.get("type", ""):
        return True
    target = definitions.get(schema.get("$ref", "").rpartition("/")[2])
    inner = (schema[key] for key in ("anyOf", "oneOf", "allOf", "items", "prefixItems") if key in schema)
    return _takes_integers(target, definitions) or any(_takes_integers(part, definitions) for part in inner)


def _unwhole(data: Any) -> Any:
    """The data with every whole float made a broken one: a number still, and no integer."""
    if isinstance(data, dict):
        return {key: _unwhole(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_unwhole(value) for value in data]
    return 0.5 if isinstance(data, float) and data.is_integer() else data


def check_variants(document: Document) -> list[Problem]:
    """What is wrong with the list of variants itself; what a variant holds is checked where it is merged."""
    case = schema_data("case")
    schema = {"properties": {"variants": case["properties"]["variants"]}, "$defs": case["$defs"]}
    errors = list(Draft202012Validator(schema).iter_errors({"variants": document.data["variants"]}))
    return sorted(describe(document, schema, errors)) if errors else []


def has_shape(document: Document) -> bool:
    """Whether the file was read far enough for its data to mean something."""
    return not any(problem.rule in _FATAL for problem in document.problems)


def from_the_future(document: Document) -> Problem | None:
    """The problem of a ``schema_version`` newer than ours."""
    version = document.data.get("schema_version") if isinstance(document.data, dict) else None
    if type(version) is not int or version <= SCHEMA_VERSION:
        return None
    return document.problem(
        ("schema_version",),
        "schema-version",
        f"schema_version {version} is newer than this paritygate understands ({SCHEMA_VERSION})",
        hint="upgrade with: pip install --upgrade paritygate",
    )
