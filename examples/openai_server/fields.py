"""The fields of each endpoint: their types and ranges. Anything else in a request is refused, not ignored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openai_server.refusal import Refusal

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
_SHOWN = 80


@dataclass(frozen=True)
class Field:
    """One field. ``least`` and ``most`` bound a number, or the length of a text; ``choices`` are all that is taken."""

    kind: type[str] | type[int] | type[float]
    least: float = 0
    most: float = 4096
    choices: tuple[str, ...] = ()
    required: bool = False


_COMMON = {
    "model": Field(str, least=1, most=200),
    "prompt": Field(str, least=1, required=True),
    "negative_prompt": Field(str),
    "size": Field(str, most=16),
    "num_inference_steps": Field(int, least=1, most=1000),
    "guidance_scale": Field(float, most=100),
    "seed": Field(int, most=2**63 - 1),
}
_ANSWER = {
    "n": Field(int, least=1, most=8),
    "response_format": Field(str, choices=("b64_json", "url")),
    "output_format": Field(str, choices=("png",)),
}
GENERATIONS: Mapping[str, Field] = {**_COMMON, **_ANSWER}
EDITS: Mapping[str, Field] = {**_COMMON, **_ANSWER, "strength": Field(float, most=1)}
VIDEOS: Mapping[str, Field] = {
    **_COMMON,
    "num_frames": Field(int, least=1, most=257),
    "fps": Field(float, least=1, most=120),
    "max_sequence_length": Field(int, least=1, most=512),
}


def from_json(body: bytes, known: Mapping[str, Field]) -> dict[str, Any]:
    """The fields of a JSON object; null stands for a field that is not there.

    Raises:
        Refusal: for anything but an object of known fields with values that they take.
    """
    try:
        values = json.loads(body, object_pairs_hook=_once)
        json.dumps(values, ensure_ascii=False).encode()  # half a character is none, and no tokenizer takes it
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not JSON: {str(error)[:_SHOWN]}") from error
    if not isinstance(values, dict):
        raise Refusal("the body is not a JSON object")
    return _checked({name: value for name, value in values.items() if value is not None}, known)


def from_form(values: Mapping[str, str], known: Mapping[str, Field]) -> dict[str, Any]:
    """The fields of a form, whose values are all text.

    Raises:
        Refusal: for an unknown field, or a value that it does not take.
    """
    found: dict[str, Any] = {}
    for name, text in values.items():
        kind = known[name].kind if name in known else str
        try:
            found[name] = kind(text)
        except ValueError as error:
            raise Refusal(f"{name} is {text[:_SHOWN]!r}, expected {_words(known[name])}", param=name) from error
    return _checked(found, known)


def size_of(text: str) -> tuple[int, int]:
    """``(width, height)`` of a size such as ``32x32``.

    Raises:
        Refusal: for another text.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise Refusal(f"size is {text!r}, expected such as 512x512", param="size")
    return int(found[1]), int(found[2])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name more than once")
    return found


def _checked(values: dict[str, Any], known: Mapping[str, Field]) -> dict[str, Any]:
    if unknown := sorted(set(values) - set(known)):
        names = ", ".join(name[:_SHOWN] for name in unknown[:10])
        message = f"unknown field: {names}; known are {', '.join(sorted(known))}"
        raise Refusal(message, param=unknown[0][:_SHOWN], code="unknown_parameter")
    for name, field in known.items():
        if name in values:
            values[name] = _value(name, values[name], field)
        elif field.required:
            raise Refusal(f"{name} is missing", param=name, code="missing_required_parameter")
    return values


def _value(name: str, value: Any, field: Field) -> Any:
    fitting = (int, float) if field.kind is float else (field.kind,)
    is_fit = isinstance(value, fitting) and not isinstance(value, bool)
    if is_fit and field.kind is float:
        value = _float(value)
        is_fit = math.isfinite(value)
    measure = len(value) if isinstance(value, str) and is_fit else value
    if not is_fit or (field.choices and value not in field.choices) or not field.least <= measure <= field.most:
        raise Refusal(f"{name} is {repr(value)[:_SHOWN]}, expected {_words(field)}", param=name, code="invalid_value")
    return value


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond floats
        return math.inf


def _words(field: Field) -> str:
    if field.choices:
        return " or ".join(field.choices)
    kind = {str: "a text of {} to {} characters", int: "an integer from {} to {}", float: "a number from {} to {}"}
    return kind[field.kind].format(field.least, field.most)
