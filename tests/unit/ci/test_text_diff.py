"""Our diff of long files says what ``difflib`` and ``patch`` say."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.ci.text_diff import unified_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "unique 1", "unique 2", "unique 3", ""]), max_size=14).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def patched(old: str, diff: str) -> str:
    """``old`` with the diff applied, hunk by hunk."""
    lines, result, at = old.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            begin = int(start) - (length != "0")
            result += lines[at:begin]
            at = begin
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert lines[at] == line[1:]
            at += 1
            if line.startswith(" "):
                result.append(line[1:])
    return "".join(result + lines[at:])


@given(old=TEXTS, new=TEXTS)
@settings(max_examples=300, deadline=None)
def test_applying_the_diff_gives_the_new_text(old: str, new: str) -> None:
    assert patched(old, unified_diff(old, new, name="f")) == new


def test_small_changes_look_as_difflib_shows_them() -> None:
    old = "".join(f"line {index}\n" for index in range(40))
    new = old.replace("line 7\n", "").replace("line 20\n", "line twenty\n").replace("line 39\n", "line 39\nmore\n")
    expected = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/f", "b/f")
    assert unified_diff(old, new, name="f") == "".join(expected)


@pytest.mark.skipif(shutil.which("patch") is None, reason="the patch tool is not installed")
def test_the_patch_tool_takes_it(tmp_path: Path) -> None:
    old = "".join(f"line {index % 5}\n" for index in range(40)) + "end"
    new = "top\n" + old.replace("line 3\n", "line three\n", 2) + "\n"
    (tmp_path / "f").write_text(old)
    (tmp_path / "d").write_text(unified_diff(old, new, name="f"))
    subprocess.run(["patch", "-p1", "-i", "d"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "f").read_text() == new


def test_a_missing_side_is_dev_null() -> None:
    assert unified_diff(None, "a\n", name="f") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"
    assert unified_diff("a\n", None, name="f") == "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"


def test_thousands_of_alike_steps_take_about_as_long_as_reading_them() -> None:
    def text(changed: int) -> str:
        steps = (
            f"- label: {index}{'!' * (index % changed == 0)}\n{'  same: line' * 3}\n  end: x\n" * 1
            for index in range(9000)
        )
        return "".join(step + "  filler: y\n" * 10 for step in steps)

    started = time.perf_counter()
    diff = unified_diff(text(10**9), text(1000), name="f")
    assert time.perf_counter() - started < 10  # difflib alone needs minutes
    assert diff.count("\n+- label: ") == 8
