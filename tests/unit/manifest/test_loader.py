from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.manifest.loader import MAX_DEPTH, parse

# JSON writes characters beyond the basic plane as surrogate pairs, which YAML does not know.
_TEXT = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1.5E+2", 150.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("0.5", 0.5),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("2026-12-01", "2026-12-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("3.10.1", "3.10.1"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("'010'", "010"),
        ('"1e-3"', "1e-3"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    document = parse(f"key: {text}\n", display="f")
    assert document.problems == ()
    assert document.data == {"key": value}
    assert type(document.data["key"]) is type(value)


@pytest.mark.parametrize(
    "text", [".nan", ".NaN", ".inf", "-.INF", "+.inf", "010", "-007", "00", "08.5", "1e999", "9223372036854775808"]
)
def test_a_number_that_readers_take_differently_is_refused_where_it_stands(text: str) -> None:
    (problem,) = parse(f"a:\n  - 1\n  - {text}\n", display="f").problems
    assert (problem.line, problem.column, problem.rule) == (3, 5, "yaml-number")
    assert text in problem.message


def test_a_huge_number_gives_a_short_message() -> None:
    (problem,) = parse(f"a: {'9' * 100_000}\n", display="f").problems
    assert len(problem.text()) < 400


@given(_JSON)
def test_json_is_read_as_json(value: Any) -> None:
    document = parse(json.dumps(value), display="f")
    assert document.problems == ()
    assert document.data == value


def test_a_duplicate_key_keeps_the_first_value_and_names_its_line() -> None:
    document = parse("a: 1\nb: {c: 2}\na:\n  deep: [1, 2]\n", display="f")
    (problem,) = document.problems
    assert document.data == {"a": 1, "b": {"c": 2}}
    assert "stands first on line 1" in problem.message
    assert document.position(("a",)) == (1, 4)


def test_all_problems_of_a_file_come_in_one_pass_and_in_order() -> None:
    rules = [problem.rule for problem in parse("a: .nan\n1: x\na: 2\nb: !!str c\n", display="f").problems]
    assert rules == ["yaml-number", "yaml-key", "duplicate-key", "yaml-tag"]


def test_positions_are_those_of_keys_and_values() -> None:
    document = parse("a:\n  b: [x, {c: d}]\n", display="f")
    assert document.position(("a", "b", 1, "c")) == (2, 14)
    assert document.key_position(("a", "b", 1, "c")) == (2, 11)
    assert document.position(("a", "missing", "deeper")) == document.position(("a",)) == (2, 3)
    assert document.key_position(("a",)) == (1, 1)


def test_columns_count_characters_not_bytes() -> None:
    assert parse("{é: 1, 😀: x}", display="f").position(("😀",)) == (1, 11)


def test_the_author_s_spelling_of_a_number_can_be_shown() -> None:
    assert parse("{a: [3.10, x]}", display="f").written(("a", 0)) == "3.10"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_one_problem(opening: str) -> None:
    (problem,) = parse(opening * (MAX_DEPTH + 5), display="f").problems
    assert problem.rule == "yaml-syntax"


@pytest.mark.parametrize(
    "text", ["a: [1, 2", "a: 'x", "%TAG ! tag:x,2000:\n---\na: !x 1", "a: \x01", "? a\n? b\n- c", "@x"]
)
def test_broken_yaml_is_a_problem_never_an_exception(text: str) -> None:
    assert parse(text, display="f").problems


def test_a_byte_order_mark_and_directives_do_no_harm() -> None:
    assert parse("%YAML 1.2\n---\na: 1\n...\n", display="f").data == {"a": 1}
