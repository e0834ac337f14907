"""Files that legs read besides the weights, and settings that the manifest itself makes unequal."""

import datetime as dt
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paritygate.manifest.case import Difference, InputMedia
from paritygate.media.frozen import freeze
from paritygate.media.images import encode_png
from paritygate.media.safetensors import write_safetensors
from paritygate.media.tensor_data import Tensor
from paritygate.records.canonical import sha256_file
from paritygate.runners.python import load_file

sound = load_file(Path(__file__).with_name("sound_case.py"))


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setattr("paritygate.runners.preflight.import_problems", lambda *_, **__: [])
    sound.ask_once(monkeypatch)
    return sound.build(tmp_path)


def given(case, role: str, name: str, content: bytes):
    (case.root / name).write_bytes(content)
    media = InputMedia(role=role, path=name, sha256=sha256_file(case.root / name))
    return sound.found(msgspec.structs.replace(case, inputs=(media,)))


PNG = encode_png(np.zeros((4, 4, 3), np.uint8))


@pytest.mark.parametrize(
    ("role", "name", "content"),
    [
        ("image", "a.png", PNG[:-20]),
        ("first_frame", "a.mp4", b"not a picture"),
        ("mask", "a.png", b""),
        ("audio", "a.wav", PNG),
        ("source", "a.mp4", b"\0\0\0\x18ftypmp42" + bytes(100)),
        ("source", "a.jpg", b"\xff\xd8\xff"),
    ],
    ids=["a cut-off picture", "a text", "nothing", "a picture for sound", "a clip without frames", "a cut-off JPEG"],
)
def test_an_input_with_the_right_digest_must_decode_as_what_it_is_for(case, role, name, content):
    ((code, message),) = given(case, role, name, content)
    assert code == "inputs"
    assert message.startswith(f"the input {name} ({role}) cannot be decoded: ")


@pytest.mark.parametrize("role", ["image", "mask", "source", "last_frame"])
def test_a_picture_that_decodes_is_no_problem(case, role):
    assert given(case, role, "a.png", PNG) == []


def test_a_clip_is_decoded_to_its_end(case):
    imageio = pytest.importorskip("PIL.Image")
    frames = [imageio.fromarray(np.full((8, 8, 3), value, np.uint8)) for value in (0, 90, 180)]
    frames[0].save(case.root / "whole.gif", save_all=True, append_images=frames[1:], duration=100)
    whole = (case.root / "whole.gif").read_bytes()
    assert given(case, "source", "b.gif", whole) == []
    ((code, _),) = given(case, "source", "b.gif", whole[:-30])
    assert code == "inputs"


def test_a_lora_must_be_the_declared_file_and_whole(case):
    path = case.root / "lora.safetensors"
    write_safetensors(path, [Tensor(name="a", array=np.ones(4, np.float32), dtype="float32")])
    entry = {"path": "lora.safetensors", "sha256": sha256_file(path), "scale": 1.0}
    spec = {"pipeline": "P", "lora": [entry]}
    case = sound.with_candidate(case, runner="diffusers", spec=spec)
    assert sound.found(case) == []
    path.write_bytes(path.read_bytes()[:-1])
    ((code, message),) = sound.found(case)
    assert code == "lora"
    assert "the manifest says" in message
    entry["sha256"] = sha256_file(path)
    ((code, message),) = sound.found(case)
    assert code == "lora"
    assert "its header says" in message


@pytest.fixture
def imported(case):
    """A case whose candidate was made elsewhere."""
    folder = case.root / "made" / "outputs"
    (folder / "0000").mkdir(parents=True)
    (folder / "0000" / "0.png").write_bytes(PNG)
    provenance = {"made_by": "engine", "version": "1", "machine": "m", "made_on": str(dt.date.today()), "command": "c"}
    data = {
        "schema_version": 1,
        "provenance": provenance,
        "model": {"id": "org/m", "revision": case.model.revision},
        "files": msgspec.to_builtins(freeze(folder.parent)),
    }
    (folder.parent / "import.json").write_text(json.dumps(data))
    digest = sha256_file(folder.parent / "import.json")
    return sound.with_candidate(case, runner="import", spec={"folder": "made", "digest": digest})


def test_an_import_must_be_what_its_list_and_the_pin_say(imported):
    assert sound.found(imported) == []
    (imported.root / "made" / "outputs" / "0000" / "0.png").write_bytes(PNG + b"0")
    ((code, message),) = sound.found(imported)
    assert code == "import"
    assert message.startswith("the import made: ")
    assert "0.png" in message


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_text(path.read_text() + " "), "the manifest says sha256:"),
    ],
)
def test_an_import_needs_its_own_list(imported, damage, words):
    damage(imported.root / "made" / "import.json")
    ((code, message),) = sound.found(imported)
    assert code == "import"
    assert words in message


def test_legs_that_were_made_before_need_no_weights(imported):
    for path in (imported.root / "model").rglob("*.safetensors"):
        path.unlink()
    assert "weights" in {code for code, _ in sound.found(imported)}
    report = sound.check(imported, legs=(imported.candidate,))
    assert (report.problems, report.weights_verified) == ((), False)


def unequal(case, left, right, *declared: str):
    legs = {
        name: sound.leg(name, runner="diffusers", spec={"pipeline": "P", **spec})
        for name, spec in (("reference", left), ("candidate", right))
    }
    differences = tuple(Difference(field=field, reason="it is under test") for field in declared)
    report = sound.check(msgspec.structs.replace(case, differences=differences, **legs))
    return [(problem.code, problem.message) for problem in report.problems], report.notes


@pytest.mark.parametrize(
    ("left", "right", "field"),
    [
        ("float16", "bfloat16", "dtype"),
        ("float32", {"vae": "float16"}, "dtype.vae"),
        ({"unet": "float16", "vae": "float32"}, {"unet": "bfloat16", "vae": "float32"}, "dtype.unet"),
        ({"default": "float16"}, {"unet": "bfloat16"}, "dtype.unet"),
        ({"default": "float16"}, "float32", "dtype"),
    ],
)
def test_a_precision_that_differs_without_a_reason_is_named_before_anything_runs(case, left, right, field):
    # Field trap B24: one side was built in fp16, the other ran in bf16, and the validator let it pass.
    ((code, message),), _ = unequal(case, {"dtype": left}, {"dtype": right})
    assert code == "unequal"
    assert message.startswith(f"{field}: the reference loads ")
    assert unequal(case, {"dtype": left}, {"dtype": right}, "dtype")[0] == []
    assert unequal(case, {"dtype": left}, {"dtype": right}, field)[0] == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float32", "float32"),
        ("float32", None),
        ("float32", {"unet": "float32"}),
        ({"vae": "float16"}, {"unet": "float16"}),
    ],
)
def test_equal_or_unstated_precisions_are_no_problem(case, left, right):
    assert unequal(case, {"dtype": left}, {"dtype": right})[0] == []


def test_a_leg_that_asks_for_another_device_is_named(case):
    equal = {"device": "cpu"}
    assert unequal(case, equal, equal)[0] == []
    ((code, message),), _ = unequal(case, equal, {"device": "cuda:0"}, "device")
    assert (code, message) == ("device", "device: the leg asks for cuda:0, the case runs on cpu here")


def test_other_unequal_settings_are_noted_and_left_to_the_checklist(case):
    left, right = {"attention_backend": "native", "threads": 1}, {"attention_backend": "_flash_3", "threads": 1}
    problems, notes = unequal(case, left, right)
    assert problems == []
    assert notes == (
        "attention_backend is native in the reference and _flash_3 in the candidate, and no difference is declared",
    )
    assert unequal(case, left, right, "attention_backend")[1] == ()
