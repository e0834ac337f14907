"""The words of ``paritygate golden``; what it does with goldens is tested in tests/unit/goldens."""

import subprocess
import sys

import pytest

from paritygate.cli.main import run
from paritygate.cli.run import command as run_cases


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "paritygate.yaml").write_text("schema_version: 1\ncases: [cases]\ntest_module: cases/test_demo.py\n")
    (tmp_path / "cases").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["list"], 0, "no golden, no draft, and no case that needs one"),
        (["verify"], 0, "no golden, and no case that needs one"),
        (["verify", "lost"], 1, "no golden lost: neither in goldens/ nor in a manifest"),
        (["create", "lost"], 2, "no case 'lost'"),
        (["promote", "lost", "--reason", "r"], 2, "'lost' means no draft"),
        (["promote", "..", "--reason", "r"], 2, "'..' means no draft"),
        (["promote", "lost"], 2, "Missing option '--reason'"),
        (["update", "lost"], 2, "No such command 'update'"),
    ],
)
def test_an_empty_project_says_what_there_is_not(project, capsys, words, code, text):
    assert run(["golden", *words]) == code
    captured = capsys.readouterr()
    assert text in captured.out + captured.err


def test_a_broken_manifest_is_no_orphan(project, capsys):
    (project / "cases/broken.case.yaml").write_text("id: broken\n")
    for words in (["list"], ["verify"]):
        assert run(["golden", *words]) == 2
    assert "cases/broken.case.yaml:1" in capsys.readouterr().err


def test_no_command_compares_and_updates_at_once():
    assert not {"create", "golden", "promote", "regenerate", "update"} & {option.name for option in run_cases.params}


def test_the_words_are_checked_before_anything_heavy_loads():
    code = (
        "import sys\nfrom paritygate.cli.main import main\n"
        "try:\n    main(['golden', 'create', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(set(sys.modules) & {'numpy', 'PIL', 'torch', 'psutil', 'http.client'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Exit codes" in done.stdout
