"""Preflight names everything that is missing, and nothing that is not."""

import json
import shutil
import struct
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paritygate.errors import UsageError
from paritygate.manifest.case import Asset, Case, InputMedia, Measurement, Model, Output
from paritygate.media.images import encode_png
from paritygate.records.canonical import sha256_bytes
from paritygate.runners import drivers, weights
from paritygate.runners.python import load_file
from paritygate.runners.table import RUNNERS, find_runner

sound = load_file(Path(__file__).with_name("sound_case.py"))
leg, check, found = sound.leg, sound.check, sound.found


@pytest.fixture
def case(tmp_path, monkeypatch) -> Case:
    sound.ask_once(monkeypatch)
    return sound.build(tmp_path)


def test_a_sound_case_has_no_problem_and_knows_its_device(case):
    report = check(case)
    assert (report.problems, report.notes) == ((), ())
    assert (report.profile.sku, report.profile.platform) == ("CPU", "cpu")
    assert report.interpreters["reference"]["numpy"]
    assert report.interpreters["candidate"]["python"] == sys.version.split()[0]


def edit_json(path: Path, change) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


DAMAGE = [
    ("model_index.json is missing", lambda m: (m / "model_index.json").unlink(), "no model_index.json"),
    ("model_index.json is broken", lambda m: (m / "model_index.json").write_text("{"), "not readable JSON"),
    ("a component is missing", lambda m: shutil.rmtree(m / "vae"), "vae is missing (AutoencoderKL)"),
    ("a config is missing", lambda m: (m / "unet" / "config.json").unlink(), "config.json is missing"),
    ("weights are missing", lambda m: (m / "vae" / "diffusion_pytorch_model.safetensors").unlink(), "holds no weights"),
    ("a file is empty", lambda m: (m / "tokenizer" / "vocab.json").write_text(""), "vocab.json is empty"),
]


@pytest.mark.parametrize(("damage", "words"), [row[1:] for row in DAMAGE], ids=[row[0] for row in DAMAGE])
def test_a_damaged_snapshot_is_found_before_anything_loads(case, damage, words):
    damage(case.root / "model")
    problems = list(weights.folder_problems(case.root / "model", pipeline=True))
    assert any(words in message for message in problems), problems
    problems = found(case)
    assert any(code == "revision" and "tree digest" in message for code, message in problems)


def test_a_flipped_byte_is_found_by_the_tree_digest_alone(case):
    path = case.root / "model" / "unet" / "diffusion_pytorch_model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert [code for code, _ in found(case)] == ["revision"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-10], "its header says"),
        (lambda data: data + b"0", "its header says"),
        (lambda data: data[:5], "no safetensors file, or cut off"),
        (lambda data: struct.pack("<Q", 10) + b"not json!!" + data, "no readable safetensors header"),
        (lambda data: struct.pack("<Q", 1 << 60) + data, "no safetensors file, or cut off"),
    ],
)
def test_a_cut_off_or_overwritten_weight_file_is_named(case, change, words):
    path = case.root / "model" / "vae" / "diffusion_pytorch_model.safetensors"
    path.write_bytes(change(path.read_bytes()))
    assert any(
        words in message and "vae" in message for message in weights.folder_problems(path.parents[1], pipeline=True)
    )


def test_weights_that_cannot_be_read_are_a_problem_with_its_fix(case, monkeypatch):
    def locked(*_, **__):
        raise PermissionError(13, "Permission denied", "model_index.json")

    monkeypatch.setattr(weights, "folder_problems", locked)
    assert ("weights", "make model_index.json readable") in [
        (problem.code, problem.fix) for problem in check(case).problems
    ]


def test_every_shard_of_an_index_must_be_there(case):
    folder = case.root / "model" / "unet"
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}}
    (folder / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "diffusion_pytorch_model.safetensors").rename(folder / "one.safetensors")
    problems = list(weights.folder_problems(case.root / "model", pipeline=True))
    assert problems == [
        f"{folder / 'one.safetensors'} lacks a, which diffusion_pytorch_model.safetensors.index.json puts there",
        f"{folder / 'two.safetensors'} is missing (named by diffusion_pytorch_model.safetensors.index.json)",
    ]


def hub_case(case: Case, **changes) -> Case:
    model = Model(id="org/m", revision="a" * 40, weights="trained", **changes)
    return msgspec.structs.replace(case, model=model)


def test_weights_are_looked_for_in_the_variable_then_in_the_cache_by_their_exact_revision(case):
    case = hub_case(case, path_env="M_MODEL")
    snapshot = f"models--org--m/snapshots/{'a' * 40}"
    assert weights.model_folder(case, {"HF_HUB_CACHE": "/c"}) == Path("/c") / snapshot
    assert weights.model_folder(case, {"HF_HOME": "/h"}) == Path("/h/hub") / snapshot
    assert weights.model_folder(case, {"M_MODEL": "/m", "HF_HOME": "/h"}) == Path("/m")
    ((code, message),) = [entry for entry in found(case, environ={"HF_HOME": "/h", "PATH": ""}) if "weights" in entry]
    assert "a" * 40 in message
    (problem,) = [entry for entry in check(case, environ={"HF_HOME": "/h", "PATH": ""}).problems if entry.code == code]
    assert problem.fix == f"hf download org/m --revision {'a' * 40}, or set M_MODEL"


def test_another_revision_in_the_cache_is_named_and_not_taken(case):
    case = hub_case(case)
    other = case.root / "hub" / "models--org--m" / "snapshots" / ("b" * 40)
    shutil.copytree(case.root / "model", other)
    ((code, message),) = found(case, environ={"HF_HUB_CACHE": str(case.root / "hub"), "PATH": ""})
    assert code == "weights"
    assert message.endswith(f"; other revisions are there: {'b' * 40}")


def test_a_snapshot_of_another_revision_is_refused_and_an_unknown_one_is_noted(case):
    case = hub_case(case, path_env="M_MODEL")
    other = case.root / "snapshots" / ("b" * 40)
    shutil.copytree(case.root / "model", other)
    environ = {"M_MODEL": str(other), "PATH": ""}
    assert [code for code, _ in found(case, environ=environ)] == ["revision"]
    report = check(case, environ={"M_MODEL": str(case.root / "model"), "PATH": ""})
    assert (report.problems, report.weights_verified) == ((), False)
    assert "weights not verified: nothing in the folder" in report.notes[0]


def test_only_a_digest_that_was_computed_verifies_weights(case):
    assert check(case).weights_verified
    hub = hub_case(case, path_env="M_MODEL")
    snapshot = case.root / "snapshots" / ("a" * 40)
    shutil.copytree(case.root / "model", snapshot)
    report = check(hub, environ={"M_MODEL": str(snapshot), "PATH": ""})
    assert (report.problems, report.weights_verified) == ((), False)
    assert "weights not verified: only the name of the folder says" in report.notes[0]
    (case.root / "model" / "unet" / "stray").touch()
    assert not check(case).weights_verified


def test_inputs_must_exist_and_have_their_digest(case):
    picture = encode_png(np.zeros((2, 2, 3), np.uint8))
    (case.root / "a.png").write_bytes(picture)
    inputs = (
        InputMedia(role="image", path="a.png", sha256=sha256_bytes(picture)),
        InputMedia(role="mask", path="a.png", sha256=sha256_bytes(b"another")),
        InputMedia(role="mask", path="b.png", sha256=sha256_bytes(b"another")),
    )
    problems = found(msgspec.structs.replace(case, inputs=inputs))
    assert [code for code, _ in problems] == ["inputs", "inputs"]
    assert "the manifest says" in problems[0][1]
    assert "b.png cannot be read: No such file" in problems[1][1]


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"python": "no/such/python"}, "interpreter", "No such file or directory"),
        ({"python": "false"}, "interpreter", "exit code 1"),
        ({"adapter": "gone.py"}, "adapter", "gone.py does not exist"),
        ({"assets": (Asset(path="x.onnx", made_by="make graphs"),)}, "asset", "x.onnx does not exist"),
        ({"requires": {"numpy": ">=1,<2"}}, "version", "the leg requires >=1,<2"),
        ({"requires": {"no-such-dist": "==1"}}, "distribution", "no-such-dist is not installed"),
    ],
)
def test_what_a_leg_lacks_is_named_with_its_fix(case, changes, code, words):
    report = check(msgspec.structs.replace(case, candidate=leg(**changes)), environ={"PATH": "/bin:/usr/bin"})
    (problem,) = report.problems
    assert (problem.code, problem.leg) == (code, "candidate")
    assert words in problem.message
    assert problem.fix


def test_one_bad_interpreter_is_named_for_each_leg_that_has_it(case):
    bad = msgspec.structs.replace(
        case, reference=leg("reference", python="no/python"), candidate=leg(python="no/python")
    )
    assert [problem.leg for problem in check(bad).problems] == ["reference", "candidate"]


def test_a_local_build_of_the_required_version_counts(case, monkeypatch):
    monkeypatch.setattr("paritygate.runners.preflight.import_problems", lambda *_, **__: [])
    requires = {"torch": "==2.13.0", "diffusers": ">=0.36,<1"}
    assert found(msgspec.structs.replace(case, candidate=leg(requires=requires))) == []


def test_output_kinds_that_a_runner_cannot_store_are_refused_for_its_leg_alone(case, monkeypatch):
    monkeypatch.setattr("paritygate.runners.preflight.import_problems", lambda *_, **__: [])
    case = msgspec.structs.replace(case, output=Output(kind="tensors"), reference=leg("reference", runner="diffusers"))
    message = "the runner 'diffusers' cannot give tensors in this version, only images, video, audio, video_audio"
    assert found(case) == [("output", message)]
    adapters = {name: leg(name, runner="python", adapter="adapter.py") for name in ("reference", "candidate")}
    assert "output" not in [code for code, _ in found(msgspec.structs.replace(case, **adapters))]


def test_what_comparing_needs_is_missing_before_any_leg_runs(case, monkeypatch):
    absent = ("av", "flip_evaluator")
    monkeypatch.setattr("paritygate.runners.preflight_case.find_spec", lambda name: None if name in absent else name)
    measured = (Measurement(id="a", metric="flip_ldr", aggregate="max", pixels="stored", target=None),)
    flip = msgspec.structs.replace(case, measure=msgspec.structs.replace(case.measure, output=measured))
    assert ("extra", "comparing needs flip_evaluator, not installed here") in found(flip)
    adapters = {name: leg(name, runner="python", adapter="adapter.py") for name in ("reference", "candidate")}
    output = Output(kind="video", width=8, height=8, frames=2, fps=8, representation="encoded")
    clip = msgspec.structs.replace(case, output=output, **adapters)
    assert ("extra", "comparing needs av, not installed here") in found(clip)
    raw = msgspec.structs.replace(clip, output=msgspec.structs.replace(output, representation=None))
    assert "extra" not in [code for code, _ in found(raw)]


def fake_driver(tmp_path: Path, *names: str) -> dict[str, str]:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(
        "#!/bin/sh\n" + "".join(f"echo '{i}, GPU-{i}a{i}b-c, {name}, 9.0'\n" for i, name in enumerate(names))
    )
    tool.chmod(0o755)
    return {"PATH": f"{tool.parent}:/bin"}


@pytest.mark.parametrize(
    ("names", "sku", "cards", "profile"),
    [
        (["NVIDIA H100 80GB HBM3"], ("H100", "B200"), 1, ("H100", 1, "sm_90")),
        (["NVIDIA B200"] * 4, ("H100", "B200"), 2, ("B200", 2, "sm_90")),
        (["NVIDIA GB200"], ("B200",), 1, None),
        (["NVIDIA H100 PCIe"], ("H100",), 1, None),
        (["NVIDIA H100 80GB HBM3"], ("H100",), 2, None),
        ([], ("H100",), 1, None),
    ],
)
def test_cards_are_matched_by_their_exact_name_and_counted(case, tmp_path, names, sku, cards, profile):
    environ = fake_driver(tmp_path, *names) if names else {"PATH": ""}
    case = msgspec.structs.replace(case, ci=msgspec.structs.replace(case.ci, sku=sku, cards=cards))
    report = check(case, environ=environ)
    got = report.profile and (report.profile.sku, report.profile.cards, report.profile.arch)
    assert got == profile
    assert report.hardware_missing == (profile is None)
    if names and profile is None:
        assert names[0] in report.problems[0].message


def test_a_hidden_card_is_no_card(tmp_path):
    environ = fake_driver(tmp_path, "NVIDIA L4", "NVIDIA L4")
    assert len(drivers.cards(environ)) == 2
    assert drivers.cards({**environ, "CUDA_VISIBLE_DEVICES": ""}) == ()


@pytest.mark.parametrize(
    ("visible", "indexes"),
    [
        ("1", "1"),
        ("2,0", "20"),
        (" 1 , 2 ", "12"),
        ("GPU-2a,GPU-0a0b-c", "20"),
        ("-1", ""),
        ("0,-1,1", "0"),
        ("1,7,0", "1"),
        ("1,1", "1"),
        ("GPU-,1", ""),
        ("2,MIG-x", "2"),
        ("0,,1", "0"),
    ],
)
def test_the_named_cards_are_seen_in_order_up_to_the_first_that_is_none(tmp_path, visible, indexes):
    environ = fake_driver(tmp_path, "NVIDIA L4", "NVIDIA A10", "NVIDIA B200")
    found = drivers.cards({**environ, "CUDA_VISIBLE_DEVICES": visible})
    assert "".join(card.index for card in found) == indexes
    assert [card.name for card in found] == [("NVIDIA L4", "NVIDIA A10", "NVIDIA B200")[int(i)] for i in indexes]


def test_a_driver_that_fails_is_no_card(tmp_path):
    environ = fake_driver(tmp_path)
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert drivers.cards(environ) == ()


def test_the_reference_alone_needs_no_candidate_hardware(case):
    case = msgspec.structs.replace(case, ci=msgspec.structs.replace(case.ci, sku=("H100",), cards=1))
    assert found(case, legs=(case.reference,)) == []


def test_a_component_that_is_a_link_to_a_folder_is_part_of_what_a_report_rests_on(case, tmp_path):
    unet, elsewhere = case.root / "model" / "unet", tmp_path / "elsewhere"
    unet.rename(elsewhere)
    unet.symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(case.root / "model")
    before = sound.check(case).fingerprint
    assert before == sound.check(case).fingerprint
    (elsewhere / "config.json").write_text("{}")
    assert sound.check(case).fingerprint not in ("", before)


def test_the_tables_are_sorted():
    for table in (RUNNERS, drivers.SKUS):
        assert list(table) == sorted(table)
    with pytest.raises(UsageError, match="it can run: command, diffusers, golden, import, openai, python"):
        find_runner("another")


def test_a_server_whose_program_is_absent_is_named(case, tmp_path):
    program = tmp_path / "bin" / "my-server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    candidate = leg(runner="openai", spec={"server": ["my-server", "--port", "8000"]})
    served = msgspec.structs.replace(case, candidate=candidate)
    wanted = ("server", "the server's program 'my-server' is not on PATH")
    assert wanted in found(served)
    assert wanted not in found(served, environ={"PATH": str(program.parent)})
