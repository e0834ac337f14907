"""Collecting 1,000 cases beside 1,000 parametrised empty tests: whole processes, warm, alternating, best of each.

Goal: at most twice the time. ``python benchmarks/collection.py [cases] [rounds]``
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generated_project import write_project

GOAL = 2.0

EMPTY = """\
import pytest


@pytest.mark.parametrize("case", [pytest.param(i, id=f"case-{{i:05}}") for i in range({cases})])
def test_accuracy(case):
    pass
"""


def build(root: Path, cases: int) -> tuple[Path, Path]:
    """Write both folders; returns (empty tests, project)."""
    empty, project = root / "empty", root / "project"
    empty.mkdir()
    (empty / "test_accuracy.py").write_text(EMPTY.format(cases=cases), encoding="utf-8")
    write_project(project, cases, folder=lambda index: f"case_{index:05d}")
    for manifest in project.rglob("*.case.yaml"):
        # What `paritygate new` writes beside a manifest, and what a gate rests on.
        (manifest.parent / "README.md").write_text("# A case\n", encoding="utf-8")
        (manifest.parent / "evidence").mkdir()
        (manifest.parent / "evidence" / "20261130T000000.000000Z-000000.json").write_text("{}\n", encoding="utf-8")
    return empty, project


def collect(folder: Path, cases: int, caches: Path) -> float:
    """Seconds of one whole ``pytest --collect-only`` process, which must find every case."""
    # Other plugins of this machine would add the same seconds to both sides and flatter the ratio.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": str(caches / "bytecode")}
    env["XDG_CACHE_HOME"] = str(caches)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "paritygate"]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode or done.stdout.count("::test_accuracy[") != cases:
        raise SystemExit(f"collection in {folder} went wrong:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds


def main(cases: int = 1000, rounds: int = 7) -> int:
    """Measure, print, and return 1 when the goal is missed."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        folders = build(root, cases)
        samples: tuple[list[float], list[float]] = ([], [])
        for warm_up in (True, *[False] * rounds):
            for folder, taken in zip(folders, samples, strict=True):
                seconds = collect(folder, cases, root / "caches")
                if not warm_up:
                    taken.append(seconds)
    empty, project = (min(taken) for taken in samples)
    ratio = project / empty
    print(
        f"collection: {cases} empty tests {empty:.3f} s, {cases} cases {project:.3f} s, ratio {ratio:.2f} (goal {GOAL})"
    )
    return int(ratio > GOAL)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
