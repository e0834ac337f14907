"""What a pipeline needs must be importable in the leg's own interpreter: real classes, and none that is a dummy.

The libraries here are stand-ins of a few lines, so that the questions are quick; the real ones are asked in
``tests/e2e/runners/test_preflight_real.py``.
"""

import json
import textwrap
from pathlib import Path

import pytest

from paritygate.runners import preflight_imports
from paritygate.runners.preflight_legs import Installed, Interpreter
from paritygate.runners.python import load_file

sound = load_file(Path(__file__).with_name("sound_case.py"))

DIFFUSERS = """
    import os
    __version__ = "9.9"
    with open(os.environ["ASKED"], "a") as stream:
        stream.write("asked ")
    print("a library that prints while it loads")
    class DummyObject(type):
        pass
    class StableDiffusionPipeline: ...
    class UNet2DConditionModel: ...
    class AutoencoderKL: ...
    class DDIMScheduler: ...
    class SDEScheduler(metaclass=DummyObject):
        _backends = ["torch", "note_seq"]
    def __getattr__(name):
        if name == "Broken":
            raise RuntimeError("Failed to import diffusers.x:\\nlibcudart.so.12: cannot open shared object file")
        raise AttributeError(f"module diffusers has no attribute {name}")
"""
DISPATCH = """
    import enum
    class AttentionBackendName(str, enum.Enum):
        NATIVE = "native"
        FLASH = "flash"
    def _check_attention_backend_requirements(backend):
        if backend is AttentionBackendName.FLASH:
            raise RuntimeError("flash is not usable; please install flash-attn>=2.6.3")
"""
LIBRARIES = {
    "diffusers/__init__.py": DIFFUSERS,
    "diffusers/models/__init__.py": "",
    "diffusers/models/attention_dispatch.py": DISPATCH,
    "diffusers/pipelines/__init__.py": "",
    "diffusers/utils.py": "",
    "transformers.py": "class CLIPTextModel: ...\nclass CLIPTokenizer: ...\n",
    "torch.py": """
    __version__ = "2.0"
    class version: cuda = hip = None
    class cuda:
        is_available = staticmethod(lambda: False)
    """,
}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Preflight of a ``diffusers`` leg that sees the stand-ins; returns problems, and how often it asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    case = sound.build(tmp_path / "project")
    for name, source in LIBRARIES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    environ = {"PATH": "/bin:/usr/bin", "PYTHONPATH": str(tmp_path / "site"), "ASKED": str(tmp_path / "asked")}

    def ask(*, on: str = "cpu", packages: str = "p", requires=(), **spec):
        spec = {"pipeline": "StableDiffusionPipeline", **spec}
        leg = sound.leg(runner="diffusers", requires=dict.fromkeys(requires, ">=0"), spec=spec)
        names = dict.fromkeys(("diffusers", "torch", "transformers"), "") | dict.fromkeys(requires, "needed")
        found = Interpreter(
            python="3", paritygate="", entry="", adapter="", packages=packages,
            distributions={name: Installed("1", "", "", False, module) for name, module in names.items()},
        )  # fmt: skip
        before = asked()
        found = preflight_imports.import_problems(
            case, leg, folder=case.root / "model", device=on, found=found, environ=environ
        )
        assert all(problem.fix and problem.leg == "candidate" for problem in found)
        return [(problem.code, problem.message) for problem in found], asked() - before

    def asked() -> int:
        return len((tmp_path / "asked").read_text().split()) if (tmp_path / "asked").exists() else 0

    ask.site = tmp_path / "site"
    ask.model = case.root / "model"
    ask.cache = tmp_path / "cache" / "paritygate" / "imports"
    return ask


def test_a_clean_answer_holds_until_a_package_or_the_question_changes(ask):
    assert ask() == ([], 1)
    assert ask() == ([], 0)
    assert ask(packages="others") == ([], 1)
    assert ask(attention_backend="native") == ([], 1)
    assert ask(attention_backend="native") == ([], 0)


def test_an_answer_that_others_could_have_written_does_not_count(ask):
    assert ask() == ([], 1)
    ask.cache.chmod(0o777)
    assert ask() == ([], 1)


def test_an_answer_with_problems_is_never_kept(ask):
    found = [ask(pipeline="Nope"), ask(pipeline="Nope")]
    assert [count for _, count in found] == [1, 1]


def test_a_dummy_that_stands_for_a_missing_dependency_is_a_failure(ask):
    ((code, message),), _ = ask(scheduler={"class": "SDEScheduler"})
    assert code == "dummy"
    assert message == (
        "scheduler.class: SDEScheduler of diffusers is a dummy that stands for a missing dependency: note_seq"
    )


def test_every_class_is_named_that_cannot_be_had(ask):
    edited = json.loads((ask.model / "model_index.json").read_text())
    edited["text_encoder"] = ["transformers", "T6EncoderModel"]
    edited["vae"] = ["no_such_library", "AutoencoderKL"]
    (ask.model / "model_index.json").write_text(json.dumps(edited))
    found, _ = ask(pipeline="Broken", cache={"class": "NoSuchConfig"})
    assert [code for code, _ in found] == ["import"] * 4
    words = [
        "pipeline: Broken cannot be imported from diffusers 9.9: libcudart.so.12: cannot open shared object file",
        "cache.class: NoSuchConfig cannot be imported from diffusers 9.9: module diffusers has no attribute",
        "model_index.json: text_encoder: T6EncoderModel cannot be imported from transformers",
        "model_index.json: vae: AutoencoderKL cannot be imported from no_such_library",
    ]
    assert all(word in message for word, (_, message) in zip(words, found, strict=True)), found


def test_what_is_required_must_be_importable_too(ask):
    (ask.site / "needed.py").write_text("")
    assert ask(requires=["flash-attn"])[0] == []
    (ask.site / "needed.py").write_text("import a_part_that_is_not_there")
    ((code, message),), _ = ask(requires=["flash-attn"], packages="another")
    assert code == "import"
    assert message == (
        "requires: flash-attn is installed, and needed cannot be imported: No module named 'a_part_that_is_not_there'"
    )


def test_code_that_ships_with_the_weights_is_not_looked_for_in_a_library(ask):
    edited = json.loads((ask.model / "model_index.json").read_text())
    edited["unet"] = ["my_unet", "MyUNet"]
    (ask.model / "model_index.json").write_text(json.dumps(edited))
    (ask.model / "unet" / "my_unet.py").write_text("class MyUNet: ...\n")
    assert ask()[0] == []


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("flash", "attention_backend: flash cannot run here: flash is not usable; please install flash-attn>=2.6.3"),
        ("flahs", "attention_backend: flahs is none of Diffusers' backends"),
    ],
)
def test_an_attention_backend_that_would_fall_back_is_named(ask, backend, words):
    # Field trap B05: no build of a kernel package for the new framework, and both sides quietly run another backend.
    ((code, message),), _ = ask(attention_backend=backend)
    assert code == "attention"
    assert words in message


@pytest.mark.parametrize("backend", ["native", "eager", "XFormersAttnProcessor"])
def test_a_backend_that_the_runner_can_observe_is_known(ask, backend):
    assert ask(attention_backend=backend)[0] == []


def test_a_torch_without_the_device_of_the_case_is_named(ask):
    ((code, message),), _ = ask(on="cuda")
    assert (code, message) == ("device", "torch 2.0 sees no card (it is built for neither CUDA nor ROCm)")
    assert ask(on="cuda", device="cpu")[0] == []


def test_an_import_that_ends_the_process_is_told_with_its_last_words(ask):
    (ask.site / "torch.py").write_text("import os, sys\nprint('bad CPU', file=sys.stderr, flush=True)\nos.abort()\n")
    ((code, message),), _ = ask()
    assert code == "import"
    assert "died while it imported what the leg needs: " in message
