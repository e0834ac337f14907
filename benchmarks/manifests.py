"""Manifests: validate and generate CI against ``yaml.CSafeLoader`` alone, and the start of the command line.

    .venv/bin/python benchmarks/manifests.py [--count 5000] [--rounds 3]

Every figure is a ratio to the baseline measured in the same run; the best of the rounds counts, since a shared
machine only ever adds time.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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


def best_s(action: Callable[[], object], rounds: int, *, before: Callable[[], object] = lambda: None) -> float:
    """Seconds of the quickest of ``rounds`` runs, each after an untimed ``before``."""
    times = []
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def load(root: Path) -> Loaded:
    """What ``paritygate validate`` does, without printing."""
    project = find_project(root)
    return load_cases(project, load_registries(project))


def load_and_generate(root: Path) -> object:
    """What ``paritygate ci generate`` does, without writing."""
    project = find_project(root)
    registries = load_registries(project)
    return generate(project, load_cases(project, registries), registries)


def manifests(root: Path, rounds: int) -> list[tuple[str, float, float | None]]:
    """(what, seconds, ratio to the baseline) for the loads."""
    files = sorted((root / CASES).rglob("*.case.yaml"))

    def baseline() -> None:
        for file in files:
            yaml.load(file.read_bytes(), yaml.CSafeLoader)

    def forget() -> None:
        shutil.rmtree(root / ".paritygate", ignore_errors=True)

    loaded = load(root)
    assert not loaded.problems, loaded.problems[:3]
    assert len(loaded.cases) == len(files)
    base = best_s(baseline, rounds)
    rows: list[tuple[str, float, float | None]] = [("yaml.CSafeLoader alone (baseline)", base, None)]
    for name, action in (("validate", load), ("validate + ci generate", load_and_generate)):
        cold = best_s(lambda action=action: action(root), rounds, before=forget)
        warm = best_s(lambda action=action: action(root), rounds)
        rows += [(f"{name}, first time", cold, cold / base), (f"{name}, nothing changed", warm, warm / base)]
    return rows


def starts(rounds: int) -> list[tuple[str, float, float | None]]:
    """(what, seconds, ratio) for whole processes on this repository."""
    command = str(Path(sys.executable).with_name("paritygate"))

    def run(*argv: str) -> None:
        subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True)

    base = best_s(lambda: run(sys.executable, "-c", "import yaml, jsonschema"), rounds)
    rows: list[tuple[str, float, float | None]] = [('python -c "import yaml, jsonschema" (baseline)', base, None)]
    for words in (("--help",), ("validate",), ("ci", "generate", "--check")):
        seconds = best_s(lambda words=words: run(command, *words), rounds)
        rows.append((f"paritygate {' '.join(words)}", seconds, seconds / base))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        write_project(root, arguments.count)
        rows = manifests(root, arguments.rounds)
    rows += starts(max(5, arguments.rounds))
    for name, seconds, ratio in rows:
        print(f"{name:<50} {seconds:8.3f} s  {'' if ratio is None else f'{ratio:.2f}x'}")


if __name__ == "__main__":
    main()
