"""Preflight asks the real libraries, in a real interpreter; on a machine without cards all of this can be shown."""

import json
from pathlib import Path

import pytest

from paritygate.runners import preflight_imports
from paritygate.runners.preflight_legs import Installed, Interpreter
from paritygate.runners.python import load_file

HERE = Interpreter(
    python="3", paritygate="", entry="", adapter="", packages="p",
    distributions={name: Installed("1", "", "", False, name) for name in ("diffusers", "torch", "transformers")},
)  # fmt: skip
sound = load_file(Path(__file__).parents[2] / "unit" / "runners" / "sound_case.py")


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    case = sound.build(tmp_path / "project")

    def ask(*, on: str = "cpu", **spec) -> list[tuple[str, str]]:
        leg = sound.leg(runner="diffusers", spec={"pipeline": "StableDiffusionPipeline", **spec})
        found = preflight_imports.import_problems(
            case,
            leg,
            folder=case.root / "model",
            device=on,
            found=HERE,
            environ={"PATH": "/bin:/usr/bin", "CUDA_VISIBLE_DEVICES": ""},
        )
        return [(problem.code, problem.message) for problem in found]

    ask.index = case.root / "model" / "model_index.json"
    return ask


def test_the_shipped_pipeline_can_be_imported(ask):
    assert ask(attention_backend="native") == []


def test_a_dummy_and_every_missing_class_are_named(ask):
    edited = json.loads(ask.index.read_text())
    edited["text_encoder"] = ["transformers", "NoSuchEncoder"]
    edited["safety_checker"] = ["stable_diffusion", "StableDiffusionSafetyChecker"]
    ask.index.write_text(json.dumps(edited))
    found = ask(scheduler={"class": "DPMSolverSDEScheduler"}, cache={"class": "FirstBlockCacheConfig"})
    assert [code for code, _ in found] == ["dummy", "import"]
    assert "DPMSolverSDEScheduler of diffusers is a dummy" in found[0][1]
    assert "torchsde" in found[0][1]
    assert "NoSuchEncoder cannot be imported from transformers" in found[1][1]


def test_a_backend_without_its_package_and_a_torch_without_cards_are_named(ask):
    backend, device = ask(attention_backend="_flash_3", on="cuda")
    assert backend[0] == "attention"
    assert "_flash_3 cannot run here" in backend[1]
    assert device[0] == "device"
    assert "sees no card" in device[1]
