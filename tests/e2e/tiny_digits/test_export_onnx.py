"""The exporter around the exporter: what counts as up to date, what is stripped, and two at once."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from types import ModuleType

import onnx
import pytest
from onnx import TensorProto, helper

from paritygate.records.canonical import sha256_file
from paritygate.runners.python import load_file

SCRIPT = Path(__file__).resolve().parents[2] / "e2e" / "accuracy" / "tiny_digits" / "export_onnx.py"


@pytest.fixture(scope="module")
def exporter() -> ModuleType:
    return load_file(SCRIPT)


@pytest.fixture
def built(exporter: ModuleType, tmp_path: Path) -> Path:
    """A folder that looks built from the origin ``{"model": "a"}``."""
    for name in exporter.NAMES:
        (tmp_path / name).write_text(name)
    digests = {name: sha256_file(tmp_path / name) for name in exporter.NAMES}
    (tmp_path / exporter.LIST).write_text(json.dumps({"model": "a", "graphs": digests}))
    return tmp_path


def test_unchanged_graphs_of_the_same_origin_are_up_to_date(exporter: ModuleType, built: Path) -> None:
    assert exporter.up_to_date(built, {"model": "a"})


def test_other_weights_or_exporters_are_not_up_to_date(exporter: ModuleType, built: Path) -> None:
    assert not exporter.up_to_date(built, {"model": "b"})


@pytest.mark.parametrize("name", ["unet.onnx", "graphs.json"])
@pytest.mark.parametrize("content", [None, "", "[]", "edited"])
def test_a_missing_or_damaged_file_is_not_up_to_date(
    exporter: ModuleType, built: Path, name: str, content: str | None
) -> None:
    if content is None:
        (built / name).unlink()
    else:
        (built / name).write_text(content)
    assert not exporter.up_to_date(built, {"model": "a"})


def test_the_origin_changes_with_the_weights(exporter: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1")
    before = exporter.origin(tmp_path)
    assert before == exporter.origin(tmp_path)
    (tmp_path / "weights").write_text("2")
    assert before["model"] != exporter.origin(tmp_path)["model"]


def test_a_second_export_waits_for_the_first(exporter: ModuleType, tmp_path: Path) -> None:
    with exporter.exclusive(tmp_path), (tmp_path / ".lock").open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_stripping_removes_the_notes_and_keeps_the_computation(exporter: ModuleType, tmp_path: Path) -> None:
    given, gives = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y"))
    node = helper.make_node("Relu", ["x"], ["y"], doc_string="/home/someone/model.py")
    model = helper.make_model(helper.make_graph([node], "graph", [given], [gives]))
    for noted in (model, model.graph, model.graph.node[0], model.graph.input[0]):
        noted.metadata_props.add(key="stack_trace", value="/home/someone/model.py")
    path = tmp_path / "graph.onnx"
    onnx.save(model, path)
    assert exporter.leaks(path.read_bytes(), ["/home/someone"]) == ["/home/someone"]
    exporter.strip(path)
    assert exporter.leaks(path.read_bytes(), ["/home/someone"]) == []
    onnx.checker.check_model(onnx.load(path))
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Relu"]


def test_the_paths_of_this_machine_are_the_ones_looked_for(exporter: ModuleType) -> None:
    paths = exporter.machine_paths()
    assert str(SCRIPT.parents[4]) in paths
    assert str(Path(onnx.__file__).parents[1]) in paths
    assert "/" not in paths
