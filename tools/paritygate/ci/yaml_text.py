"""Plain data -> YAML that every reader, 1.1 or 1.2, takes for the same data.

Every text is a double-quoted JSON string, or a literal block for scripts; no aliases, no folding, no dates. A
writer this small is several times faster than a general one, and its output does not change with a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

_quote = json.JSONEncoder(ensure_ascii=False).encode
#: JSON leaves these as they are; YAML readers take them for line breaks or refuse them.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]+\Z")
#: Plain keys that YAML 1.1 reads as something else.
_NOT_PLAIN = frozenset({"false", "no", "null", "off", "on", "true", "yes"})
_NO_BLOCK = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def dump(data: Mapping[str, Any], *, indent: int) -> str:
    """A block mapping, each line indented by ``indent`` blanks and ended by a newline.

    Holds dicts with text keys, lists, tuples, text, integers and booleans.

    Raises:
        TypeError: for any other value.
    """
    return "".join(f"{line}\n" for line in _mapping(data, " " * indent))


def dump_item(data: Mapping[str, Any], *, indent: int) -> str:
    """The same mapping as one entry of a block sequence whose dashes stand at column ``indent``."""
    pad = " " * indent
    return f"{pad}- {dump(data, indent=indent + 2)[indent + 2 :]}"


def one_line(text: str) -> str:
    """A text for people on one line of printable characters; blanks stand for what is left out."""
    return " ".join(_NO_BLOCK.sub(" ", text).split())


def scalar(value: Any) -> str:
    """One scalar, on one line.

    Raises:
        TypeError: for a value that is no text, integer or boolean.
    """
    if isinstance(value, str):
        text = _quote(value)
        return text if text.isascii() and "\x7f" not in text else _UNPRINTABLE.sub(_escape, text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"no YAML spelling for {value!r}")


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    return key if _PLAIN_KEY.match(key) and key.lower() not in _NOT_PLAIN else scalar(key)


def _mapping(data: Mapping[str, Any], pad: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{pad}{_key(key)}:", value, pad)


def _entry(head: str, value: Any, pad: str) -> Iterator[str]:
    """The lines of a value after ``key:``."""
    if isinstance(value, str) and "\n" in value and not _NO_BLOCK.search(value) and value == value.strip():
        yield f"{head} |-"
        yield from (f"{pad}  {line}" if line else "" for line in value.split("\n"))
    elif isinstance(value, dict):
        yield head if value else f"{head} {{}}"
        yield from _mapping(value, f"{pad}  ")
    elif isinstance(value, list | tuple):
        yield head if value else f"{head} []"
        yield from _sequence(value, f"{pad}  ")
    else:
        yield f"{head} {scalar(value)}"


def _sequence(values: Sequence[Any], pad: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict) and value:
            yield from dump_item(value, indent=len(pad)).splitlines()
        else:
            yield f"{pad}- {scalar(value)}"
