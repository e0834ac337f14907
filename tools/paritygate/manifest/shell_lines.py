"""Shell lines that a person writes into ``setup`` lists, judged without a shell.

They stand before the test command in one script. The script itself sees to it that ending early is never green
(``ci.build``); here a line is refused early that could not work, or that would take that guard away.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache

_JOINERS = ("&&", "||", "|", "\\", "(", "{")
#: ``trap`` would replace the guard, and ``exec`` of a program would end the shell without running it.
_UNGUARDED = re.compile(r"(?<![\w./-])trap(?![\w./-])|(?:^|[;&|({!]|\b(?:then|do|else|builtin|command|eval))\s*exec\b")


def upload_fault(text: str) -> tuple[str, str] | None:
    """Why a text cannot pass through a pipeline upload unchanged, as (message, hint); None when it can.

    The upload reads both ``$$`` and backslash-dollar as an escaped dollar, so a dollar after a backslash has no
    spelling that every agent version reads alike.
    """
    if "\\$" in text:
        return (
            "a backslash before a dollar does not survive the pipeline upload",
            "quote with '...', or use a script file",
        )
    return None


@lru_cache(maxsize=1024)  # thousands of cases share a few lines
def setup_fault(line: str) -> tuple[str, str] | None:
    """Why a setup line cannot stand before the test command, as (message, hint); None when it can."""
    if fault := upload_fault(line):
        return fault
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        return f"the shell line is not complete: {str(error).lower()}", "close what it opens on the same line"
    if words and (line.rstrip().endswith(_JOINERS) or words[-1] in _JOINERS):
        return "the shell line is not complete: it continues into the next one", "make each line a whole command"
    if "<<" in line and "<<<" not in line:
        return "a here-document would swallow the test command", "put the text into a file of the project"
    if words and (found := _UNGUARDED.search(line)):
        word = "trap" if found.group() == "trap" else "exec"
        return f"{word!r} would let the step be green without its test", "put it into a script file of the project"
    return None
