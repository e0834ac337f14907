"""The parts of ``paritygate run`` that need no run: codes, CI, progress, and what loads when."""

import io
import subprocess
import sys

import pytest

from paritygate.cli.main import BUG_EXIT_CODE
from paritygate.cli.project import require_run_extra
from paritygate.cli.run import WORST_FIRST, worst
from paritygate.cli.watch import watcher
from paritygate.errors import ExitCode, MissingExtraError
from paritygate.session.progress import Progress
from paritygate.session.provenance import in_ci


def test_every_exit_code_has_its_place_and_infrastructure_counts_only_alone():
    assert set(WORST_FIRST) == {*ExitCode, BUG_EXIT_CODE}
    assert worst(iter([ExitCode.OK, ExitCode.INFRASTRUCTURE])) is ExitCode.INFRASTRUCTURE
    assert worst(iter([ExitCode.INFRASTRUCTURE, ExitCode.PREFLIGHT])) is ExitCode.PREFLIGHT
    assert worst(iter([ExitCode.PREFLIGHT, ExitCode.FAILED, ExitCode.OK])) is ExitCode.FAILED
    assert worst(iter([ExitCode.FAILED, ExitCode.LEG])) is ExitCode.LEG


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, False), ("", False), ("0", False), ("false", False), ("no", False), ("true", True), ("1", True),
     (" TRUE\n", True), ("yes", True), ("woodpecker", True)],
)  # fmt: skip
def test_ci_is_what_the_variable_says(value, expected):
    assert in_ci({} if value is None else {"CI": value}) is expected


def test_a_log_gets_plain_lines_once_a_stage_and_at_its_end(monkeypatch):
    stream = io.StringIO()
    watch = watcher(stream)
    for done in range(4):
        watch(Progress(case="c", stage="reference leg", done=done, total=3))
    watch(Progress(case="c", stage="compare"))
    assert stream.getvalue().splitlines() == ["c: reference leg 0/3", "c: reference leg 3/3", "c: compare"]


def test_a_long_leg_says_now_and_then_how_far_it_is(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    watch = watcher(stream)
    for done in range(1, 5):
        watch(Progress(case="c", stage="reference leg", done=done, total=9))
        now[0] += 10
    assert stream.getvalue().splitlines() == ["c: reference leg 1/9", "c: reference leg 3/9"]


def test_a_terminal_gets_a_bar_in_one_line():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    watch = watcher(stream)
    for done in (0, 1, 2):
        watch(Progress(case="c", stage="reference leg", done=done, total=2))
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "[############............] 1/2" in text


def test_an_absent_extra_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "psutil" else object())
    with pytest.raises(MissingExtraError) as caught:
        require_run_extra()
    assert caught.value.exit_code == 3
    assert "paritygate[run]" in caught.value.hint


def test_words_are_checked_before_anything_heavy_loads():
    code = (
        "import sys\nfrom paritygate.cli.main import main\n"
        "try:\n    main(['run', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(set(sys.modules) & {'numpy', 'PIL', 'torch', 'psutil'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Exit codes" in done.stdout
