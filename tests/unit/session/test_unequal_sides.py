"""Sides that are not equal: one toy engine twice, one fault on the candidate, and the field at fault by name.

The engine draws noise, walks a schedule and decodes, in NumPy, and reports what it did. Its faults carry the numbers
of the table of field traps. Those that need the real objects of Diffusers (the attention backend that falls back, B05;
casts inside a component, B27; conditioning after preprocessing, B72; switches of the process, B47) are also shown on
real pipelines, in ``tests/e2e/runners``; missing weights and memory (B32, B33, B112) belong to preflight. Not shown on
a CPU: noise that depends on the number of multiprocessors (B37), batch-invariant kernels of one card (B69).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from paritygate.compare.compare import compare_legs
from paritygate.gates.judge import judge
from paritygate.manifest.case import Difference, Feature
from paritygate.records.codec import loads
from paritygate.records.model import Effective, Status
from paritygate.runners.devices import cpu_profile
from paritygate.runners.job import Job, Outputs
from paritygate.runners.writer import LegWriter

SHAPE = (4, 8, 8)


@dataclass(frozen=True)
class Engine:
    """What the engine does; the defaults are the reference."""

    seed_offset: int = 0
    noise_device: str = "cpu"
    sampler_noise: str = "none"
    reuse_generator: bool = False
    draw_batched: bool = False
    batch_size: int = 1
    ranks: int = 1
    steps: int = 4
    shifts: int = 1
    spacing: str = "leading"
    guidance: float = 3.0
    negative_prompt: str = ""
    attention_backend: str = "native"
    dtype: str = "float32"
    vae_encode_dtype: str = "float32"
    moe_kernel: str = "grouped"
    compiled: str = "eager"
    decode_scale: float = 1.0
    size: int = 24
    resize: str = "bicubic"
    truncated: bool = False
    flags_left_changed: str = ""
    cache_hits: int | None = None
    parallel: int = 1
    fallbacks: int = 0
    lora_scale: float = 1.0
    dead: bool = False


def timesteps(engine: Engine) -> tuple[list[float], list[float]]:
    """A flow schedule: sigmas, shifted as often as the engine does, and the timesteps of them."""
    first = 1.0 if engine.spacing == "trailing" else 0.9
    sigmas = np.linspace(first, 0.1, engine.steps)
    for _ in range(engine.shifts):
        sigmas = 3 * sigmas / (1 + 2 * sigmas)
    return [float(round(1000 * sigma, 3)) for sigma in sigmas], [float(sigma) for sigma in sigmas]


def noise(engine: Engine, items) -> list[np.ndarray]:
    """The initial latents of every item, as the engine draws them."""
    seeds = [int(item.request["seed"]) + engine.seed_offset for item in items]
    if engine.draw_batched:
        # As PyTorch draws a batch: one generator, and each channel of all items before the next.
        drawn = np.random.default_rng(seeds[0]).standard_normal((SHAPE[0], len(items), *SHAPE[1:]), np.float32)
        return list(drawn.swapaxes(0, 1))
    shared = np.random.default_rng(seeds[0])
    rngs = [shared if engine.reuse_generator else np.random.default_rng(seed) for seed in seeds]
    return [rng.standard_normal(SHAPE, np.float32) for rng in rngs]


def generate(engine: Engine, items, writer: LegWriter) -> None:
    steps, sigmas = timesteps(engine)
    writer.schedule(timesteps=steps, sigmas=sigmas)
    for item, latents in zip(items, noise(engine, items), strict=True):
        writer.initial_latents(item.id, latents)
        words = [item.request["prompt"], engine.negative_prompt]
        writer.token_ids(item.id, [[ord(letter) for letter in text[: 3 if engine.truncated else 99]] for text in words])
        rows = np.add.outer(np.linspace(0.1, 0.6, engine.size), np.linspace(0, 0.3, engine.size))
        grain = np.resize(latents, (engine.size, engine.size, 3)) * 0.02 * engine.guidance / 3 * engine.decode_scale
        pixels = np.clip(rows[..., None] + grain, 0, 1).astype(np.float32)
        writer.image(item.id, np.zeros_like(pixels) if engine.dead else pixels)
    settings = {
        "attention_backend": engine.attention_backend,
        "batch_size": engine.batch_size,
        "compile.mode": engine.compiled,
        "config.guidance_scale": engine.guidance,
        "config.num_inference_steps": engine.steps,
        "dtype.unet": engine.dtype,
        "dtype.vae.encode": engine.vae_encode_dtype,
        "dtype.vae.decode": "float32",
        "fallbacks": engine.fallbacks,
        "flags_changed": engine.flags_left_changed,
        "inputs.resize": engine.resize,
        "lora.scale": engine.lora_scale,
        "moe_kernel": engine.moe_kernel,
        "noise.device": engine.noise_device,
        "noise.ranks_equal": engine.ranks == 1,
        "parallel": engine.parallel,
        "sampler_noise.device": engine.sampler_noise,
    }
    for name, value in settings.items():
        writer.setting(name, value)
    if engine.cache_hits is not None:
        writer.feature("cache", hits=engine.cache_hits)


@pytest.fixture
def judged(parts, tmp_path):
    """Compare two engines as a run does: the comparison and the verdict of CI."""

    def call(reference: Engine, candidate: Engine, /, **changes):
        exact = ("token_ids", "timesteps", "sigmas", "initial_latents", "config")
        case = parts.build_case(tmp_path, **changes)
        case = msgspec.structs.replace(case, measure=msgspec.structs.replace(case.measure, exact=exact))
        items = parts.build_items(3)
        legs = []
        for name, engine in (("reference", reference), ("candidate", candidate)):
            folder = tmp_path / "run" / name
            folder.mkdir(parents=True)
            writer = LegWriter(
                Job(case="demo", leg=name, runner="python", root="", folder="", directory=str(folder), adapter=None,
                    spec={}, feature=None, model_id="m", model_revision="0" * 40, model_dir=None, output=case.output,
                    inputs=(), items=items, latents=None, device="cpu")
            )  # fmt: skip
            generate(engine, items, writer)
            writer.finish(complete=True)
            outputs = loads((folder / "outputs.json").read_bytes(), Outputs, source="outputs.json")
            effective = loads((folder / "effective.json").read_bytes(), Effective, source="effective.json")
            record = parts.write_leg(tmp_path / "run", name, {})
            legs.append(msgspec.structs.replace(record, items=outputs.items, effective=effective))
        comparison = compare_legs(case, items, reference=legs[0], candidate=legs[1], run_dir=tmp_path / "run")
        verdict = judge(
            comparison, case, legs=tuple(legs), contract="sha256:0", profile=cpu_profile(), gate=None, evidence=(),
            weights_verified=True, in_ci=True, purpose="run",
        )  # fmt: skip
        return comparison, verdict

    return call


def named(comparison) -> set[str]:
    """Every field that the exact layer or the checklist shows as different."""
    fields = {entry.name for entry in comparison.exact if entry.status == "different" and entry.name != "config"}
    return fields | {row.field for row in comparison.checklist if row.verdict == "undeclared"}


def test_equal_sides_name_nothing(judged):
    comparison, verdict = judged(Engine(), Engine())
    assert named(comparison) == set()
    assert verdict.status is Status.UNVALIDATED


@pytest.mark.parametrize(
    ("trap", "change", "fields"),
    [
        ("B21", {"attention_backend": "flash"}, {"attention_backend"}),
        ("B22", {"moe_kernel": "looped"}, {"moe_kernel"}),
        ("B24", {"dtype": "float16"}, {"dtype.unet"}),
        ("B25", {"seed_offset": 1}, {"initial_latents"}),
        ("B26", {"dtype": "bfloat16"}, {"dtype.unet"}),
        ("B37", {"noise_device": "cuda"}, {"noise.device"}),
        ("B38", {"reuse_generator": True}, {"initial_latents"}),
        ("B39", {"draw_batched": True, "batch_size": 3}, {"initial_latents", "batch_size"}),
        ("B41", {"batch_size": 2}, {"batch_size"}),
        ("B42", {"ranks": 2}, {"noise.ranks_equal"}),
        ("B44", {"shifts": 2}, {"timesteps", "sigmas"}),
        ("B46", {"steps": 5}, {"timesteps", "sigmas", "config.num_inference_steps"}),
        ("B46", {"guidance": 1.0}, {"config.guidance_scale"}),
        ("B47", {"flags_left_changed": "flash_sdp"}, {"flags_changed"}),
        ("B48", {"parallel": 2}, {"parallel"}),
        ("B50", {"noise_device": "cuda", "sampler_noise": "cpu", "dtype": "float16"},
         {"noise.device", "sampler_noise.device", "dtype.unet"}),
        ("B55", {"compiled": "default"}, {"compile.mode"}),
        ("LoRA", {"lora_scale": 0.8}, {"lora.scale"}),
        ("B63", {"vae_encode_dtype": "bfloat16"}, {"dtype.vae.encode"}),
        ("B65", {"attention_backend": "eager"}, {"attention_backend"}),
        ("B71", {"truncated": True}, {"token_ids"}),
        ("B71", {"negative_prompt": "blurry"}, {"token_ids"}),
        ("B72", {"resize": "bilinear"}, {"inputs.resize"}),
        ("B81", {"fallbacks": 1}, {"fallbacks"}),
        ("spacing", {"spacing": "trailing"}, {"timesteps", "sigmas"}),
    ],
)  # fmt: skip
def test_the_field_at_fault_is_named_and_the_run_is_red(judged, trap, change, fields):
    comparison, verdict = judged(Engine(), replace(Engine(), **change))
    assert named(comparison) == fields, trap
    assert (verdict.status, verdict.failure_class) == (Status.FAILED, "accuracy")
    said = " ".join(reason.message for reason in verdict.reasons)
    assert all(field.rpartition(".")[2] in said for field in fields)


def test_different_noise_says_that_no_pixel_measure_counts(judged):
    _, verdict = judged(Engine(), Engine(seed_offset=1))
    (reason,) = (reason for reason in verdict.reasons if reason.code == "exact-different")
    assert "different noise, so no measure of their pixels says anything" in reason.message


def test_a_declared_difference_is_no_failure_and_one_that_is_none_is_told(judged):
    declared = (
        Difference(field="attention_backend", reason="the production default"),
        Difference(field="compile", reason="compiled in production"),
    )
    comparison, verdict = judged(Engine(), Engine(attention_backend="flash"), differences=declared)
    assert named(comparison) == set()
    assert verdict.status is Status.UNVALIDATED
    assert "declared as differences and in fact equal: compile" in verdict.scope


@pytest.mark.parametrize(
    ("trap", "change", "code"),
    [
        ("B24 all black", {"dead": True}, "degenerate"),
        ("B70 other bucket", {"size": 32}, "size"),
    ],
)
def test_outputs_of_another_kind_are_invalid_before_any_number(judged, trap, change, code):
    comparison, verdict = judged(Engine(), replace(Engine(), **change))
    assert verdict.status is Status.INVALID, trap
    assert verdict.failure_class == "structure"
    assert any(code in finding.code for finding in comparison.invalid), comparison.invalid
    assert not comparison.measurements


@pytest.mark.parametrize(
    ("trap", "hits", "status"), [("B59", 0, Status.INVALID), ("B60", None, Status.INVALID), ("", 3, Status.UNVALIDATED)]
)
def test_a_cache_that_never_hits_did_not_run(judged, parts, trap, hits, status):
    feature = Feature(name="cache", baseline="no cache", enabled_by="options.cache", exercised_by="hits")
    _, verdict = judged(
        Engine(),
        Engine(cache_hits=hits),
        claim="acceleration",
        candidate=parts.build_leg("candidate", feature=feature),
    )
    assert verdict.status is status, trap
