"""PyTorch files: tensors only, and nothing in them runs."""

from __future__ import annotations

import os
import zipfile

import numpy as np
import pytest

from paritygate.errors import MediaError
from paritygate.media.tensors import UNNAMED, read_tensors

torch = pytest.importorskip("torch")


class Runs:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def saved(tmp_path):
    def run(content, **options):
        torch.save(content, tmp_path / "x.pt", **options)
        return tmp_path / "x.pt"

    return run


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "int64", "bool"])
def test_a_tensor_is_read_bit_for_bit_and_read_only(dtype, saved):
    tensor = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype))
    found = read_tensors(saved(tensor))[UNNAMED]
    assert (found.dtype, found.shape) == (dtype, (2, 3, 4))
    again = torch.from_numpy(found.array.copy()).view(getattr(torch, dtype))
    assert torch.equal(again.float(), tensor.float())
    assert not found.array.flags.writeable


def test_dicts_and_lists_name_their_tensors_by_path(saved):
    content = {"model": {"weight": torch.ones(2), "3": [torch.zeros(3), torch.nn.Parameter(torch.ones(1))]}}
    assert {name: tensor.shape for name, tensor in read_tensors(saved(content)).items()} == {
        "model.weight": (2,),
        "model.3.0": (3,),
        "model.3.1": (1,),
    }


def test_views_keep_their_values(saved):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = read_tensors(saved({"t": base.T, "s": base[1:, ::2], "b": base.bfloat16().T}))
    assert np.array_equal(tensors["t"].array, base.numpy().T)
    assert np.array_equal(tensors["s"].array, base.numpy()[1:, ::2])
    assert tensors["b"].shape == (4, 3)


def test_a_malicious_pickle_does_not_run(saved, tmp_path):
    marker = tmp_path / "was-run"
    for content in (Runs(marker), {"a": torch.ones(2), "b": Runs(marker)}):
        with pytest.raises(MediaError, match="holds more than tensors") as caught:
            read_tensors(saved(content))
        assert caught.value.kind == "format"
        assert not marker.exists()


def test_a_malicious_pickle_in_the_old_format_does_not_run(saved, tmp_path):
    marker = tmp_path / "was-run"
    with pytest.raises(MediaError, match=r"PyTorch 1\.6 or newer"):
        read_tensors(saved(Runs(marker), _use_new_zipfile_serialization=False))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"epoch": 3, "w": torch.ones(2)}, "holds int 'epoch'"),
        ([], "holds no tensors"),
        ("text", "holds str"),
        ({"a": {"b": torch.ones(2)}, "a.b": torch.ones(2)}, "two tensors have the path 'a.b'"),
        (torch.ones(2, dtype=torch.complex64), "is complex64"),
        (torch.ones(2, 2).to_sparse(), "torch.sparse_coo"),
        (torch.empty(2, device="meta"), "on meta"),
        (torch.ones(0, 3), "holds no values"),
        (torch.ones(1).expand(10**12), "claims more values"),
    ],
    ids=["number", "nothing", "text", "one-path-twice", "complex", "sparse", "meta", "no-values", "expanded"],
)
def test_what_is_no_plain_tensor_is_refused(content, message, saved):
    with pytest.raises(MediaError, match=message):
        read_tensors(saved(content))


def test_damaged_and_repacked_files_are_refused(saved, tmp_path):
    path = saved({"a": torch.ones(1000)})
    whole = path.read_bytes()
    repacked = tmp_path / "packed.pt"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(repacked, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.namelist():
            target.writestr(member, source.read(member))
    with pytest.raises(MediaError, match="compressed members"):
        read_tensors(repacked)
    for damaged in (whole[:-100], b"\x80\x02}.", b"", whole.replace(b"FloatStorage", b"Flo@tStorage")):
        path.write_bytes(damaged)
        with pytest.raises(MediaError) as caught:
            read_tensors(path)
        assert "\n" not in caught.value.message
