"""The compiled kernel is used when it fits, and never a reason to fail."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from paritygate.metrics import kernel


@pytest.fixture
def fresh(monkeypatch):
    """What a new process would load."""
    monkeypatch.delenv(kernel.SWITCH, raising=False)
    kernel._loaded.cache_clear()
    yield monkeypatch
    kernel._loaded.cache_clear()


def build(folder: Path, text: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "other.c").write_text(text, encoding="utf-8")
    library = folder / "other.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "other.c")], check=True)
    return library


def test_every_function_of_the_sources_is_asked_for():
    sources = sorted((Path(kernel.__file__).parent / "native").glob("*.c"))
    defined = {name for path in sources for name in re.findall(r"^\w+ (pg_\w+)\(", path.read_text(), re.MULTILINE)}
    assert defined == {*kernel.FUNCTIONS, "pg_abi_version"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int pg_abi_version(void) { return 1; }", "cannot be loaded"),
        (
            "int pg_abi_version(void) { return 99; }" + "".join(f"void {name}(void){{}}" for name in kernel.FUNCTIONS),
            "99",
        ),
        ("int other(void) { return 1; }", "cannot be loaded"),
    ],
)
def test_a_library_from_other_sources_is_left_aside_with_its_reason(fresh, tmp_path, text, reason):
    fresh.setattr(kernel, "_LIBRARY", build(tmp_path, text))
    assert kernel.library() is None
    assert kernel.engine().startswith("numpy (")
    assert reason in kernel.engine()


def test_a_missing_or_broken_library_leaves_numpy(fresh, tmp_path):
    fresh.setattr(kernel, "_LIBRARY", tmp_path / "none.so")
    assert "no C compiler" in kernel.engine()
    kernel._loaded.cache_clear()
    (tmp_path / "none.so").write_bytes(b"no library")
    assert kernel.engine().startswith("numpy (the compiled kernel cannot be loaded")


def test_the_switch_turns_it_off(fresh):
    fresh.setenv(kernel.SWITCH, "off")
    assert kernel.library() is None
    assert kernel.SWITCH in kernel.engine()
