"""Schema errors in words: what stands there, what was expected, and the nearest valid spelling."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from paritygate.errors import Problem
from paritygate.manifest.loader import Pointer
from paritygate.manifest.merge import Located

_NOUNS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}
_PLAIN = re.compile(r"[\w@-]+\Z")
#: A longer list of names helps nobody.
_MOST_NAMES = 30
_Describer: TypeAlias = Callable[[Located, Mapping[str, Any], Pointer, Any], Iterable[Problem]]


def nearest(word: object, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` for the closest known word, else the known words if they are few, else nothing."""
    names = sorted(known)
    lowered = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(str(word).lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{lowered[close[0]]}'?"
    if not names or len(names) > _MOST_NAMES:
        return ""
    return f"expected one of: {', '.join(names)}" if len(names) > 1 else f"expected: {names[0]}"


def show(value: Any) -> str:
    """A value as a reader would call it: ``the number 3``, ``'text'``, ``a list``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null (nothing)"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:57]}...")
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def spell(pointer: Pointer) -> str:
    """``measure.output[0].metric``; ``the file`` for the root."""
    text = "".join(f".{part}" if isinstance(part, str) and _PLAIN.match(part) else f"[{part!r}]" for part in pointer)
    return text.lstrip(".") or "the file"


def describe(document: Located, schema: Mapping[str, Any], errors: Sequence[Any]) -> list[Problem]:
    """Our problems for the validator's errors.

    One mistake gives one problem: a value of the wrong type is not also too small, and a misspelt key is not also
    a missing one.
    """
    of_wrong_type = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
    problems: dict[tuple[object, ...], Problem] = {}
    for error in errors:
        pointer: Pointer = tuple(error.instance_path)
        if pointer in of_wrong_type and error.kind.name != "type":
            continue
        node = _schema_node(schema, error.schema_path)
        for problem in _DESCRIBERS.get(error.kind.name, _other)(document, node, pointer, error):
            problems[problem.line, problem.column, problem.rule, problem.message] = problem
    return _without_misspelt(list(problems.values()))


def _without_misspelt(problems: list[Problem]) -> list[Problem]:
    suggested = {(problem.path, problem.hint) for problem in problems if problem.rule == "unknown-key"}

    def is_misspelt(problem: Problem) -> bool:
        key = problem.message.split()[-1]
        return problem.rule == "missing-key" and (problem.path, f"did you mean {key}?") in suggested

    return [problem for problem in problems if not is_misspelt(problem)]


def _schema_node(schema: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    """The schema object that holds the failing keyword."""
    node: Any = schema
    for part in path[:-1]:
        node = node[part]
    return node if isinstance(node, Mapping) else {}


def _expected(node: Mapping[str, Any]) -> str:
    return str(node.get("x-expected", ""))


def _unknown(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    known = set(node.get("properties", {}))
    for key in error.kind.unexpected:
        where = f" in {spell(pointer)}" if pointer else ""
        near = nearest(key, known)
        hint = near if near.startswith("did you mean") else _expected(node) or near
        yield document.problem((*pointer, key), "unknown-key", f"unknown key {key!r}{where}", hint=hint, at_key=True)


def _missing(document: Located, _node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    message = f"{spell(pointer)} misses the key {error.kind.property!r}"
    yield document.problem(pointer, "missing-key", message, at_key=True)


def _type(document: Located, _node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    types = [name for name in error.kind.types if name != "null"] or ["null"]
    expected = " or ".join(_NOUNS[name] for name in types)
    written = document.written(pointer)
    is_scalar = isinstance(error.instance, bool | int | float)
    found = written if isinstance(error.instance, bool) else f"{written} (a number)"
    message = f"{spell(pointer)}: expected {expected}, found {found if is_scalar and written else show(error.instance)}"
    hint = ""
    if "string" in types and is_scalar:
        hint = f"quote it as '{written}'"
    elif isinstance(error.instance, str) and {"number", "integer", "boolean"} & set(types):
        hint = _unquote(error.instance, types)
    elif types == ["integer"] and isinstance(error.instance, float):
        hint = _whole(written)
    yield document.problem(pointer, "type", message, hint=hint)


def _unquote(text: str, types: Sequence[str]) -> str:
    if "boolean" in types and text.lower() in {"yes", "no", "on", "off"}:
        return "write true or false: YAML 1.2 reads yes, no, on and off as text"
    try:
        float(text)
    except ValueError:
        return ""
    return "write it without quotes"


def _whole(written: str) -> str:
    """The integer to write instead of a float that is one."""
    try:
        value = float(written)
    except ValueError:
        return ""
    return f"write {int(value)}" if value.is_integer() and abs(value) < 2**63 else ""


def _enum(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    options = node.get("enum", [node["const"]] if "const" in node else [])
    names = [option for option in options if isinstance(option, str)]
    word = error.instance if isinstance(error.instance, str) else ""
    hint = nearest(word, names) or f"expected {' or '.join(map(_spelled, options))}"
    message = f"{spell(pointer)}: {show(error.instance)} is not a valid value here"
    yield document.problem(pointer, "value", message, hint=hint)


def _spelled(option: Any) -> str:
    """An option as YAML writes it: ``true``, not ``True``."""
    return option if isinstance(option, str) else json.dumps(option)


def _pattern(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    expected = _expected(node) or f"text that matches {node.get('pattern')}"
    yield document.problem(pointer, "format", f"{spell(pointer)}: expected {expected}, found {show(error.instance)}")


def _property_names(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    # The schema path leads into propertyNames, whose keyword failed on the key itself.
    key = error.kind.error.instance
    expected = _expected(node) or f"names that match {node.get('pattern')}"
    message = f"the key {key!r} in {spell(pointer)}: expected {expected}"
    yield document.problem((*pointer, key), "format", message, at_key=True)


_LIMITS = {
    "exclusiveMaximum": "less than {}",
    "exclusiveMinimum": "more than {}",
    "maxItems": "at most {} entries",
    "maxLength": "at most {} characters",
    "maxProperties": "at most {} keys",
    "maximum": "at most {}",
    "minItems": "at least {} entries",
    "minLength": "at least {} characters",
    "minProperties": "at least {} keys",
    "minimum": "at least {}",
    "multipleOf": "a multiple of {}",
}


def _limit(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    name = error.kind.name
    limit = node.get(name)
    expected = _LIMITS[name].format(limit)
    if limit == 1:
        expected = expected.replace("entries", "entry").replace("characters", "character").replace("keys", "key")
    size = len(error.instance) if name.endswith(("Items", "Length", "Properties")) else error.instance
    message = f"{spell(pointer)}: expected {expected}, found {size}"
    yield document.problem(pointer, "range", message, hint=_expected(node))


def _unique(document: Located, _node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    seen: list[Any] = []
    for index, value in enumerate(error.instance):
        if value in seen:
            message = f"{spell(pointer)}: {show(value)} stands twice in a list of different entries"
            yield document.problem((*pointer, index), "value", message, hint="remove one of the two")
        seen.append(value)


def _refused(document: Located, node: Mapping[str, Any], pointer: Pointer, _error: Any) -> Iterable[Problem]:
    yield document.problem(
        pointer, "unknown-key", f"the key {spell(pointer)} has no place here", hint=_expected(node), at_key=True
    )


def _choice(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    expected = _expected(node) or str(node.get("title", "another form"))
    wanted = {e.kind.property for branch in error.kind.context for e in branch if e.kind.name == "required"}
    is_mapping = isinstance(error.instance, dict)
    if is_mapping and any(difflib.get_close_matches(key, wanted) for key in error.instance if key not in wanted):
        # The misspelt key is reported as such.
        return
    found = f"the keys {', '.join(sorted(error.instance))}" if is_mapping else show(error.instance)
    yield document.problem(pointer, "value", f"{spell(pointer)}: expected {expected}, found {found}", at_key=is_mapping)


def _other(document: Located, node: Mapping[str, Any], pointer: Pointer, error: Any) -> Iterable[Problem]:
    expected = _expected(node)
    message = f"{spell(pointer)}: expected {expected}" if expected else f"{spell(pointer)}: not valid here"
    yield document.problem(pointer, "value", message, hint=f"schema keyword {error.kind.name}")


_DESCRIBERS: dict[str, _Describer] = {
    **dict.fromkeys(_LIMITS, _limit),
    "additionalProperties": _unknown,
    "anyOf": _choice,
    "const": _enum,
    "enum": _enum,
    "falseSchema": _refused,
    "oneOf": _choice,
    "pattern": _pattern,
    "propertyNames": _property_names,
    "required": _missing,
    "type": _type,
    "unevaluatedProperties": _unknown,
    "uniqueItems": _unique,
}
