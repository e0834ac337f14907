"""What is written reads back the same, by readers of YAML 1.1 and of 1.2."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from paritygate.ci.yaml_text import dump, scalar

NASTY = [
    *("", " ", "no", "yes", "on", "y", "null", "~", "true", "1", "010", "0x1F", "1e3", "1_000", "1:30", "12:30:45"),
    *("2024-01-01", ".nan", ".inf", "25921e05", "1234e56", "-", "- a", "? b", "a: b", "a #b", "# a", "&a", "*a", "!a"),
    *("%a", "@a", "`a`", "{a}", "[a]", "|", ">", "'a'", '"a"', "a\\b", "a\tb", "\ta", "a\r\nb", "tail ", " head"),
    *("two\nlines", "two\n\nlines", "ends\n", "\nstarts", "a\n  indented\nb", "x\x7fy", "x\x85y", "x\xa0y", "x\u2028y"),
    *("x\u2029y", "x\ufeffy", "x\x00y", "x\x1by", "emoji 🎉", "👩\u200d🔬", "日本語", "</script>", "$a ${b}", "a\x0bb"),
    *(
        "tab\tin\nlines",
        "nel\x85in\nlines",
        "trailing blank \nlines",
        "blank line\n   \nlines",
        "---",
        "...",
        "<<",
        "=",
    ),
]
READERS = {"pyyaml 1.1": yaml.safe_load, "ruamel 1.2": YAML(typ="safe", pure=True).load}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("text", NASTY, ids=repr)
def test_a_text_reads_back_as_itself_wherever_it_stands(text: str, reader: Any) -> None:
    data = {"value": text, "list": [text, {"in": text}], "map": {text: text}, "deep": {"er": [{"a": [text]}]}}
    assert reader(dump(data, indent=0)) == data


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_numbers_booleans_and_empty_collections_keep_their_types(reader: Any) -> None:
    data = {
        "a_number": -1,
        "zero": 0,
        "yes": True,
        "no": False,
        "none": {},
        "nothing": [],
        "items": [{"x": {}}, 1, "1"],
    }
    back = reader(dump(data, indent=0))
    assert back == data
    assert [type(value) for value in back.values()] == [type(value) for value in data.values()]


def test_equal_parts_are_written_out_and_never_aliased() -> None:
    part = {"cpu": "4"}
    assert dump({"limits": part, "requests": part}, indent=0).count('cpu: "4"') == 2


def test_a_script_is_a_block_that_people_can_read() -> None:
    assert dump({"command": "set -e\n\nmake"}, indent=0) == "command: |-\n  set -e\n\n  make\n"


@pytest.mark.parametrize("value", [1.5, None, b"x", object()])
def test_a_value_without_a_spelling_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        scalar(value)
