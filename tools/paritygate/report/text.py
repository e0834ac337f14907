"""Text from manifests, legs and logs -> Markdown that shows exactly that text and nothing else.

Whatever a prompt or a log holds (HTML, backticks, pipes, line breaks, terminal colours, direction overrides), it
stays one inert piece of text wherever Markdown is rendered.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

from paritygate.records.model import unit_suffix

#: Longer texts are cut; a report must fit an annotation.
MAX_TEXT = 600

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#])")


def plain(value: object, *, limit: int = MAX_TEXT) -> str:
    """One line without control or direction characters, cut at ``limit`` characters."""
    text = _ANSI.sub("", str(value))
    text = " ".join(text.split())
    text = "".join("\N{REPLACEMENT CHARACTER}" if _invisible(character) else character for character in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"


def escape(value: object, *, limit: int = MAX_TEXT) -> str:
    """``plain`` text, escaped for Markdown (tables too) and HTML."""
    return _MARKDOWN.sub(r"\\\1", html.escape(plain(value, limit=limit), quote=False))


def code(value: object) -> str:
    """Escaped text in a fixed-width face; empty text stays empty."""
    text = escape(value)
    return f"<code>{text}</code>" if text else ""


def block(lines: Iterable[str]) -> str:
    """Lines as they are, preformatted; nothing in them is interpreted."""
    rows = [html.escape(_line(line), quote=False) for line in lines]
    return "<pre>\n" + "\n".join(rows) + "\n</pre>"


def number(value: float, unit: str = "") -> str:
    """A measured value for people: five digits, infinity and "no value" in words."""
    if math.isnan(value):
        return "no value"
    tail = unit_suffix(unit)
    if math.isinf(value):
        return f"{'' if value > 0 else '-'}inf{tail}"
    text = f"{value:.5g}"
    # An SSIM that is not perfect must not read as if it were.
    return f"1 - {1 - value:.2g}{tail}" if text == "1" and value < 1 else f"{text}{tail}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are already escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def details(summary: str, body: str) -> str:
    """A folded part; ``summary`` is already escaped."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _invisible(character: str) -> bool:
    # Cf holds direction overrides and zero-width marks, which can make one text look like another; emoji need U+200D.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") and character != "\N{ZERO WIDTH JOINER}"


def _line(line: str) -> str:
    text = _ANSI.sub("", line.rstrip("\r\n").rpartition("\r")[2]).expandtabs(4)[:MAX_TEXT]
    return "".join("\N{REPLACEMENT CHARACTER}" if _invisible(character) else character for character in text)
