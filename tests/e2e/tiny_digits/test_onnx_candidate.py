"""The pure parts of the ONNX candidate: its schedule against Diffusers, one step by hand, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from paritygate.errors import LegError
from paritygate.runners.python import load_file

FOLDER = Path(__file__).resolve().parents[2] / "e2e" / "accuracy" / "tiny_digits"
SCHEDULER: dict[str, Any] = json.loads((FOLDER / "model" / "scheduler" / "scheduler_config.json").read_text())


@pytest.fixture(scope="module")
def adapter() -> ModuleType:
    return load_file(FOLDER / "onnx_candidate.py")


@pytest.mark.parametrize(("steps", "changes"), [(20, {}), (7, {"steps_offset": 0}), (50, {"set_alpha_to_one": True})])
def test_the_schedule_is_that_of_diffusers(adapter: ModuleType, steps: int, changes: dict[str, Any]) -> None:
    from diffusers import DDIMScheduler  # noqa: PLC0415 - a heavy import

    config = SCHEDULER | changes
    scheduler = DDIMScheduler.from_config(config)
    scheduler.set_timesteps(steps)
    alphas = scheduler.alphas_cumprod.numpy()
    plan = adapter.plan(config, steps)
    assert [step.timestep for step in plan] == scheduler.timesteps.tolist()
    np.testing.assert_allclose([step.alpha for step in plan], alphas[scheduler.timesteps.numpy()], rtol=1e-6)
    last = 1.0 if config["set_alpha_to_one"] else alphas[0]
    before = [step.timestep - 1000 // steps for step in plan]
    expected = [alphas[time] if time >= 0 else last for time in before]
    np.testing.assert_allclose([step.next_alpha for step in plan], expected, rtol=1e-6)


def test_a_step_with_the_true_velocity_lands_on_the_line_from_noise_to_picture(adapter: ModuleType) -> None:
    random = np.random.default_rng(0)
    picture, noise = random.standard_normal((2, 1, 4, 8, 8)).astype(np.float32)
    step = adapter.Step(500, 0.3, 0.6)
    latents = 0.3**0.5 * picture + 0.7**0.5 * noise
    velocity = 0.3**0.5 * noise - 0.7**0.5 * picture
    after = adapter.denoise(latents, velocity, step)
    assert after.dtype == np.float32
    np.testing.assert_allclose(after, 0.6**0.5 * picture + 0.4**0.5 * noise, atol=1e-6)


@pytest.mark.parametrize(
    ("what", "settings", "named"),
    [
        ("scheduler", {"timestep_spacing": "trailing"}, "timestep_spacing: 'trailing' (only 'leading')"),
        ("scheduler", {"prediction_type": "epsilon"}, "prediction_type: 'epsilon' (only 'v_prediction')"),
        ("scheduler", {"_class_name": "EulerDiscreteScheduler"}, "_class_name: 'EulerDiscreteScheduler'"),
        ("scheduler", {"a_new_key": 1}, "a_new_key (unknown)"),
        ("vae", {"shift_factor": 0.1}, "shift_factor: 0.1 (only None)"),
        ("request", {"eta": 0.5}, "eta: 0.5 (only 0)"),
        ("request", {"clip_skip": 1}, "clip_skip (unknown)"),
        ("options", {"unett": "unet.onnx"}, "unett (unknown)"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    adapter: ModuleType, what: str, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(LegError) as caught:
        adapter.refuse(what, (SCHEDULER if what == "scheduler" else {}) | settings)
    assert named in caught.value.message


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"guidance_scale": 1.0}, "guidance_scale 1"), ({"width": 64}, "pictures of 64x32, only 32x32")],
)
def test_a_request_that_the_graphs_cannot_answer_is_refused(
    adapter: ModuleType, changes: dict[str, Any], named: str
) -> None:
    request = {"guidance_scale": 3.0, "width": 32, "height": 32} | changes
    with pytest.raises(LegError) as caught:
        adapter.checked(request, 32)
    assert named in caught.value.message


def graphs_folder(folder: Path, *, model: str) -> Path:
    from paritygate.records.canonical import sha256_bytes  # noqa: PLC0415

    folder.mkdir()
    (folder / "unet.onnx").write_bytes(b"graph")
    listed = {"model": model, "graphs": {"unet.onnx": sha256_bytes(b"graph")}}
    (folder / "graphs.json").write_text(json.dumps(listed))
    return folder


def test_graphs_of_other_weights_are_refused_with_the_command_that_builds_them(
    adapter: ModuleType, tmp_path: Path
) -> None:
    folder = graphs_folder(tmp_path / "graphs", model=f"sha256:{'0' * 64}")
    with pytest.raises(
        LegError, match=r"come from the weights sha256:0+.*run: python tests/.*export_onnx\.py"
    ) as caught:
        adapter.Graphs(folder, model=FOLDER / "model", threads=1)
    assert caught.value.kind == "weights"


def test_missing_graphs_are_refused_with_the_command_that_builds_them(adapter: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(LegError, match=r"holds no graphs; run: python .*export_onnx\.py"):
        adapter.Graphs(tmp_path, model=FOLDER / "model", threads=1)


def test_a_graph_changed_after_its_export_is_refused(adapter: ModuleType, tmp_path: Path) -> None:
    from paritygate.media.digests import tree_digest  # noqa: PLC0415

    folder = graphs_folder(tmp_path / "graphs", model=tree_digest(FOLDER / "model"))
    graphs = adapter.Graphs(folder, model=FOLDER / "model", threads=1)
    assert graphs.read("unet.onnx")[0] == b"graph"
    (folder / "unet.onnx").write_bytes(b"other")
    with pytest.raises(LegError, match=r"unet\.onnx is not the one that graphs\.json lists"):
        graphs.read("unet.onnx")
