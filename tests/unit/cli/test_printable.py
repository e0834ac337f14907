"""Whatever a leg, a manifest or a file is called, a terminal shows it and obeys nothing in it."""

import pytest

from paritygate.cli.main import fail
from paritygate.errors import ManifestError, Problem, UsageError, printable

HOSTILE = [
    ("red \x1b[31mtext\x1b[0m", "red text"),
    ("a\x1b]0;new title\x07b", "ab"),
    ("a\x1b]8;;http://x\x1b\\link", "alink"),
    ("\x9b31m and \x07 and \x00", "\ufffd31m and \ufffd and \ufffd"),
    ("abc\u202edcba", "abc\ufffddcba"),
    ("one\r\ntwo\n::error::three", "one two ::error::three"),
    ("::error file=x::boo", ": :error file=x::boo"),
    ("x ##[error] boo", "x ## [error] boo"),
    ("half \ud83d a face", "half \ufffd a face"),
    ("a 👩‍🚀 stays", "a 👩‍🚀 stays"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_text_from_outside_is_shown_and_never_obeyed(text, shown):
    assert printable(text) == shown


def test_lines_stay_lines_and_none_of_them_is_a_command_of_a_ci_log():
    assert printable("a:\n  [x] b\t1\n  ::error::c\u2028d", lines=True) == "a:\n  [x] b 1\n  : :error::c\ufffdd"


def test_errors_are_printed_inert(capsys):
    fail(UsageError("no case '\x1b[2J'\n::error::x", hint="\u202eno"))
    fail(ManifestError([Problem("a\x1b[31m\n::error::b.yaml", 1, 1, "rule", "told\n::warning::x")]))
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]
    assert len(shown.splitlines()) == 4
