"""Manifests: validate and generate CI against ``yaml.CSafeLoader`` alone, and the start of the command line.

    .venv/bin/python benchmarks/manifests.py [--count 5000] [--rounds 3]

Every figure is a ratio to the baseline measured in the same run, in processor time. The garbage collector runs as it
does by default: for the baseline too, while our loader pauses it for itself, which is a part of what is measured.
Each task starts on a collected heap without the cases of the one before. Exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from generated_project import CASES, REPOSITORY, write_project

from paritygate.ci.generate import generate
from paritygate.manifest.cache import cache_folder
from paritygate.manifest.index import Loaded, load_project
from paritygate.manifest.project import find_project

#: Highest allowed ratios to the baseline: of a first load, of one with nothing changed, of a start.
FIRST_GOAL, AGAIN_GOAL, START_GOAL = 1.5, 0.5, 3.0


class Task(NamedTuple):
    """Something to time. ``before`` is not timed."""

    name: str
    run: Callable[[], object]
    goal: float | None = None
    before: Callable[[], object] = lambda: None


class Row(NamedTuple):
    """One measured task; ``goal`` is the highest ratio to the baseline that is allowed."""

    name: str
    seconds: float
    goal: float | None


def best_s(tasks: Sequence[Task], rounds: int, clock: Callable[[], float]) -> list[float]:
    """Seconds of each task in its quickest round. The tasks of a round run one after the other.

    Processor time, not wall time: a neighbour on the machine would be in the latter.
    """
    best = [float("inf")] * len(tasks)
    for _ in range(rounds):
        for index, task in enumerate(tasks):
            task.before()
            gc.collect()
            start = clock()
            task.run()
            best[index] = min(best[index], clock() - start)
    return best


def load(root: Path) -> Loaded:
    """What ``paritygate validate`` does, without printing."""
    return load_project(find_project(root))[1]


def load_and_generate(root: Path) -> object:
    """What ``paritygate ci generate`` does, without writing."""
    project = find_project(root)
    registries, loaded = load_project(project)
    return generate(project, loaded, registries)


def manifests(root: Path, rounds: int) -> list[Row]:
    """The loads, the baseline first."""
    files = sorted((root / CASES).rglob("*.case.yaml"))
    cache = cache_folder(root)
    assert cache is not None

    def baseline() -> None:
        for file in files:
            yaml.load(file.read_bytes(), yaml.CSafeLoader)

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    loaded = load(root)
    assert cache.exists(), "without a cache, nothing changed would be measured as the first time"
    assert not loaded.problems, loaded.problems[:3]
    assert len(loaded.cases) == len(files)
    del loaded  # thousands of cases alive would cost every task after this a share of each garbage collection
    tasks = [
        Task("yaml.CSafeLoader alone (baseline)", baseline),
        Task("validate, first time", lambda: load(root), FIRST_GOAL, forget),
        Task("validate, nothing changed", lambda: load(root), AGAIN_GOAL),
        Task("validate + ci generate, first time", lambda: load_and_generate(root), FIRST_GOAL, forget),
        Task("validate + ci generate, nothing changed", lambda: load_and_generate(root), AGAIN_GOAL),
    ]
    return measured(tasks, rounds, time.process_time)


def measured(tasks: Sequence[Task], rounds: int, clock: Callable[[], float]) -> list[Row]:
    """Each task with its best time."""
    best = best_s(tasks, rounds, clock)
    return [Row(task.name, seconds, task.goal) for task, seconds in zip(tasks, best, strict=True)]


def starts(rounds: int) -> list[Row]:
    """Whole processes on this repository, the baseline first."""
    command = str(Path(sys.executable).with_name("paritygate"))

    def process(*argv: str) -> Callable[[], object]:
        return lambda: subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True)

    def children_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    tasks = [
        Task(
            'python -c "import yaml, jsonschema" (baseline)', process(sys.executable, "-c", "import yaml, jsonschema")
        ),
        Task("paritygate --help", process(command, "--help"), START_GOAL),
        Task("paritygate validate", process(command, "validate"), START_GOAL),
    ]
    return measured(tasks, rounds, children_s)


def main() -> int:
    """Print the two tables; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        root = Path(folder).resolve() / "project"
        write_project(root, arguments.count, folder=lambda index: f"group_{index // 100:03d}")
        tables = [manifests(root, arguments.rounds), starts(max(5, arguments.rounds))]
    missed = False
    for rows in tables:
        baseline = rows[0].seconds
        for row in rows:
            ratio = row.seconds / baseline
            goal = f"  (goal {row.goal})" if row.goal else ""
            print(f"{row.name:<50} {row.seconds:8.3f} s {ratio:6.2f}x{goal}")
            missed |= row.goal is not None and ratio > row.goal
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
