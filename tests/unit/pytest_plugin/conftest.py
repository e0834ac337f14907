"""Real projects in a temporary folder, and pytest as a process inside pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class InnerRun:
    """How an inner pytest ended."""

    status: int
    out: str

    def summary(self) -> str:
        """The counts of our summary section."""
        return next(line for line in self.out.splitlines() if line.startswith("passed "))


InnerPytest = Callable[..., InnerRun]


def run_inner_pytest(folder: Path, *args: str, ci: bool = False, env: Mapping[str, str] | None = None) -> InnerRun:
    """One pytest process in a folder, with our plugin and xdist and no other."""
    clean = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    clean |= ({"CI": "true"} if ci else {}) | dict(env or {})
    plugins = ("-p", "paritygate", "-p", "xdist", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *args],
        cwd=folder,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return InnerRun(done.returncode, done.stdout)


@pytest.fixture(scope="session")
def inner_pytest() -> InnerPytest:
    return run_inner_pytest
