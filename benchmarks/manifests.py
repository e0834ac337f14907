"""Manifests: validate and generate CI against ``yaml.CSafeLoader`` alone, and the start of the command line.

    .venv/bin/python benchmarks/manifests.py [--count 5000] [--rounds 3]

Every figure is a ratio to the baseline measured in the same run.
"""

from __future__ import annotations

import argparse
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

from paritygate.ci.generate import generate
from paritygate.manifest.index import Loaded, load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries

REPOSITORY = Path(__file__).resolve().parent.parent
CASES = "tests/e2e/accuracy"

MANIFEST = """\
# yaml-language-server: $schema=case.schema.json
schema_version: 1
id: case-{index:05d}
title: "Benchmark case {index}: native against Diffusers"
claim: native-parity
task: t2i
model:
  id: Qwen/Qwen-Image
  revision: 75e0b4be04f60ec59a75f475837eced720f823b6
  weights: trained
  path_env: QWEN_IMAGE_MODEL
request:
  prompt: A photo of cat number {index} sitting on a laptop keyboard.
  negative_prompt: blurry, low quality
  width: 512
  height: 512
  num_inference_steps: {steps}
  true_cfg_scale: 4.0
  seed: {index}
  initial_latents: seeded
output: {{kind: images, count: 1, width: 512, height: 512, mode: RGB}}
reference:
  runner: diffusers
  pipeline: QwenImagePipeline
  requires: {{diffusers: "==0.42.1"}}
  dtype: bfloat16
  attention_backend: native
  device: cuda
candidate:
  runner: openai
  server: [vllm, serve, "{{model}}", --omni, --port, "{{port}}"]
  endpoint: images/generations
  fields:
    negative_prompt: negative_prompt
    num_inference_steps: num_inference_steps
  startup_timeout_s: 900
differences:
  - field: attention_backend
    reason: production default of the native path is under test
measure:
  exact: [token_ids, timesteps, sigmas, initial_latents, config]
  parts:
    - {{component: denoiser, at_steps: [0, 9, 19], metric: relative_l2}}
  output:
    - {{metric: psnr_db, aggregate: min, target: 30}}
    - {{metric: ssim, aggregate: min, target: 0.97}}
    - {{metric: abs_diff_p99, aggregate: max}}
coverage:
  exercises: [text_encoder, denoiser, scheduler, vae_decode]
  gaps:
    - image conditioning
    - batch > 1
ci:
  lane: {lane}
  group: diffusion-x2i
  hardware: {{sku: [H100, B200], cards: 1}}
  timeout_minutes: 180
  sources: ["@qwen_image"]
  setup: ["export VLLM_HTTP_TIMEOUT_KEEP_ALIVE=120"]
"""


def write_project(root: Path, count: int) -> None:
    """A project of ``count`` manifests of about 60 lines in folders of 100, with this repository's registries."""
    (root / "paritygate.yaml").write_text("schema_version: 1\n", encoding="utf-8")
    shutil.copytree(REPOSITORY / ".buildkite", root / ".buildkite")
    (root / ".buildkite" / "sources.yml").write_text(
        "schema_version: 1\nsources:\n  qwen_image: [tests/]\n", encoding="utf-8"
    )
    for index in range(count):
        folder = root / CASES / f"group_{index // 100:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        text = MANIFEST.format(index=index, steps=20 + index % 30, lane="weekly" if index % 5 == 0 else "nightly")
        (folder / f"case_{index:05d}.case.yaml").write_text(text, encoding="utf-8")


class Task(NamedTuple):
    """Something to time. ``before`` is not timed."""

    name: str
    run: Callable[[], object]
    before: Callable[[], object] = lambda: None


def best_s(tasks: Sequence[Task], rounds: int, clock: Callable[[], float]) -> list[float]:
    """Seconds of each task in its quickest round. The tasks of a round run one after the other.

    Processor time, not wall time: a neighbour on the machine would be in the latter.
    """
    best = [float("inf")] * len(tasks)
    for _ in range(rounds):
        for index, task in enumerate(tasks):
            task.before()
            start = clock()
            task.run()
            best[index] = min(best[index], clock() - start)
    return best


def load(root: Path) -> Loaded:
    """What ``paritygate validate`` does, without printing."""
    project = find_project(root)
    return load_cases(project, load_registries(project))


def load_and_generate(root: Path) -> object:
    """What ``paritygate ci generate`` does, without writing."""
    project = find_project(root)
    registries = load_registries(project)
    return generate(project, load_cases(project, registries), registries)


def manifests(root: Path, rounds: int) -> list[tuple[str, float]]:
    """(what, seconds) for the loads, the baseline first."""
    files = sorted((root / CASES).rglob("*.case.yaml"))

    def baseline() -> None:
        for file in files:
            yaml.load(file.read_bytes(), yaml.CSafeLoader)

    def forget() -> None:
        shutil.rmtree(root / ".paritygate", ignore_errors=True)

    loaded = load(root)
    assert not loaded.problems, loaded.problems[:3]
    assert len(loaded.cases) == len(files)
    tasks = [
        Task("yaml.CSafeLoader alone (baseline)", baseline),
        Task("validate, first time", lambda: load(root), forget),
        Task("validate, nothing changed", lambda: load(root)),
        Task("validate + ci generate, first time", lambda: load_and_generate(root), forget),
        Task("validate + ci generate, nothing changed", lambda: load_and_generate(root)),
    ]
    return list(zip((task.name for task in tasks), best_s(tasks, rounds, time.process_time), strict=True))


def starts(rounds: int) -> list[tuple[str, float]]:
    """(what, seconds) for whole processes on this repository, the baseline first."""
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
        Task("paritygate --help", process(command, "--help")),
        Task("paritygate validate", process(command, "validate")),
    ]
    return list(zip((task.name for task in tasks), best_s(tasks, rounds, children_s), strict=True))


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        write_project(root, arguments.count)
        tables = [manifests(root, arguments.rounds), starts(max(5, arguments.rounds))]
    for rows in tables:
        baseline = rows[0][1]
        for name, seconds in rows:
            print(f"{name:<50} {seconds:8.3f} s {seconds / baseline:6.2f}x")


if __name__ == "__main__":
    main()
