"""A model folder that is not whole is found from names, headers and lengths; nothing is loaded or unpickled."""

import json
import os
import pickle
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paritygate.media.safetensors import write_safetensors
from paritygate.media.tensor_data import Tensor
from paritygate.records.canonical import sha256_file
from paritygate.runners import weights
from paritygate.runners.python import load_file

sound = load_file(Path(__file__).with_name("sound_case.py"))
INDEX = "diffusion_pytorch_model.safetensors.index.json"


@pytest.fixture
def model(tmp_path) -> Path:
    """A pipeline of a tokenizer, a scheduler and one denoiser in two shards."""
    folder = tmp_path / "model"
    parts = {
        "scheduler": ["diffusers", "DDIMScheduler"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
    }
    for name in parts:
        (folder / name).mkdir(parents=True)
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "P", "absent": [None, None], **parts}))
    (folder / "scheduler" / "scheduler_config.json").write_text("{}")
    (folder / "tokenizer" / "vocab.json").write_text("{}")
    (folder / "tokenizer" / "merges.txt").write_text("#version")
    (folder / "unet" / "config.json").write_text('{"_class_name": "UNet2DConditionModel"}')
    shard(folder / "unet" / "one.safetensors", "a", "b")
    shard(folder / "unet" / "two.safetensors", "c")
    index(folder, a="one", b="one", c="two")
    return folder


def shard(path: Path, *names: str) -> None:
    write_safetensors(path, [Tensor(name=name, array=np.ones((2, 2), np.float32), dtype="float32") for name in names])


def index(folder: Path, **places: str) -> None:
    data = {"weight_map": {name: f"{shard}.safetensors" for name, shard in places.items()}}
    (folder / "unet" / INDEX).write_text(json.dumps(data))


def problems(model: Path) -> list[str]:
    """What is wrong, with names relative to the model."""
    return [text.replace(f"{model}/", "") for text in weights.folder_problems(model, pipeline=True)]


def test_a_whole_sharded_pipeline_has_no_problem(model):
    assert problems(model) == []
    assert weights.components(model)["unet"] == ("diffusers", "UNet2DConditionModel")


def test_a_shard_that_the_index_names_and_the_cache_lacks_is_named_before_any_server_starts(model):
    # Field trap B33: "server did not start in 20 minutes".
    (model / "unet" / "two.safetensors").unlink()
    assert problems(model) == [f"unet/two.safetensors is missing (named by {INDEX})"]


def test_an_index_of_a_format_that_nobody_fetched_counts_only_when_it_is_the_only_one(model):
    unused = model / "unet" / "diffusion_pytorch_model.bin.index.json"
    unused.write_text(json.dumps({"weight_map": {"a": "x-00001.bin", "b": "x-00002.bin"}}))
    assert problems(model) == []
    variant = model / "unet" / INDEX.replace("model.", "model.fp16.")
    variant.write_text(json.dumps({"weight_map": {"a": "x.fp16-00001.safetensors"}}))
    assert problems(model) == []
    variant.unlink()
    (model / "unet" / INDEX).unlink()
    for path in (model / "unet").glob("*.safetensors"):
        path.unlink()
    assert problems(model) == [f"unet/x-0000{i}.bin is missing (named by {unused.name})" for i in (1, 2)]


def test_a_tensor_that_is_not_in_its_shard_is_named(model):
    index(model, a="one", b="two", c="two", d="two")
    assert problems(model) == [f"unet/two.safetensors lacks b, d, which {INDEX} puts there"]
    index(model, **{f"t{i}": "two" for i in range(5)})
    assert problems(model) == [f"unet/two.safetensors lacks t0, t1, t2 and 2 more tensors, which {INDEX} puts there"]


def test_an_index_may_not_name_files_elsewhere(model):
    index(model, a="../../secret")
    assert problems(model) == [f"unet/{INDEX} names a shard outside its folder: '../../secret.safetensors'"]


@pytest.mark.parametrize("text", ["{}", '{"weight_map": {}}', '{"weight_map": []}', "[]"])
def test_an_index_without_shards_is_no_index(model, text):
    (model / "unet" / INDEX).write_text(text)
    assert problems(model) == [f"unet/{INDEX} is not a readable index of shards"]


def damage_link(model: Path) -> None:
    blobs = model / "blobs"
    blobs.mkdir()
    path = model / "unet" / "two.safetensors"
    path.unlink()
    path.symlink_to("../blobs/abc")


def damage_download(model: Path) -> None:
    damage_link(model)
    (model / "blobs" / "abc.1234.incomplete").write_text("half")


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n"
DAMAGE = [
    ("unet/two.safetensors links to abc, which is not there", damage_link),
    ("unet/two.safetensors links to abc, which is not there, its download was cut off", damage_download),
    (
        "unet/two.safetensors is a pointer of git-lfs, not the file itself",
        lambda model: (model / "unet" / "two.safetensors").write_text(LFS),
    ),
    ("unet/two.safetensors is empty", lambda model: (model / "unet" / "two.safetensors").write_text("")),
    (
        "unet/x.safetensors.incomplete is a download that was cut off",
        lambda model: (model / "unet" / "x.safetensors.incomplete").write_text("h"),
    ),
    ("unet/config.json is missing", lambda model: (model / "unet" / "config.json").unlink()),
    ("unet/config.json is no JSON object", lambda model: (model / "unet" / "config.json").write_text("[1]")),
    ("unet/config.json is not readable JSON", lambda model: (model / "unet" / "config.json").write_text("{")),
    (
        "unet/config.json names no class (_class_name)",
        lambda model: (model / "unet" / "config.json").write_text('{"sample_size": 8}'),
    ),
    ("scheduler/scheduler_config.json is missing", lambda model: (model / "scheduler" / "x").write_text("y")),
    (
        "tokenizer holds no tokenizer: neither tokenizer.json nor a vocabulary (CLIPTokenizer)",
        lambda model: (model / "tokenizer" / "merges.txt").unlink(),
    ),
    ("tokenizer/vocab.json is not readable JSON", lambda model: (model / "tokenizer" / "vocab.json").write_text("{'")),
    (
        "model_index.json is a pointer of git-lfs, not the file itself",
        lambda m: (m / "model_index.json").write_text(LFS),
    ),
]


def test_an_empty_header_a_folder_and_a_negative_size_are_no_weights(model):
    bad = {"one": b"{}", "two": b'{"c": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}'}
    for name, header in bad.items():
        body = bytes(4 if name == "two" else 0)
        (model / "unet" / f"{name}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + body)
    (model / "unet" / "three.safetensors").mkdir()
    (model / "scheduler" / "scheduler_config.json").write_text("[]")
    assert problems(model) == [
        "scheduler/scheduler_config.json is no JSON object",
        "unet/one.safetensors holds no tensors",
        "unet/three.safetensors is a folder, no file of weights",
        "unet/two.safetensors has a header that contradicts itself at 'c'",
    ]


@pytest.mark.parametrize("name", ["unet/one.safetensors", "unet/config.json", "tokenizer/vocab.json"])
def test_a_pipe_is_no_file_and_nobody_waits_for_it(model, name):
    (model / name).unlink()
    os.mkfifo(model / name)
    assert f"{name} is no regular file" in problems(model)
    with pytest.raises(OSError, match="not a regular file"):
        sha256_file(model / name)


@pytest.mark.parametrize(
    "row",
    [
        {"../vae": ["d", "C"]},
        {"/": ["d", "C"]},
        {"a\0": ["d", "C"]},
        {"a": ["d", "C\ud800"]},
        {"a" * 5000: ["d", "C"]},
    ],
)
def test_a_component_whose_name_leads_elsewhere_is_refused(model, row):
    path = model / "model_index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **row}))
    (told,) = problems(model)
    assert told.startswith("model_index.json names something that is no component: ")
    assert not row.keys() & weights.components(model).keys()


@pytest.mark.parametrize(("told", "damage"), DAMAGE)
def test_what_is_not_whole_is_told_once(model, told, damage):
    if told.startswith("scheduler"):
        (model / "scheduler" / "scheduler_config.json").unlink()
    damage(model)
    assert problems(model) == [told]


def test_a_pipeline_must_name_its_class(model):
    data = json.loads((model / "model_index.json").read_text())
    del data["_class_name"]
    (model / "model_index.json").write_text(json.dumps(data))
    assert [text.rpartition("/")[2] for text in problems(model)] == ["model_index.json names no pipeline (_class_name)"]


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2, 2], "data_offsets": [4, 20]},
        {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 0]},
    ],
)
def test_a_header_must_agree_with_itself(model, entry):
    header = json.dumps({"c": entry}).encode()
    (model / "unet" / "two.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    assert problems(model) == ["unet/two.safetensors has a header that contradicts itself at 'c'"]


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle of the weights was executed",))


def test_files_of_torch_are_checked_without_unpickling(model):
    path = model / "unet" / "diffusion_pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))
        archive.writestr("archive/data/0", bytes(1000))
    assert problems(model) == []
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    (told,) = problems(model)
    assert told.startswith("unet/diffusion_pytorch_model.bin is damaged or cut off")
    path.write_bytes(pickle.dumps(Bomb(), protocol=2))
    assert problems(model) == []
    path.write_bytes(b"<html>401</html>")
    assert problems(model) == ["unet/diffusion_pytorch_model.bin is no file of torch.save"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "x")
    assert problems(model) == ["unet/diffusion_pytorch_model.bin is no file of torch.save"]


def test_what_weights_take_is_the_least_that_they_can(model):
    leg = sound.leg(runner="diffusers", spec={"pipeline": "P", "dtype": "float32"})
    files = sum(path.stat().st_size for path in (model / "unet").glob("*.safetensors"))
    assert weights.least_bytes(model, leg) == files
    shard(model / "unet" / "three.fp16.safetensors", "a")
    (model / "unet" / "diffusion_pytorch_model.bin").write_bytes(bytes(files * 3))
    assert weights.least_bytes(model, leg) == files
    halves = msgspec.structs.replace(leg, spec={"pipeline": "P", "dtype": {"unet": "bfloat16"}})
    assert weights.least_bytes(model, halves) == files // 2
    assert weights.least_bytes(model / "nowhere", leg) == 0
