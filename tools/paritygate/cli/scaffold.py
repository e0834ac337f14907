"""Files that ``init`` and ``new`` write from templates. Nothing that exists is ever overwritten."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from paritygate.errors import UsageError


def template(name: str, values: Mapping[str, str] | None = None) -> str:
    """The text of a template, each ``{{key}}`` replaced, comments back in their column.

    Values are ids and names of registries, so they need no quoting.
    """
    text = (resources.files("paritygate.cli") / "templates" / name).read_text("utf-8")
    if not values:
        return text
    return "\n".join(_filled(line, values) for line in text.split("\n"))


def write_new(path: Path, text: str) -> bool:
    """Write a file that does not exist yet; False when it does.

    Raises:
        UsageError: when the folder cannot be made or written, or a folder has the name of the file.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder, and a file of that name is needed", hint="rename the folder")
    if os.path.lexists(path):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="check the permissions of the folder") from None
    return True


def _filled(line: str, values: Mapping[str, str]) -> str:
    filled = line
    for key, value in values.items():
        filled = filled.replace(f"{{{{{key}}}}}", value)
    column = line.find(" #") + 1
    if filled == line or column <= 0:
        return filled
    body, _, comment = filled.partition(" #")
    return f"{body.rstrip():<{column - 1}} #{comment}"
