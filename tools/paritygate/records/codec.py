"""Typed data <-> strict JSON. ``Real`` numbers spell infinity and NaN as ``"inf"``, ``"-inf"`` and ``"nan"``."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from paritygate.errors import ArtifactError
from paritygate.records.model import Real

_T = TypeVar("_T")
# What UTF-8 cannot hold; it comes from file names and from models that print half a character.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SPELLED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def dumps(data: Any) -> str:
    r"""Indented strict JSON, in the order of the fields, ending in a newline; ``loads`` reads whatever this gives.

    A lone surrogate becomes the text ``\ud800``, since no reader of UTF-8 takes it.

    Raises:
        ArtifactError: for data that has no strict JSON form (an object, a plain float that is not finite).
    """
    try:
        plain = msgspec.to_builtins(data, enc_hook=_encode, str_keys=True)
        text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
        return _LONE_SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text) + "\n"
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise ArtifactError(f"this data has no JSON form: {error}") from error


def loads(text: str | bytes, type: type[_T], *, source: str = "data") -> _T:  # noqa: A002 - the contract's word
    """The typed form of JSON text.

    Args:
        text: strict JSON.
        type: a ``msgspec.Struct`` or any annotation that msgspec understands.
        source: where the text came from, for the message.

    Raises:
        ArtifactError: when the text is not JSON or does not fit the type; names the place in the data.
    """
    try:
        return msgspec.json.decode(text, type=type, dec_hook=_decode)
    except (msgspec.DecodeError, UnicodeError, OverflowError, RecursionError) as error:
        raise ArtifactError(f"{source}: {error}", hint="the file was edited or cut off; run the case again") from error


def _encode(value: Any) -> Any:
    if isinstance(value, float):
        plain = float(value)
        return plain if math.isfinite(plain) else repr(plain)
    raise NotImplementedError(f"{type(value).__module__}.{type(value).__qualname__}")


def _decode(kind: type, value: Any) -> Any:
    if kind is not Real:
        raise NotImplementedError(f"no decoder for {kind}")
    if isinstance(value, str):
        if value not in _SPELLED:
            raise ValueError(f"expected a number or one of {', '.join(_SPELLED)}, got {value!r}")
        return Real(_SPELLED[value])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, got {value!r}")
    return Real(value)
