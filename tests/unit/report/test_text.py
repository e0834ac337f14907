"""Hostile text stays inert text."""

from __future__ import annotations

import math

import pytest

from paritygate.report.text import MAX_TEXT, block, code, escape, number, plain, table

HOSTILE = [
    "</script><script>alert(1)</script>",
    "a | b",
    "`code` and ``more``",
    "first\n\n# heading\n- item",
    "![x](http://evil)",
    "[click](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m\x07",
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "$(rm -rf /) $HOME",
    "**bold** __x__ ~~y~~",
    "</pre><b>",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_one_line_without_markup(text):
    for shown in (escape(text), code(text).removeprefix("<code>").removesuffix("</code>")):
        assert "\n" not in shown
        assert "<" not in shown
        for special in "|`*_[]~$#":
            assert f"{special}" not in shown.replace(f"\\{special}", "")
        shown.encode()


def test_plain_text_and_emoji_survive():
    text = "A red “three”, 50 % größer \N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}!"
    assert plain(text) == text
    assert escape(text) == text


def test_long_text_is_cut_and_says_so():
    assert len(plain("x" * 5000)) == MAX_TEXT
    assert plain("x" * 5000).endswith("…")


def test_a_preformatted_block_cannot_be_closed_from_inside():
    shown = block(["</pre></script>", "a\rb\rprogress 100 %", "\x1b[1mbold\x1b[0m", "tab\there"])
    assert shown.splitlines() == [
        "<pre>",
        "&lt;/pre&gt;&lt;/script&gt;",
        "progress 100 %",
        "bold",
        "tab here",
        "</pre>",
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(math.nan, "dB", "no value"), (math.inf, "dB", "inf dB"), (-math.inf, "1", "-inf"), (48.1308, "dB", "48.131 dB"),
     (0.0, "1", "0"), (1 / 255, "1", "0.0039216"), (1.0, "1", "1"),
     (0.9999957, "1", "1 - 4.3e-06"), (0.9999, "1", "0.9999")],
)  # fmt: skip
def test_numbers_are_words_where_they_are_no_numbers(value, unit, text):
    assert number(value, unit) == text


def test_a_table_has_one_line_a_row():
    assert table(("a", "b"), [("1", escape("x|y\nz"))]).splitlines() == [
        "| a | b |",
        "| --- | --- |",
        "| 1 | x\\|y z |",
    ]
