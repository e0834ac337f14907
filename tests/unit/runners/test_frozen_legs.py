"""The legs that read what was made elsewhere, an import or a golden: verified first, or refused with one reason."""

import json
import re

import msgspec
import numpy as np
import pytest

from paritygate.errors import LegError
from paritygate.media.frozen import freeze
from paritygate.media.images import encode_png
from paritygate.media.safetensors import write_safetensors
from paritygate.media.tensors import Tensor
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import loads
from paritygate.records.model import Effective
from paritygate.runners import golden, imported
from paritygate.runners.writer import LegWriter, latents_digest

PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
IDS = ("0000", "0001")
SETTINGS = {"config.steps": 4, "device": "cuda"}
LATENTS = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 2, 2)


def outputs(folder):
    for item in IDS:
        (folder / "outputs" / item).mkdir(parents=True)
        (folder / "outputs" / item / "0.png").write_bytes(encode_png(PIXELS))
    (folder / "outputs/effective.json").write_text(json.dumps({"settings": SETTINGS, "timesteps": [9, 1]}))


def sealed(folder, document, name):
    """Write the document with the digests of all files, as whoever makes such a folder does; its own digest."""
    files = msgspec.to_builtins({key: file for key, file in freeze(folder).items() if key != name})
    data = json.dumps({**document, "files": files}).encode()
    (folder / name).write_bytes(data)
    return sha256_bytes(data)


def record_of(job):
    """What the runner of a job stores."""
    writer = LegWriter(job)
    {"golden": golden, "import": imported}[job.runner].run(job, writer)
    writer.finish(complete=True)
    return writer


def effective_of(writer) -> Effective:
    return loads((writer.directory / "effective.json").read_bytes(), Effective)


def refusal(job) -> LegError:
    with pytest.raises(LegError) as caught:
        record_of(job)
    return caught.value


IMPORT = {
    "schema_version": 1,
    "provenance": {
        "made_by": "other-engine", "version": "1.2", "machine": "a GPU box", "made_on": "2026-11-30", "command": "gen",
    },
    "model": {"id": "none", "revision": "0" * 40},
}  # fmt: skip


@pytest.fixture
def make_import(make_job, tmp_path):
    """Seals an import, with changes, and gives the job of its leg."""
    (tmp_path / "run").mkdir()
    (tmp_path / "made").mkdir()
    outputs(tmp_path / "made")

    def build(document=IMPORT, **spec):
        sealed(tmp_path / "made", document, "import.json")
        return make_job(runner="import", adapter=None, spec={"folder": "made", **spec})

    return build


def dump(folder, entries, **arrays):
    """Stage dumps: the arrays in files, and the index."""
    (folder / "stages").mkdir()
    for name, array in arrays.items():
        if name.endswith("_bin"):
            (folder / "stages" / f"{name.removesuffix('_bin')}.bin").write_bytes(array.tobytes())
        else:
            np.save(folder / "stages" / f"{name}.npy", array)
    (folder / "stages/index.json").write_text(json.dumps(entries))


def test_an_import_stores_its_outputs_and_where_they_come_from(make_import):
    writer = record_of(make_import())
    found = effective_of(writer)
    assert (writer.directory / "outputs/0001/0.png").exists()
    assert found.settings == SETTINGS
    assert found.environment["import"]["made_by"] == "other-engine"
    assert found.environment["import"]["made_on"] == "2026-11-30"


def test_what_an_import_does_not_show_is_pending(make_import):
    assert effective_of(record_of(make_import())).pending == ("token_ids", "sigmas", "initial_latents")


def test_stage_dumps_show_the_exact_items(make_import, tmp_path):
    entries = [
        {"name": "sigmas", "file": "sigmas.bin", "dtype": "float32", "shape": [3]},
        *(
            {"name": "token_ids", "file": f"ids{item}.npy", "dtype": "int64", "shape": [2, 3], "item": item}
            for item in IDS
        ),
        *(
            {
                "name": "initial_latents",
                "file": f"latents{item}.bin",
                "dtype": "float32",
                "shape": [1, 4, 2, 2],
                "item": item,
            }
            for item in IDS
        ),
        {
            "name": "denoiser",
            "file": "denoiser.safetensors",
            "dtype": "float32",
            "shape": [4, 2, 2],
            "step": 0,
            "item": "0000",
        },
    ]
    (tmp_path / "made/outputs/effective.json").unlink()
    dump(
        tmp_path / "made", entries, sigmas_bin=np.array([2, 0.5, 0], "<f4"),
        ids0000=np.arange(6).reshape(2, 3), ids0001=np.arange(6).reshape(2, 3) + 1,
        latents0000_bin=LATENTS, latents0001_bin=-LATENTS,
    )  # fmt: skip
    tensors = [Tensor(name="x", array=LATENTS, dtype="float32")]
    write_safetensors(tmp_path / "made/stages/denoiser.safetensors", tensors)
    found = effective_of(record_of(make_import()))
    assert found.token_ids == {"0000": [[0, 1, 2], [3, 4, 5]], "0001": [[1, 2, 3], [4, 5, 6]]}
    assert found.sigmas == [2, 0.5, 0]
    assert found.initial_latents == {"0000": latents_digest(LATENTS), "0001": latents_digest(-LATENTS)}
    assert found.environment["stages"] == ["denoiser", "initial_latents", "sigmas", "token_ids"]
    assert found.pending == ("timesteps", "config")


ONE = {"name": "timesteps", "file": "a.npy", "dtype": "int64", "shape": [2]}


@pytest.mark.parametrize(
    ("entry", "array", "words"),
    [
        ({"shape": [3]}, np.array([9, 1]), r"a.npy holds int64 \[2\], listed is int64 \[3\]"),
        ({"dtype": "int32"}, np.array([9, 1]), "int32"),
        ({"dtype": "int128"}, np.array([9, 1]), "int128"),
        ({}, np.array([9, 2]), "contradict each other about timesteps"),
        ({}, np.array([[9, 1]]), "holds int64"),
        ({"dtype": "float64"}, np.array([9, np.nan]), "finite"),
        ({"dtype": "bool"}, np.array([True, False]), "numbers"),
        ({"file": "a.pt"}, np.array([9, 1]), "'a.pt' ends in none of .bin, .npy, .safetensors"),
        ({"file": "../outputs/0000/0.npy"}, np.array([9, 1]), "not a plain relative path"),
        ({"file": "/etc/0.npy"}, np.array([9, 1]), "not a plain relative path"),
        ({"file": "b.npy"}, np.array([9, 1]), "No such file"),
        ({"file": "a.bin"}, np.array([9, 1]), "holds 16 bytes|No such file"),
        ({"name": "token_ids"}, np.array([9, 1]), "names no item, the suite has 0000, 0001"),
        ({"name": "token_ids", "item": "7"}, np.array([9, 1]), "names the item '7'"),
        ({"name": "token_ids", "item": "0000", "dtype": "float64"}, np.array([9.0, 1]), "expected integers"),
        ({"name": "initial_latents", "item": "0000"}, np.array([9, 1]), "initial latents are int64"),
        ({"extra": 1}, np.array([9, 1]), "unknown field `extra`"),
        ({"shape": [0]}, np.array([9, 1]), "shape"),
    ],
)
def test_a_stage_dump_that_is_not_what_its_index_says_is_refused(make_import, tmp_path, entry, array, words):
    dump(tmp_path / "made", [{**ONE, **entry}], a=array)
    error = refusal(make_import())
    assert error.kind == "crash"
    assert re.search(words, error.message), error.message
    assert str(tmp_path) not in error.message


def test_raw_stage_values_must_fill_their_shape(make_import, tmp_path):
    entry = {"name": "sigmas", "file": "s.bin", "dtype": "float32", "shape": [4]}
    dump(tmp_path / "made", [entry], s_bin=np.array([2, 1, 0], "<f4"))
    assert re.search(r"s.bin: holds 12 bytes, float32 \(4,\) takes 16", refusal(make_import()).message)


def test_a_stage_is_listed_once(make_import, tmp_path):
    dump(tmp_path / "made", [ONE, ONE], a=np.array([9, 1]))
    assert "listed twice" in refusal(make_import()).message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": 2}, "schema_version 2"),
        ({"provenance": {}}, "made_by|version"),
        ({"provenance": {**IMPORT["provenance"], "machine": " "}}, "machine"),
        ({"provenance": {**IMPORT["provenance"], "made_on": "yesterday"}}, "made_on"),
        ({"model": {"id": "other", "revision": "0" * 40}}, "made with model.id 'other', the case has 'none'"),
        ({"model": {"id": "none", "revision": "1" * 40}}, "made with model.revision"),
        ({"surprise": 1}, "unknown field `surprise`"),
    ],
)
def test_an_import_without_provenance_or_of_another_model_is_refused(make_import, changes, words):
    error = refusal(make_import({**IMPORT, **changes}))
    assert error.message.startswith("the import made is refused: ")
    assert re.search(words, error.message), error.message


def test_the_digest_of_the_leg_pins_an_import(make_import, tmp_path):
    job = make_import()
    digest = sha256_bytes((tmp_path / "made/import.json").read_bytes())
    assert "the leg pins sha256:111" in refusal(make_import(digest="sha256:" + "1" * 64)).message
    record_of(make_import(digest=digest))
    assert job.spec == {"folder": "made"}


SPOILED = [
    (lambda folder: (folder / "outputs/0000/0.png").write_bytes(encode_png(255 - PIXELS)), "0000/0.png"),
    (lambda folder: (folder / "outputs/0000/0.png").unlink(), "0000/0.png is missing"),
    (lambda folder: (folder / "outputs/0000/1.png").write_bytes(encode_png(PIXELS)), "0000/1.png is there and not"),
    (lambda folder: (folder / "outputs/0002").symlink_to("/etc"), "outputs/0002 is a symbolic link"),
    (lambda folder: (folder / "note").mkdir() or (folder / "note/a").write_text(""), "note/a is there and not"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILED)
def test_an_import_that_was_altered_is_refused_before_anything_of_it_is_stored(make_import, tmp_path, spoil, words):
    job = make_import()
    spoil(tmp_path / "made")
    assert words in refusal(job).message
    assert not (tmp_path / "run/outputs").exists()


def test_an_import_that_is_not_there_is_refused(make_import, tmp_path):
    job = make_import()
    (tmp_path / "made/import.json").unlink()
    assert "import.json: No such file" in refusal(job).message


GOLDEN = {
    "schema_version": 1, "name": "digits", "version": 2, "case": "digits-t2i", "contract": "sha256:" + "c" * 64,
    "claim": "golden-regression", "task": "t2i",
    "model": {"id": "none", "revision": "0" * 40, "weights": "trained", "verified": True},
    "items": [{"id": "0000", "request": {"prompt": "a", "seed": 1}},
              {"id": "0001", "request": {"seed": 2, "prompt": "b"}}],
    "output": {}, "inputs": [],
    "reference": {"runner": "python", "spec": {}, "requires": {}, "adapter": None, "versions": {}},
    "settings": {**SETTINGS, "config.guidance_scale": 3.0}, "environment": {},
    "generator": {"commit": "0" * 40, "dirty": False, "command": "paritygate golden create", "platform": "Linux",
                  "made_on": "2026-11-30T00:00:00Z", "python": "3.11", "paritygate": "0.1", "profile": {}},
    "promotable": True, "reasons": [],
}  # fmt: skip


@pytest.fixture
def make_golden(make_job, tmp_path):
    """Seals a golden, with changes, and gives the job of a leg that reads it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "made").mkdir()
    outputs(tmp_path / "made")

    def build(document=GOLDEN, **named):
        digest = sealed(tmp_path / "made", document, "golden.json")
        named = {"name": "digits", "version": 2, "digest": digest, "generator": {"runner": "no-such-module"}, **named}
        job = make_job(runner="golden", adapter=None, spec={"golden": named})
        return msgspec.structs.replace(job, golden=str(tmp_path / "made"))

    return build


def test_a_golden_stands_in_with_its_outputs_and_the_settings_of_what_made_it(make_golden):
    writer = record_of(make_golden())
    found = effective_of(writer)
    assert (writer.directory / "outputs/0001/0.png").exists()
    assert found.settings == {**SETTINGS, "config.guidance_scale": 3.0}
    assert found.timesteps == [9, 1]
    assert found.environment["golden"]["version"] == 2
    assert "no-such-module" not in (writer.directory / "effective.json").read_text()


@pytest.mark.parametrize(("spoil", "words"), SPOILED)
def test_a_golden_that_was_altered_is_refused_before_anything_of_it_is_stored(make_golden, tmp_path, spoil, words):
    job = make_golden()
    spoil(tmp_path / "made")
    error = refusal(job)
    assert error.kind == "golden"
    assert words in error.message
    assert not (tmp_path / "run/outputs").exists()


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (GOLDEN["items"][:1], "item 0001 is only in the case"),
        ([*GOLDEN["items"], {"id": "0002", "request": {}}], "item 0002 is only in the golden"),
        (
            [{"id": "0000", "request": {"prompt": "a", "seed": 7}}, GOLDEN["items"][1]],
            "item 0000: seed is 7 in the golden, 1 in the case",
        ),
        (
            [{"id": "0000", "request": {"prompt": "a", "seed": True}}, GOLDEN["items"][1]],
            "item 0000: seed is true in the golden, 1 in the case",
        ),
        (
            [{"id": "0000", "request": {"prompt": "a"}}, GOLDEN["items"][1]],
            "item 0000: seed is absent in the golden, 1 in the case",
        ),
    ],
)
def test_a_golden_of_another_request_is_refused_naming_the_first_difference(make_golden, items, words):
    error = refusal(make_golden({**GOLDEN, "items": items}))
    assert error.kind == "golden"
    assert words in error.message


def test_a_golden_of_other_conditioning_files_is_refused(make_golden):
    inputs = [{"role": "image", "sha256": "sha256:" + "1" * 64}]
    assert "conditioning files are [('image'" in refusal(make_golden({**GOLDEN, "inputs": inputs})).message


@pytest.mark.parametrize(
    ("document", "named", "words"),
    [
        (GOLDEN, {"digest": "sha256:" + "1" * 64}, "the leg names sha256:111"),
        (GOLDEN, {"name": "letters"}, "its name is 'digits', the leg names 'letters'"),
        (GOLDEN, {"version": 3}, "its version is 2, the leg names 3"),
        ({**GOLDEN, "version": None}, {}, "its version is None"),
        ({**GOLDEN, "schema_version": 9}, {}, "schema_version is 9"),
        ({**GOLDEN, "surprise": 9}, {}, "unknown field `surprise`"),
    ],
)
def test_a_golden_that_is_not_the_named_one_is_refused(make_golden, document, named, words):
    error = refusal(make_golden(document, **named))
    assert error.kind == "golden"
    assert words in error.message


def test_a_golden_that_is_nowhere_or_damaged_is_a_golden_failure(make_golden, tmp_path):
    job = make_golden()
    assert "not on this machine" in refusal(msgspec.structs.replace(job, golden=None)).message
    (tmp_path / "made/outputs/0000/0.png").write_bytes(b"GIF89a")
    error = refusal(make_golden())
    assert (error.kind, "its content is GIF" in error.message) == ("golden", True)
    (tmp_path / "made/golden.json").unlink()
    assert "golden.json: No such file" in refusal(job).message
