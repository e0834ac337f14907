"""Keeps the values of secret environment variables out of what a run writes down."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_SECRET_NAME = re.compile(r"token(?!iz)|secret|passw|credential|api_?key|private_?key|access_?key", re.IGNORECASE)
#: Shorter values would blank words that mean something else.
_LEAST_CHARACTERS = 6
_BLANK = "***"


def redact(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with every value of an environment variable that is named like a secret replaced by ``***``."""
    for value in _secrets(environ):
        text = text.replace(value, _BLANK)
    return text


def redact_data(data: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """``redact`` for every text inside plain JSON data, keys too."""
    if isinstance(data, str):
        return redact(data, environ)
    if isinstance(data, Mapping):
        return {redact_data(key, environ): redact_data(value, environ) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [redact_data(value, environ) for value in data]
    return data


def _secrets(environ: Mapping[str, str]) -> list[str]:
    """Longest first, since one secret may hold another."""
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _LEAST_CHARACTERS}
    return sorted(found, key=lambda value: (-len(value), value))
