"""Fingerprints do not depend on how a value was written."""

import hashlib
import math

import pytest

from paritygate.records.canonical import canonical_json, sha256_bytes, sha256_file


def test_order_of_keys_kind_of_sequence_and_3_or_3_0_make_no_difference():
    assert (
        canonical_json({"b": (1, 2.0), "a": "ä"})
        == canonical_json({"a": "ä", "b": [1, 2]})
        == '{"a":"ä","b":[1,2]}'.encode()
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_without_a_json_form_are_refused(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json([value])


def test_a_key_that_is_not_text_is_refused_because_it_would_collide_with_its_spelling():
    with pytest.raises(TypeError, match="keys are text"):
        canonical_json({1: "a"})


def test_true_is_not_one():
    assert canonical_json([True]) != canonical_json([1])


def test_file_and_bytes_have_one_digest(tmp_path):
    data = bytes(range(256)) * 9000
    (tmp_path / "x").write_bytes(data)
    assert sha256_file(tmp_path / "x") == sha256_bytes(data) == "sha256:" + hashlib.sha256(data).hexdigest()
