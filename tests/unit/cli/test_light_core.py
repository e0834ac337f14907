"""The core install: with every optional package unimportable, manifests validate and pipelines generate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paritygate.errors import ExitCode

ROOT = Path(__file__).resolve().parents[3]
#: Everything that only extras bring; a None in ``sys.modules`` makes an import fail as if it were not installed.
OPTIONAL = (
    *("PIL", "diffusers", "numpy", "onnx", "onnxruntime", "packaging", "psutil"),
    *("tokenizers", "torch", "transformers"),
)


def bare(*argv: str) -> subprocess.CompletedProcess[str]:
    script = (
        f"import sys\nfor name in {OPTIONAL!r}: sys.modules[name] = None\n"
        f"from paritygate.cli.main import main\nmain({list(argv)!r})"
    )
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)


def test_validate_works_without_extras() -> None:
    done = bare("validate")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert " cases, 0 variants" in done.stdout


def test_generated_pipelines_are_checked_without_extras() -> None:
    done = bare("ci", "generate", "--check")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")


@pytest.mark.parametrize("command", ["run", "preflight"])
def test_running_without_extras_names_all_that_is_absent_and_one_install_command(command: str) -> None:
    done = bare(command, "tiny-digits-t2i-onnx")
    assert (done.returncode, done.stderr) == (
        ExitCode.PREFLIGHT,
        "error: the Python packages 'PIL', 'numpy', 'packaging', 'psutil' are not installed\n"
        "  fix: install them with: pip install 'paritygate[run]'\n",
    )


@pytest.mark.parametrize("command", ["run", "preflight"])
def test_an_unknown_case_is_named_before_anything_is_asked_to_be_installed(command: str) -> None:
    done = bare(command, "tiny-digits-t2i-onx")
    assert done.returncode == ExitCode.USAGE
    assert "no case 'tiny-digits-t2i-onx'" in done.stderr
