"""The ``python`` runner: ``module:function`` or a file, with everything that the function is handed."""

import numpy as np
import pytest

from paritygate.runners.leg import Latents

ENGINE = """
from pathlib import Path

import numpy as np


def make(job, writer):
    latents = np.load(job.latents)
    for number, item in enumerate(job.items):
        level = latents[number].mean() + len(item.request["prompt"]) / 4
        (Path(job.directory) / f"{item.id}.txt").write_text("kept")
        writer.image(item.id, np.full((4, 4, 3), level, np.float32))
        writer.initial_latents(item.id, latents[number])
    writer.setting("config.gain", job.spec["options"]["gain"])


async def later(job, writer):
    writer.setting("config.gain", 1)


def lazy(job, writer):
    yield writer.setting("config.gain", 1)
"""


@pytest.fixture
def entry(bad_leg, tmp_path, monkeypatch):
    """Runs ``module:function`` of a module on the path as a leg."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "engine.py").write_text(ENGINE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    noise = np.random.default_rng(0).random((2, 4, 2, 2), np.float32) / 4
    np.save(tmp_path / "latents.npy", noise)
    latents = Latents(path=tmp_path / "latents.npy", sha256="sha256:0")

    def run(name: str):
        return *bad_leg("", adapter=None, spec={"entry": name, "options": {"gain": 2}}, latents=latents), noise

    return run


def test_a_function_of_a_module_gets_request_latents_and_folder_and_gives_outputs_and_settings(entry):
    record, folder, noise = entry("engine:make")
    assert (record.failure, record.message) == (None, "")
    assert record.effective.settings == {"config.gain": 2}
    assert len(set(record.effective.initial_latents.values())) == 2
    for number, item in enumerate(record.items):
        pixels = np.load(folder / item.images[0].float_path)
        assert np.allclose(pixels, noise[number].mean() + 0.25)
        assert (folder / f"{item.id}.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("engine:later", "engine:later gave a coroutine, so nothing of it ran"),
        ("engine:lazy", "engine:lazy gave a generator, so nothing of it ran"),
        ("engine:nothing", "engine:nothing defines no function 'nothing'"),
        ("no_such_engine:make", "No module named 'no_such_engine'"),
    ],
)
def test_a_function_that_is_not_there_or_did_not_run_breaks_the_leg(entry, name, words):
    record, _, _ = entry(name)
    assert record.failure == "crash"
    assert words in record.message


def test_an_adapter_that_is_no_python_file_is_refused_by_name(bad_leg, tmp_path):
    (tmp_path / "engine.txt").write_text("def run(job, writer): pass")
    record, _ = bad_leg("", adapter="engine.txt")
    assert (record.failure, "engine.txt is no Python file" in record.message) == ("crash", True)
