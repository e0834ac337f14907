"""What a leg stores is what it had, or nothing."""

import hashlib
import json
import time

import numpy as np
import pytest
from PIL import Image

from paritygate.manifest.case import Item, Output
from paritygate.media.levels import to_stored
from paritygate.records.codec import loads
from paritygate.records.model import Effective
from paritygate.runners import writer as module
from paritygate.runners.job import Job, Outputs
from paritygate.runners.writer import LegWriter, latents_digest


@pytest.fixture
def make_writer(tmp_path):
    job = Job(
        case="c", leg="candidate", runner="python", root="/", folder="/", directory=str(tmp_path), adapter=None,
        spec={}, feature=None, model_id="m", model_revision="r", model_dir=None, output=Output(kind="images"),
        inputs=(), items=tuple(Item(id=f"{i:04d}", request={}) for i in range(3)), latents=None, device="cpu",
    )  # fmt: skip
    return lambda: LegWriter(job)


@pytest.fixture
def leg(make_writer, tmp_path, monkeypatch):
    """A writer that does not wait, so that each call can be looked at."""
    monkeypatch.setattr("paritygate.runners.writer._SAVE_INTERVAL_S", 0)
    return make_writer(), tmp_path


def outputs(folder) -> Outputs:
    return loads((folder / "outputs.json").read_text(), Outputs)


def test_float_pixels_are_kept_unrounded_beside_a_lossless_picture(leg):
    writer, folder = leg
    pixels = np.random.default_rng(0).random((5, 7, 3), np.float32)
    writer.image("0001", pixels)
    (item,) = outputs(folder).items
    (file,) = item.images
    assert np.array_equal(np.load(folder / file.float_path, allow_pickle=False), pixels)
    assert np.array_equal(np.asarray(Image.open(folder / file.path)), np.rint(pixels.astype(np.float64) * 255))
    for path, digest in ((file.path, file.sha256), (file.float_path, file.float_sha256)):
        assert digest == "sha256:" + hashlib.sha256((folder / path).read_bytes()).hexdigest()
    assert not outputs(folder).complete
    writer.finish(complete=True)
    assert outputs(folder).complete


def test_rounding_is_half_to_even_not_truncation_and_never_wraps():
    values = np.array([0.5, 1.5, 2.5, 254.5, 0, 255], np.float64) / 255
    stored = to_stored(values.astype(np.float32).reshape(1, 2, 3))
    expected = np.rint(values.astype(np.float32).astype(np.float64) * 255).astype(np.uint8)
    assert stored.ravel().tolist() == expected.tolist()
    assert to_stored(np.full((1, 1, 1), 0.999, np.float32)).item() == 255


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_kept_for_the_comparison_to_name(leg, bad):
    writer, folder = leg
    pixels = np.full((2, 2, 3), 0.5, np.float32)
    pixels[0, 0, 0] = bad
    writer.image("0000", pixels)
    file = outputs(folder).items[0].images[0]
    assert np.array_equal(np.load(folder / file.float_path), pixels, equal_nan=True)
    assert (folder / file.path).exists()


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_bytes_are_stored_as_they_are_and_have_no_float_file(leg, channels, mode):
    writer, folder = leg
    pixels = np.arange(2 * 3 * channels, dtype=np.uint8).reshape(2, 3, channels)
    writer.image("0000", pixels)
    file = outputs(folder).items[0].images[0]
    assert file.float_path is None
    picture = Image.open(folder / file.path)
    assert picture.mode == mode
    assert np.array_equal(np.asarray(picture).reshape(pixels.shape), pixels)


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (np.zeros((2, 2, 3), np.float64), "float64; expected float32"),
        (np.zeros((2, 2, 3), np.float16), "float16; expected float32"),
        (np.zeros((2, 2, 3), np.int64), "int64"),
        (np.zeros((3, 32, 32), np.float32), r"shape \(3, 32, 32\)"),
        (np.zeros((1, 2, 2, 3), np.float32), "one image a call"),
        (np.zeros((0, 2, 3), np.float32), "shape"),
        (np.full((2, 2, 3), -1, np.float32), r"\[-1, -1\]; expected \[0, 1\]"),
        (np.full((2, 2, 3), 255, np.float32), "denormalise, clip, or store uint8"),
    ],
)
def test_pixels_that_would_become_wrong_numbers_are_refused_with_the_way_out(leg, pixels, words):
    writer, folder = leg
    with pytest.raises(ValueError, match=words):
        writer.image("0000", pixels)
    assert outputs(folder).items == ()


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "x" * 65])
def test_an_item_id_cannot_leave_the_folder(leg, name):
    writer, _ = leg
    with pytest.raises(ValueError, match="no item id"):
        writer.image(name, np.zeros((1, 1, 3), np.uint8))


def test_an_output_is_written_once(leg):
    writer, _ = leg
    writer.image("0000", np.zeros((1, 1, 3), np.uint8))
    with pytest.raises(ValueError, match="stored before"):
        writer.image("0000", np.zeros((1, 1, 3), np.uint8))


def test_items_are_listed_in_suite_order_and_what_nobody_asked_for_comes_last(leg):
    writer, folder = leg
    for name, index in (("extra", 0), ("0002", 1), ("0002", 0), ("0000", 0)):
        writer.image(name, np.zeros((1, 1, 3), np.uint8), index=index)
    assert [(item.id, len(item.images)) for item in outputs(folder).items] == [("0000", 1), ("0002", 2), ("extra", 1)]
    assert outputs(folder).items[1].images[0].path == "outputs/0002/0.png"


def test_a_long_suite_is_listed_once_a_second_and_whole_at_its_end(make_writer, tmp_path, monkeypatch):
    written = []
    real = module.write_text_atomic
    monkeypatch.setattr(
        module, "write_text_atomic", lambda path, *a, **k: (written.append(path.name), real(path, *a, **k))
    )
    writer = make_writer()
    for number in range(300):
        writer.image(f"{number:04d}", np.zeros((1, 1, 3), np.uint8))
        writer.token_ids(f"{number:04d}", [[1]])
    assert len(written) <= 2 * (1 + 3)  # a second may pass on a busy machine
    writer.finish(complete=False)
    assert len(outputs(tmp_path).items) == 300
    assert len(loads((tmp_path / "effective.json").read_text(), Effective).token_ids) == 300


def test_what_the_last_call_reported_is_listed_within_a_second_though_no_other_follows(
    make_writer, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_SAVE_INTERVAL_S", 0.1)
    writer = make_writer()
    writer.image("0000", np.zeros((1, 1, 3), np.uint8))
    assert outputs(tmp_path).items == ()
    end = time.monotonic() + 5
    while not outputs(tmp_path).items and time.monotonic() < end:
        time.sleep(0.02)
    assert [item.id for item in outputs(tmp_path).items] == ["0000"]


def test_a_secret_never_reaches_the_settings_on_disk(leg, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hf_secret_value")
    writer, folder = leg
    writer.setting("url", "https://hf_secret_value@host")
    writer.environment("proxy", {"hf_secret_value": ["hf_secret_value"]})
    assert "hf_secret_value" not in (folder / "effective.json").read_text()


def test_settings_are_on_disk_when_a_call_returns(leg):
    writer, folder = leg
    writer.setting("device", "cpu")
    writer.setting("config.scheduler.clip_sample", np.bool_(False))
    writer.token_ids("0000", [[np.int64(1), 2]])
    writer.schedule(timesteps=[951.0, 1], sigmas=[np.float32(0.5), np.inf])
    writer.feature("int8", kernels=np.int64(4))
    writer.feature("int8", provider="CPU")
    writer.environment("note", {"a": [1]})
    effective = loads((folder / "effective.json").read_text(), Effective)
    assert effective.settings == {"device": "cpu", "config.scheduler.clip_sample": False}
    assert effective.token_ids == {"0000": [[1, 2]]}
    assert json.loads((folder / "effective.json").read_text())["timesteps"] == [951, 1]
    assert effective.sigmas == [0.5, np.inf]
    assert effective.features == {"int8": {"kernels": 4, "provider": "CPU"}}


@pytest.mark.parametrize("value", [float("nan"), [1], object()])
def test_a_setting_is_a_finite_scalar(leg, value):
    with pytest.raises(ValueError, match="a setting is"):
        leg[0].setting("x", value)


def test_a_setting_that_is_not_finite_is_refused_with_the_way_out(leg):
    with pytest.raises(ValueError, match="spell this one as the text '-inf'"):
        leg[0].setting("config.scheduler.lambda_min_clipped", -np.inf)


def test_one_run_has_one_schedule(leg):
    writer, _ = leg
    writer.schedule(timesteps=[2, 1], sigmas=None)
    writer.schedule(timesteps=[2.0, 1.0], sigmas=None)
    with pytest.raises(ValueError, match="the schedule changed between items"):
        writer.schedule(timesteps=[2], sigmas=None)


def test_latents_are_digested_as_little_endian_float32_whatever_their_memory_order(leg):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected = "sha256:" + hashlib.sha256(values.tobytes()).hexdigest()
    leg[0].initial_latents("0000", values.astype(">f4").copy().view(">f4").astype(np.float32))
    assert latents_digest(values) == latents_digest(np.asfortranarray(values)) == expected
    with pytest.raises(ValueError, match="float16; expected float32"):
        latents_digest(values.astype(np.float16))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_latents_that_are_not_finite_are_refused_since_their_digests_would_agree(leg, bad):
    writer, _ = leg
    with pytest.raises(ValueError, match="not finite"):
        writer.initial_latents("0000", np.full((1, 2, 2), bad, np.float32))
