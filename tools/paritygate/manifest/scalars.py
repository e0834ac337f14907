"""Plain YAML scalars by the YAML 1.2 core schema, less what people misread.

``no``, ``on`` and dates are text, ``1e-3`` is a number. Refused with a reason: numbers with leading zeros (8 to
one reader, 10 to another), values that are not finite, and integers beyond 64 bits.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple, TypeAlias

Scalar: TypeAlias = "str | int | float | bool | None"


class Refusal(NamedTuple):
    """Why a plain scalar has no value here, and what to write instead."""

    message: str
    hint: str


_WORDS: dict[str, Scalar] = {
    "": None,
    **dict.fromkeys(("null", "Null", "NULL", "~"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC_START = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OTHER_BASE = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")

#: Texts seen so far. Manifests repeat their words; the limit keeps a long-lived process bounded.
_SEEN: dict[str, Scalar | Refusal] = {}
_SEEN_LIMIT = 50_000


def resolve(text: str) -> Scalar | Refusal:
    """The value of an unquoted scalar, or the reason why it has none."""
    try:
        return _SEEN[text]
    except KeyError:
        value = _number(text) if text[:1] in _NUMERIC_START and text else _WORDS.get(text, text)
        if len(_SEEN) >= _SEEN_LIMIT:
            _SEEN.clear()
        _SEEN[text] = value
        return value


def _number(text: str) -> Scalar | Refusal:
    if _NOT_FINITE.match(text):
        return Refusal(f"{text} is not a finite number", "write a finite number, or leave the key out")
    if _OTHER_BASE.match(text):
        return _integer(text, int(text, 0))
    if not _FLOAT.match(text):
        return text
    if _LEADING_ZERO.match(text):
        bare = text.lstrip("+-0")
        bare = bare if bare[:1].isdigit() else f"0{bare}"
        return Refusal(
            f"{_short(text)} has a leading zero, which YAML readers take for different numbers",
            f"write {_short(bare)} for the number, or quote it as '{_short(text)}' for text",
        )
    if _INTEGER.match(text):
        # int() refuses very long texts, and 20 digits already exceed 64 bits.
        return _integer(text, int(text[:25]))
    value = float(text)
    return value if math.isfinite(value) else Refusal(f"{_short(text)} is not a finite number", _quote(text))


def _integer(text: str, value: int) -> int | Refusal:
    if -(2**63) <= value < 2**63:
        return value
    return Refusal(f"{_short(text)} does not fit a 64-bit number", _quote(text))


def _quote(text: str) -> str:
    return f"quote it as '{_short(text)}' if it is text, such as a commit"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
