"""What happened inside a leg is seen, whatever the leg asked for: casts, switches, weights and libraries."""

import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from paritygate.compare.checklist import checklist
from paritygate.errors import LegError

from .conftest import DIGITS


@pytest.fixture
def prepared(tmp_path):
    """Writes an adapter that prepares the pipeline."""

    def write(body: str) -> str:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (tmp_path / "oddity.py").write_text(f"import torch\n\n\ndef prepare(pipeline, job):\n{lines}")
        return str(tmp_path / "oddity.py")

    return write


@pytest.fixture
def digits_with(tmp_path):
    """A copy of the digits' weights with changes to the tensors of one component."""

    def change(component: str, change) -> Path:
        folder = tmp_path / "changed"
        shutil.copytree(DIGITS, folder)
        path = next((folder / component).glob("*.safetensors"))
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path, metadata={"format": "pt"})
        return folder

    return change


CAST = """
forward = pipeline.unet.forward
def cast(*args, **kwargs):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = forward(*args, **kwargs)
    return type(output)(output.sample.float()) if hasattr(output, "sample") else (output[0].float(),)
pipeline.unet.forward = cast
"""


def test_a_cast_inside_a_component_shows_although_its_weights_and_its_outputs_do_not(run, picture_job, prepared):
    ran = run(picture_job(adapter=prepared(CAST)))
    assert ran.settings["dtype.unet"] == "float32"
    assert ran.settings["casts.unet"] == "bfloat16"
    assert ran.settings["casts.text_encoder"] == "none"
    rows = checklist(run(picture_job()).effective, ran.effective, ())
    assert {row.field for row in rows if row.verdict == "undeclared"} == {"casts.unet"}


def test_hooks_stay_out_of_parts_that_are_compiled_in_either_way():
    import torch  # noqa: PLC0415 - a heavy import

    from paritygate.runners.observe import is_compiled  # noqa: PLC0415 - loads PyTorch

    block = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert not is_compiled(block)
    assert is_compiled(torch.nn.Sequential(torch.compile(torch.nn.Linear(2, 2), backend="eager")))
    block[0].compile(backend="eager")
    assert is_compiled(block)


def test_inputs_and_outputs_of_a_component_show_apart_where_they_differ(run, picture_job, prepared):
    body = "pipeline.vae.decoder.register_forward_hook(lambda module, args, output: output.double(), prepend=True)"
    ran = run(picture_job(adapter=prepared(body)))
    assert ran.settings["dtype.vae"] == "float32, float64"
    assert ran.settings["dtype.vae.in"] == "float32"
    assert ran.settings["dtype.vae.out"] == "float64"


SLOWER = """
from diffusers.models.attention_processor import AttnProcessor
calls = []
def fall_back(*rest):
    calls.append(rest)
    if len(calls) == 2:
        pipeline.unet.set_attn_processor(AttnProcessor())
pipeline.vae.decoder.register_forward_hook(fall_back)
"""


def test_an_attention_backend_that_changes_between_the_items_is_named(run, picture_job, prepared):
    ran = run(picture_job(items=3, adapter=prepared(SLOWER)))
    assert ran.settings["attention_backend"] == "native, then eager"


def test_a_switch_that_a_stage_flips_and_leaves_is_named(run, picture_job, prepared):
    body = (
        "torch.set_float32_matmul_precision('highest')\n"
        "flip = lambda *rest: torch.set_float32_matmul_precision('medium')\n"
        "pipeline.text_encoder.register_forward_hook(flip)"
    )
    try:
        ran = run(picture_job(adapter=prepared(body)))
    finally:
        import torch  # noqa: PLC0415 - a heavy import

        torch.set_float32_matmul_precision("highest")
    assert ran.settings["flags.float32_matmul_precision"] == "highest"
    assert ran.settings["flags_changed"] == "float32_matmul_precision: highest -> medium"


def test_a_switch_that_is_read_in_parts_is_said_to_be(monkeypatch):
    from paritygate.runners import observe_environment  # noqa: PLC0415 - loads PyTorch

    def mixed():
        raise RuntimeError("you have used mix of the legacy and new APIs")

    monkeypatch.setattr(observe_environment, "_FLAGS", {"float32_matmul_precision": mixed})
    assert observe_environment.numeric_flags("cpu")["float32_matmul_precision"] == "set apart"


def test_the_switches_of_cards_are_told_of_on_cards():
    from paritygate.runners.observe_environment import numeric_flags  # noqa: PLC0415 - loads PyTorch

    only = numeric_flags("cuda").keys() - numeric_flags("cpu").keys()
    assert {"cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "sdp_flash", "sdp_math"} <= only


EMBEDDING = "text_model.embeddings.token_embedding.weight"
PROJECTION = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q.weight"


@pytest.mark.parametrize(
    ("component", "change", "words"),
    [
        ("unet", lambda tensors: tensors.pop(PROJECTION), f"weights of unet: {PROJECTION} is not in the files"),
        ("text_encoder", lambda tensors: tensors.pop(EMBEDDING), "weights of text_encoder: .*not in the files"),
        ("text_encoder", lambda tensors: tensors[EMBEDDING].fill(0), "token_embedding.weight is an embedding of zeros"),
        ("unet", lambda tensors: tensors["conv_in.bias"].fill(float("nan")), "unet: conv_in.bias is not finite"),
    ],
)
def test_weights_that_cannot_be_right_are_refused_before_anything_runs(
    run, picture_job, digits_with, component, change, words
):
    with pytest.raises(LegError, match=words) as caught:
        run(picture_job(model=digits_with(component, change)))
    assert caught.value.kind == "weights"


def test_weights_that_may_be_wrong_are_listed(run, picture_job, digits_with):
    import numpy as np  # noqa: PLC0415 - a heavy import

    def change(tensors):
        tensors[PROJECTION].fill(0)
        tensors["conv_out.weight"].fill(0.5)
        tensors["stray.weight"] = np.ones(3, np.float32)

    facts = run(picture_job(model=digits_with("unet", change))).effective.environment["weights"]["unet"]
    assert facts["zero"] == {"count": 1, "names": [PROJECTION]}
    assert facts["constant"] == {"count": 1, "names": ["conv_out.weight"]}
    assert facts["unexpected"] == {"count": 1, "names": ["stray.weight"]}
    assert facts["tensors"] > 100


def test_a_text_encoder_that_is_deaf_to_its_prompt_is_found_out(run, picture_job, prepared):
    body = (
        "def deaf(module, args, output):\n"
        "    output.last_hidden_state = torch.ones_like(output.last_hidden_state)\n"
        "    return output\n"
        "pipeline.text_encoder.register_forward_hook(deaf)"
    )
    with pytest.raises(LegError, match="text_encoder gives the same output for two different prompts") as caught:
        run(picture_job(adapter=prepared(body)))
    assert caught.value.kind == "weights"


def test_loading_is_left_as_it_was(run, picture_job):
    import diffusers  # noqa: PLC0415 - a heavy import
    import transformers  # noqa: PLC0415 - a heavy import

    before = [vars(kind)["from_pretrained"] for kind in (diffusers.ModelMixin, transformers.PreTrainedModel)]
    weights = run(picture_job()).effective.environment["weights"]
    assert [vars(kind)["from_pretrained"] for kind in (diffusers.ModelMixin, transformers.PreTrainedModel)] == before
    assert weights.keys() == {"text_encoder", "unet", "vae"}
    assert all(facts.keys() == {"tensors"} for facts in weights.values())


def test_libraries_tell_version_place_and_revision_and_no_machine(run, picture_job, tmp_path, monkeypatch):
    from paritygate.runners.observe_environment import libraries  # noqa: PLC0415 - loads PyTorch

    found = run(picture_job()).effective.environment["libraries"]
    assert {"diffusers", "torch", "transformers"} <= found.keys()
    assert all(facts["version"] and facts["path"].startswith("site-packages/") for facts in found.values())

    checkout = tmp_path / "checkout" / "src" / "peft"
    checkout.mkdir(parents=True)
    (checkout / "__init__.py").write_text("")
    git = ("git", "-C", str(tmp_path / "checkout"), "-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "begin")):
        subprocess.run([*git, *words], check=True)
    module = types.ModuleType("peft")
    module.__file__, module.__version__ = str(checkout / "__init__.py"), "1.2"
    monkeypatch.setitem(sys.modules, "peft", module)
    clean = libraries(tmp_path)["peft"]
    assert clean.keys() == {"version", "path", "revision", "dirty"}
    assert (clean["path"], len(clean["revision"]), clean["dirty"]) == ("checkout/src/peft", 40, False)
    (checkout / "__init__.py").write_text("changed = True\n")
    away = libraries(tmp_path / "elsewhere")["peft"]
    assert (away["path"], away["dirty"]) == (".../src/peft", True)


def test_an_adapter_without_its_function_is_refused(run, picture_job, tmp_path):
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(LegError, match="defines no function 'prepare'"):
        run(picture_job(adapter=str(tmp_path / "empty.py")))
