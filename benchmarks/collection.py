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

GOAL = 2.0

PROJECT = """\
schema_version: 1
cases: [accuracy]
artifacts: artifacts
buildkite: .buildkite
test_module: accuracy/test_accuracy.py
"""
HARDWARE = """\
schema_version: 1
skus:
  H100: {platform: cuda, cards: [1, 2], queue: gpu}
"""
LANES = """\
schema_version: 1
lanes:
  nightly: {description: Every night., if: build.env("NIGHTLY") == "1", group: Accuracy, max_timeout_minutes: 180}
"""
EMPTY = """\
import pytest


@pytest.mark.parametrize("case", [pytest.param(i, id=f"case-{{i:05}}") for i in range({cases})])
def test_accuracy(case):
    pass
"""
TEST = """\
def test_accuracy(accuracy_case):
    accuracy_case.check()
"""
MANIFEST = """\
# yaml-language-server: $schema=case.schema.json
schema_version: 1
id: {name}
title: Native text to image, case {index}
claim: native-parity
task: t2i
model:
  id: Qwen/Qwen-Image
  revision: 75e0b4be04f60ec59a75f475837eced720f823b6
  weights: trained
  path_env: QWEN_IMAGE_MODEL
request:
  prompt: A photo of a cat sitting on a laptop keyboard, number {index}.
  negative_prompt: blurry, low quality
  width: 512
  height: 512
  num_inference_steps: 20
  true_cfg_scale: 4.0
  seed: {index}
  initial_latents: seeded
  inputs: []
output:
  kind: images
  count: 1
  width: 512
  height: 512
  mode: RGB
reference:
  runner: diffusers
  pipeline: QwenImagePipeline
  requires: {{diffusers: "==0.42.1"}}
  dtype: bfloat16
  attention_backend: native
candidate:
  runner: diffusers
  pipeline: QwenImagePipeline
  dtype: bfloat16
  attention_backend: flash
  timeout_s: 900
differences:
  - field: attention_backend
    reason: the production default is under test
measure:
  exact: [token_ids, timesteps, sigmas]
  output:
    - {{metric: psnr_db, aggregate: min, target: 30}}
    - {{metric: ssim, aggregate: min, target: 0.97}}
    - {{metric: abs_diff_p99, aggregate: max}}
coverage:
  exercises: [text_encoder, denoiser, scheduler, vae_decode]
  gaps: [image conditioning, batch > 1]
ci:
  lane: nightly
  group: diffusion-x2i
  hardware:
    sku: [H100]
    cards: 1
  timeout_minutes: 180
  sources: []
  setup: []
"""


def build(root: Path, cases: int) -> tuple[Path, Path]:
    """Write both folders; returns (empty tests, project)."""
    empty, project = root / "empty", root / "project"
    files = {
        empty / "test_accuracy.py": EMPTY.format(cases=cases),
        project / "paritygate.yaml": PROJECT,
        project / ".buildkite" / "hardware.yml": HARDWARE,
        project / ".buildkite" / "lanes.yml": LANES,
        project / "accuracy" / "test_accuracy.py": TEST,
    }
    for index in range(cases):
        name = f"case-{index:05}"
        files[project / "accuracy" / name / f"{name}.case.yaml"] = MANIFEST.format(name=name, index=index)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return empty, project


def collect(folder: Path, cases: int, cache: Path) -> float:
    """Seconds of one whole ``pytest --collect-only`` process, which must find every case."""
    # Other plugins of this machine would add the same seconds to both sides and flatter the ratio.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": str(cache)}
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
                seconds = collect(folder, cases, root / "bytecode")
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
