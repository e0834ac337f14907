"""Records survive JSON, and bad JSON says what is wrong."""

import json
import math

import pytest

from paritygate.errors import ArtifactError
from paritygate.records import codec
from paritygate.records.model import BoundResult, Effective, MeasurementResult, Real


def measurement(value: float) -> MeasurementResult:
    return MeasurementResult(
        id="output.psnr_db.min",
        metric="psnr_db",
        aggregate="min",
        pixels="stored",
        unit="dB",
        direction="higher",
        value=Real(value),
        typical=Real(1.5),
        worst_item="0000",
        values={"0000/0": Real(value)},
    )


@pytest.mark.parametrize(("value", "spelled"), [(math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan"), (2.0, 2.0)])
def test_infinite_and_nan_numbers_stay_readable_in_strict_json(value, spelled):
    text = codec.dumps(measurement(value))
    assert json.loads(text, parse_constant=pytest.fail)["value"] == spelled
    back = codec.loads(text, MeasurementResult)
    assert back.value == value or (math.isnan(back.value) and math.isnan(value))
    assert type(back.value) is Real
    assert type(back.values["0000/0"]) is Real


def test_infinite_noise_levels_of_a_zero_snr_schedule_are_kept():
    effective = Effective(sigmas=[Real(math.inf), Real(0.1)])
    assert codec.loads(codec.dumps(effective), Effective).sigmas == [math.inf, 0.1]


def test_a_plain_float_that_is_not_finite_is_refused_by_name():
    with pytest.raises(ArtifactError, match="no JSON form"):
        codec.dumps({"x": math.nan})


def test_an_object_without_a_json_form_is_named():
    with pytest.raises(ArtifactError, match=r"builtins\.object"):
        codec.dumps({"x": object()})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "x.json: .*truncated"),
        ('{"settings": {"a": [1]}}', r"x.json: .*settings"),
        ('{"sigmas": ["many"]}', "expected a number or one of inf"),
        ('{"sigmas": [true]}', "expected a number"),
        (b"\xff\xfe", "x.json"),
        ("\ud800", "x.json"),
        ('{"environment": {"a": ' + "[" * 100_000, "x.json: .*recursion"),
        ('{"sigmas": [1' + "0" * 400 + "]}", "x.json"),
    ],
)
def test_bad_data_names_the_file_and_the_place(text, words):
    with pytest.raises(ArtifactError, match=words):
        codec.loads(text, Effective, source="x.json")


def test_text_outside_ascii_is_written_as_itself():
    assert "größe 🐈" in codec.dumps({"prompt": "größe 🐈"})


def test_half_a_character_is_written_so_that_it_can_be_read_back():
    text = codec.dumps({"prompt": "a\ud83d"})
    assert codec.loads(text, dict) == {"prompt": "a\\ud83d"}


def test_negative_headroom_survives():
    bound = BoundResult(
        measurement="m", relation="at_least", limit=Real(1), value=Real("nan"), satisfied=False, headroom=Real("nan")
    )
    back = codec.loads(codec.dumps(bound), BoundResult)
    assert math.isnan(back.headroom)
    assert back.limit == 1
