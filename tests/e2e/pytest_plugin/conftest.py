"""Real projects in a temporary folder, and pytest as a process inside pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.conftest import parts, private_caches

from paritygate.manifest.contract import contract
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries
from paritygate.media.digests import tree_digest

__all__ = ["parts", "private_caches"]


@dataclass(frozen=True)
class InnerRun:
    """How an inner pytest ended."""

    status: int
    out: str

    def summary(self) -> str:
        """The counts of our summary section."""
        return next(line for line in self.out.splitlines() if line.startswith("passed "))


PLUGINS = ("-p", "paritygate", "-p", "xdist")

InnerPytest = Callable[..., InnerRun]


def run_inner_pytest(folder: Path, *args: str, ci: bool = False, plugins: tuple[str, ...] = PLUGINS) -> InnerRun:
    """One pytest process in a folder, with our plugin and xdist and no other."""
    clean = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    clean |= {"CI": "true"} if ci else {}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugins, *args],
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


#: Leg code of the inner projects: no framework, a picture from NumPy, and what the leg's options say.
LEGS = """
import socket
from pathlib import Path
import numpy as np


def run(job, writer):
    what = job.spec["options"]["what"]
    pixels = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
    if what == "wrong":
        pixels = pixels[::-1].copy()
    if what == "black":
        pixels[:] = 0
    if what == "crash":
        raise RuntimeError("the kernel gave up")
    if what == "offline":
        raise socket.gaierror("hub.example: name or service not known")
    for item in job.items:
        writer.image(item.id, pixels)
"""

MANIFEST = """
schema_version: 1
id: {name}
title: Inner case {name}
claim: native-parity
task: t2i
model: {{id: inner, revision: "{revision}", weights: trained, path: ../model}}
request: {{prompt: a gradient, width: 16, height: 16, num_inference_steps: 1, seed: 1}}
output: {{kind: images, count: 1, width: 16, height: 16, mode: RGB}}
reference: {{runner: python, adapter: ../legs.py, options: {{what: right}}}}
candidate: {{runner: python, adapter: ../legs.py, options: {{what: {what}}}}}
measure:
  output:
    - {{metric: psnr_db, aggregate: min}}
    - {{metric: abs_diff_max, aggregate: max}}
ci:
  lane: {lane}
  hardware: {{sku: [{sku}], cards: {cards}}}
  timeout_minutes: 5
  sources: [accuracy/]
"""

GATE = """
schema_version: 1
case: {name}
contract: {contract}
profiles:
  - device: {{sku: CPU}}
    status: {status}
    exact: []
    bounds:
      - {{measurement: output.psnr_db.min, at_least: 30}}
    evidence: {evidence}
"""

PROJECT_FILES = {
    "paritygate.yaml": """
schema_version: 1
cases: [accuracy]
test_module: accuracy/test_accuracy.py
""",
    ".buildkite/hardware.yml": """
schema_version: 1
skus:
  CPU: {platform: cpu, cards: [0], queue: cpu}
  H100: {platform: cuda, cards: [1, 2], queue: gpu}
""",
    ".buildkite/lanes.yml": """
schema_version: 1
lanes:
  nightly: {description: Every night., if: build.env("N") == "1", group: Nightly, max_timeout_minutes: 60}
  trial:
    description: Where proposed bounds are on trial.
    if: build.env("T") == "1"
    group: Trial
    max_timeout_minutes: 60
    allow_provisional: true
""",
    "accuracy/legs.py": LEGS,
    "accuracy/model/weights.bin": "weights",
    "accuracy/test_accuracy.py": "def test_accuracy(accuracy_case):\n    accuracy_case.check()\n",
}


@dataclass(frozen=True)
class InnerProject:
    """A paritygate project in a temporary folder. ``parts`` are the builders that all unit tests share."""

    root: Path
    parts: Any

    def write(self, path: str, text: str) -> Path:
        """Write one file, making its folder."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def add(
        self, name: str, what: str = "right", *, gate: str = "accepted", lane: str = "nightly", sku: str = "CPU"
    ) -> None:
        """Add a case whose candidate does ``what``, with a gate of that status, or none when it is empty."""
        revision = tree_digest(self.root / "accuracy" / "model")
        cards = 0 if sku == "CPU" else 1
        text = MANIFEST.format(name=name, what=what, lane=lane, sku=sku, cards=cards, revision=revision)
        self.write(f"accuracy/{name}/{name}.case.yaml", text)
        if gate:
            project = find_project(self.root)
            (case,) = load_cases(project, load_registries(project), only=self.root / "accuracy" / name).cases
            evidence = self.parts.write_evidence(case.folder, case=name, contract=contract(case))
            text = GATE.format(name=name, contract=contract(case), status=gate, evidence=evidence)
            if gate == "accepted":
                text += "    selected: {by: a tester, on: 2026-12-01, reason: inner test}\n"
            self.write(f"accuracy/{name}/{name}.gate.yaml", text)

    def pytest(self, *args: str, ci: bool = False, folder: str = ".") -> InnerRun:
        """One pytest process in the project."""
        return run_inner_pytest(self.root / folder, *args, ci=ci)

    def records(self) -> dict[str, int]:
        """How many records each case has under ``artifacts``."""
        found = [path.parts[-3] for path in (self.root / "artifacts").glob("*/*/record.json")]
        return {name: found.count(name) for name in sorted(set(found))}


def make_inner_project(root: Path, parts: Any) -> InnerProject:
    """A project without a case."""
    project = InnerProject(root, parts)
    for path, text in PROJECT_FILES.items():
        project.write(path, text)
    return project


@pytest.fixture
def inner_project(tmp_path: Path, parts: Any) -> InnerProject:
    return make_inner_project(tmp_path, parts)


@pytest.fixture(scope="session")
def make_project(parts: Any) -> Callable[[Path], InnerProject]:
    return lambda root: make_inner_project(root, parts)
