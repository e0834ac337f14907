"""The outermost layer of the command line: help without imports, errors without tracebacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paritygate.cli import main as main_module
from paritygate.cli.main import BUG_EXIT_CODE, COMMANDS, main
from paritygate.errors import EXTRA_OF, ExitCode, LegError


def exit_code_of(*argv: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(argv))
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_command_table_is_sorted_and_every_command_loads() -> None:
    assert list(COMMANDS) == sorted(COMMANDS)
    for name in COMMANDS:
        assert exit_code_of(name, "--help") == 0


def test_help_imports_no_command_and_nothing_heavy() -> None:
    script = (
        "import sys\nfrom paritygate.cli.main import run\nrun(['--help'])\n"
        "late = ('paritygate.manifest', 'yaml', 'jsonschema', 'numpy', 'torch')\n"
        "print([m for m in sys.modules if m.startswith(late)])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_misspelt_command_suggests_the_near_one_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of("valdiate") == ExitCode.USAGE
    assert "validate" in capsys.readouterr().err


def test_an_error_prints_its_message_and_fix_and_exits_with_its_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise LegError("the candidate leg was killed", kind="killed", hint="give it more memory")

    monkeypatch.setattr(main_module.cli, "main", broken)
    assert exit_code_of() == ExitCode.LEG
    assert capsys.readouterr().err == "error: the candidate leg was killed\n  fix: give it more memory\n"


@pytest.mark.parametrize(("module", "extra"), sorted(EXTRA_OF.items()))
def test_a_missing_extra_names_the_install_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    def broken(**_: object) -> None:
        raise ModuleNotFoundError(name=f"{module}.part")

    monkeypatch.setattr(main_module.cli, "main", broken)
    assert exit_code_of() == ExitCode.PREFLIGHT
    assert f"pip install 'paritygate[{extra}]'" in capsys.readouterr().err


def test_a_bug_shows_no_traceback_but_keeps_it_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(main_module.cli, "main", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert exit_code_of() == BUG_EXIT_CODE
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    log = Path(shown.split("details to report: ")[1].strip())
    assert "ZeroDivisionError: division by zero" in log.read_text(encoding="utf-8")
