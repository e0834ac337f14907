"""A project of many cases to measure on: manifests of about 60 lines, with this repository's hardware and lanes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

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


def write_project(root: Path, count: int, *, folder: Callable[[int], str]) -> None:
    """Write a project of ``count`` cases, each in ``folder(index)`` below its case folder."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "paritygate.yaml").write_text("schema_version: 1\n", encoding="utf-8")
    shutil.copytree(REPOSITORY / ".buildkite", root / ".buildkite")
    (root / ".buildkite" / "sources.yml").write_text(
        "schema_version: 1\nsources:\n  qwen_image: [tests/]\n", encoding="utf-8"
    )
    for index in range(count):
        place = root / CASES / folder(index)
        place.mkdir(parents=True, exist_ok=True)
        text = MANIFEST.format(index=index, steps=20 + index % 30, lane="weekly" if index % 5 == 0 else "nightly")
        (place / f"case-{index:05d}.case.yaml").write_text(text, encoding="utf-8")
    shutil.copy(REPOSITORY / CASES / "test_accuracy.py", root / CASES)
