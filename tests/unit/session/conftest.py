"""A temporary project whose legs are small Python adapters, run through the real command line."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.conftest import run_command

from paritygate.media.digests import tree_digest
from paritygate.records.model import RunRecord
from paritygate.records.store import RECORD_NAME, read_record

#: Draws its picture from the item's shared latents, so that wrong noise shows in the pixels.
ADAPTER = """
import os, signal, sys, time
from pathlib import Path
import numpy as np

def picture(job, index, size=(16, 16)):
    latents = np.load(job.latents, allow_pickle=False)[index]
    seed = abs(int(latents.sum() * 1e6))
    smooth = np.add.outer(np.linspace(0, 0.7, size[0]), np.linspace(0, 0.2, size[1])).astype(np.float32)[..., None]
    noise = np.random.default_rng(seed).random((*size, 3), dtype=np.float32)
    return smooth + np.float32(0.1) * noise

def report(job, writer, index, item):
    latents = np.load(job.latents, allow_pickle=False)[index]
    writer.initial_latents(item.id, latents)
    writer.token_ids(item.id, [[ord(letter) for letter in item.request["prompt"]]])
    writer.setting("config.guidance_scale", item.request["guidance_scale"])

def run(job, writer):
    for index, item in enumerate(job.items):
        report(job, writer, index, item)
        pixels = picture(job, index)
        CHANGE
        writer.image(item.id, pixels)
"""

MANIFEST = """
schema_version: 1
id: demo
title: Demo
claim: native-parity
task: t2i
model: {{id: demo-model, revision: "{revision}", weights: trained, path: model}}
request: {{guidance_scale: 3.0, seed: 7, initial_latents: shared, latent_shape: [4, 8, 8]}}
suite: {{prompts: [one, two, three], seeds: derived}}
output: {{kind: images, count: 1, width: 16, height: 16, mode: RGB}}
reference: {{runner: python, adapter: reference.py, timeout_s: {timeout_s}}}
candidate: {{runner: python, adapter: candidate.py, timeout_s: {timeout_s}}}
measure:
  exact: [token_ids, initial_latents, config]
  output:
    - {{metric: psnr_db, aggregate: min}}
    - {{metric: abs_diff_max, aggregate: max}}
ci: {{lane: nightly, hardware: {{sku: [{sku}], cards: {cards}}}, timeout_minutes: 5}}
"""

GATE = """
schema_version: 1
case: demo
contract: {contract}
profiles:
  - device: {{sku: CPU}}
    status: {status}
    bounds: [{{measurement: output.psnr_db.min, at_least: 60}}]
    exact: [token_ids, initial_latents]
    evidence: {evidence}
    {selected}
"""

REGISTRIES = {
    "hardware": """
schema_version: 1
skus:
  CPU: {platform: cpu, cards: [0], queue: cpu}
  H100: {platform: cuda, cards: [1], queue: gpu_h100}
""",
    "lanes": """
schema_version: 1
lanes:
  nightly: {description: Every night., if: 'build.env("NIGHTLY") == "1"', group: All, max_timeout_minutes: 180}
""",
}


@dataclass(frozen=True)
class Demo:
    """The project, and what its last command did."""

    root: Path
    capsys: Any
    parts: Any

    def write(self, *, sku: str = "CPU", cards: int = 0, timeout_s: float = 60, manifest: str = MANIFEST) -> None:
        revision = tree_digest(self.root / "cases" / "model")
        text = manifest.format(revision=revision, sku=sku, cards=cards, timeout_s=timeout_s)
        (self.root / "cases" / "demo.case.yaml").write_text(text)

    def candidate(self, change: str) -> None:
        """Give the candidate another way to behave, after each picture was made and before it is stored."""
        body = textwrap.indent(textwrap.dedent(change).strip() or "pass", " " * 8).strip()
        (self.root / "cases" / "candidate.py").write_text(ADAPTER.replace("CHANGE", body))

    def adapter(self, leg: str, source: str) -> None:
        (self.root / "cases" / f"{leg}.py").write_text(ADAPTER.partition("def run")[0] + textwrap.dedent(source))

    def gate(self, *, status: str, contract: str) -> None:
        selected = "selected: {by: someone, on: 2026-12-01, reason: a test}" if status == "accepted" else ""
        shown = ("initial_latents", "token_ids")
        evidence = self.parts.write_evidence(self.root / "cases", case="demo", contract=contract, shown=shown)
        text = GATE.format(contract=contract, status=status, selected=selected, evidence=evidence)
        (self.root / "cases" / "demo.gate.yaml").write_text(text)

    def call(self, *words: str) -> tuple[int, str, str]:
        """Run a command; its exit code, output and error output."""
        return run_command(self.capsys, words)

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        """``paritygate run demo --json``: the exit code and the case's result."""
        code, out, _ = self.call("run", "demo", "--json", *words)
        (result,) = json.loads(out)["cases"]
        return code, result

    def record(self, result: dict[str, Any]) -> RunRecord:
        return read_record(self.folder(result) / RECORD_NAME)

    def folder(self, result: dict[str, Any]) -> Path:
        return self.root / "artifacts" / "demo" / str(result["run_id"])


@pytest.fixture
def demo(parts, tmp_path, monkeypatch, capsys):
    """A project with one case of three items that agrees with itself."""
    root = tmp_path / "project"
    (root / "cases" / "model").mkdir(parents=True)
    (root / "cases" / "model" / "weights.bin").write_bytes(b"weights")
    (root / "paritygate.yaml").write_text("schema_version: 1\ncases: [cases]\ntest_module: cases/test_demo.py\n")
    (root / ".buildkite").mkdir()
    for name, text in REGISTRIES.items():
        (root / ".buildkite" / f"{name}.yml").write_text(text)
    for leg in ("reference", "candidate"):
        (root / "cases" / f"{leg}.py").write_text(ADAPTER.replace("CHANGE", "pass"))
    monkeypatch.chdir(root)
    monkeypatch.delenv("CI", raising=False)
    project = Demo(root, capsys, parts)
    project.write()
    return project
