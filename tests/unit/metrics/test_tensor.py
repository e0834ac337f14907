"""Tensor metrics on small arrays: values worked out by hand, places, masks, formats, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paritygate.errors import MetricError
from paritygate.metrics import kernel
from paritygate.metrics.specs import SPECS
from paritygate.metrics.specs.tensor import TENSOR
from paritygate.metrics.tensor import default_names, is_defined, measure, measure_masked

NAMES = tuple(spec.name for spec in TENSOR)
COUNTS = {name for name in NAMES if name.startswith(("mismatch_", "non_finite_"))}


@pytest.fixture(autouse=True, params=["numpy", "kernel"])
def engine(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "library", lambda: None)
    elif kernel.library() is None:
        pytest.skip(kernel.engine())
    return request.param


def numbers(reference, candidate, names=NAMES, **declared):
    return {name: value.number for name, value in measure(names, reference, candidate, **declared).items()}


def bfloat16_bits(values):
    """Rounded to nearest, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def test_the_catalog_and_the_code_know_the_same_names_sorted():
    assert list(NAMES) == sorted(NAMES)
    assert set(numbers(np.ones(3), np.ones(3))) == set(NAMES)
    for name in (
        "abs_error_max",
        "abs_error_mean",
        "abs_error_p99",
        "abs_error_rms",
        "correlation",
        "cosine",
        "relative_l2",
    ):
        assert SPECS[name].kinds == ("audio", "tensor")


def test_every_number_is_what_pencil_and_paper_give():
    reference = np.array([[3.0, 0.0], [-4.0, 0.0]], np.float32)
    candidate = np.array([[3.0, 1.0], [-4.0, -2.0]], np.float32)
    found = numbers(reference, candidate)
    one, two = 0x3F800000, 0x40000000  # how many float32 there are from 0 to 1 and to 2
    expected = {
        "abs_error_max": 2.0,
        "abs_error_mean": 3 / 4,
        "abs_error_p99": 2.0,
        "abs_error_rms": math.sqrt(5 / 4),
        "bias_over_rms": 1 / 4 / math.sqrt(5 / 4),
        # Means -1/4 and -1/2: sums of products around them.
        "correlation": (25 - 4 * 0.25 * 0.5) / math.sqrt((25 - 0.25) * (30 - 1)),
        "cosine": 25 / math.sqrt(25 * 30),
        "mismatch_count": 2,
        "mismatch_share": 0.5,
        "non_finite_candidate": 0,
        "non_finite_reference": 0,
        "relative_l2": math.sqrt(5 / 25),
        "relative_linf": 2 / 4,
        "ulp_max": two,
        "ulp_mean": (one + two) / 4,
        "ulp_over_1_share": 0.5,
    }
    assert found == pytest.approx(expected, rel=1e-14)
    assert measure(["bias_over_rms"], reference, candidate)["bias_over_rms"].detail["signed"] < 0


def test_the_ten_worst_elements_are_named_with_index_and_both_values():
    reference = np.zeros((4, 5, 6), np.float32)
    candidate = reference.copy()
    for step in range(15):
        candidate[step % 4, step % 5, step % 6] = step + 1
    worst = measure(["abs_error_max"], reference, candidate)["abs_error_max"].detail["worst"]
    assert [row["error"] for row in worst] == [15, 14, 13, 12, 11, 10, 9, 8, 7, 6]
    assert worst[0] == {"index": [2, 4, 2], "error": 15.0, "reference": 0.0, "candidate": 15.0}


def test_of_equal_errors_the_first_are_named():
    worst = measure(["abs_error_max"], np.zeros(40, np.float32), np.ones(40, np.float32))["abs_error_max"].detail[
        "worst"
    ]
    assert [row["index"] for row in worst] == [[at] for at in range(10)]


def test_arrays_in_fortran_order_give_the_same_numbers_and_places():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(5, 7)).astype(np.float32)
    candidate = reference.copy()
    candidate[4, 2] += 1
    plain = measure(NAMES, reference, candidate)
    turned = measure(NAMES, np.asfortranarray(reference), np.asfortranarray(candidate))
    mixed = measure(NAMES, np.asfortranarray(reference), candidate)
    assert plain["abs_error_max"].detail["worst"][0]["index"] == [4, 2]
    assert turned["abs_error_max"].detail == mixed["abs_error_max"].detail == plain["abs_error_max"].detail
    assert turned["mismatch_count"].detail == plain["mismatch_count"].detail
    assert turned["relative_l2"].number == pytest.approx(plain["relative_l2"].number, rel=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "int8", "int64", "uint8", "uint64"])
def test_identical_tensors_give_the_stated_value_in_every_format(dtype):
    values = np.arange(-3, 4) if not dtype.startswith("u") else np.arange(7)
    array = bfloat16_bits(values) if dtype == "bfloat16" else values.astype(dtype)
    for name, value in measure(NAMES, array, array.copy(), dtype=dtype).items():
        if not is_defined(name, array, dtype=dtype):
            assert value.problem
        else:
            assert value.number == (SPECS[name].identical or 0), name


def test_token_ids_and_boolean_masks_compare_exactly():
    ids = np.array([2**62 + 1, 7, 8], np.int64)
    other = np.array([2**62, 7, 9], np.int64)  # the first pair is one number as float64
    value = measure(["mismatch_count", "abs_error_max"], ids, other)
    assert value["mismatch_count"].number == 2
    assert value["mismatch_count"].detail["first"][0] == {"index": [0], "reference": 2**62 + 1, "candidate": 2**62}
    assert "beyond" in value["abs_error_max"].problem
    flags = np.array([True, False, True])
    assert default_names(flags) == tuple(sorted(COUNTS))
    found = measure(NAMES, flags, ~flags)
    assert found["mismatch_share"].number == 1
    assert all(found[name].problem for name in NAMES if name not in COUNTS)


def test_float8_bits_are_read_as_the_ocp_formats_say():
    worked = {
        "float8_e4m3fn": {0x38: 1.0, 0x7E: 448.0, 0x01: 2.0**-9, 0xC0: -2.0},
        "float8_e5m2": {0x3C: 1.0, 0x7B: 57344.0, 0x01: 2.0**-16},
    }
    for dtype, values in worked.items():
        for code, value in values.items():
            zero, coded = np.zeros(1, np.uint8), np.array([code], np.uint8)
            assert numbers(zero, coded, ["abs_error_max"], dtype=dtype) == {"abs_error_max": abs(value)}
    assert numbers(np.array([0x38], np.uint8), np.array([0x39], np.uint8), ["ulp_max"], dtype="float8_e4m3fn") == {
        "ulp_max": 1
    }
    nan = measure(["non_finite_candidate"], np.zeros(2, np.uint8), np.array([0, 0x7F], np.uint8), dtype="float8_e4m3fn")
    assert nan["non_finite_candidate"].detail["first"] == [{"index": [1], "value": "nan"}]


def test_every_half_precision_value_widens_exactly():
    every = np.arange(1 << 16, dtype=np.uint16)
    finite = every[np.isfinite(every.view(np.float16))]
    other = np.roll(finite, 17)
    errors = np.abs(other.view(np.float16).astype(np.float64) - finite.view(np.float16))
    found = numbers(finite.view(np.float16), other.view(np.float16))
    assert found["abs_error_max"] == errors.max()
    assert found["abs_error_mean"] == pytest.approx(errors.mean(), rel=1e-14)
    finite = every[(every & 0x7F80) != 0x7F80]
    wide = (finite.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    found = numbers(finite, np.roll(finite, 17), ["abs_error_max"], dtype="bfloat16")
    assert found["abs_error_max"] == np.abs(np.roll(wide, 17) - wide).max()


def test_a_byte_order_that_is_not_the_machines_changes_nothing():
    rng = np.random.default_rng(0)
    for dtype in (np.float16, np.float32, np.float64, np.int32):
        reference, candidate = (rng.normal(0, 50, 30).astype(dtype) for _ in range(2))
        swapped = (side.astype(side.dtype.newbyteorder(">")) for side in (reference, candidate))
        assert numbers(*swapped) == pytest.approx(numbers(reference, candidate), rel=1e-13, nan_ok=True)


def test_padded_positions_are_measured_apart_from_real_ones():
    reference, candidate = np.ones((2, 3, 4), np.float32), np.ones((2, 3, 4), np.float32)
    mask = np.array([[True, True, False], [True, False, False]])  # one answer for each token of four elements
    candidate[~mask] = np.nan
    candidate[1, 0, 2] = 3
    both = measure_masked(NAMES, reference, candidate, mask=mask)
    assert both.real["abs_error_max"].number == 2
    assert both.real["abs_error_max"].detail["worst"][0]["index"] == [1, 0, 2]
    assert both.real["mismatch_share"].number == 1 / 12
    assert both.padded["non_finite_candidate"].number == 12
    assert both.padded["non_finite_candidate"].detail["first"][0]["index"] == [0, 2, 0]
    assert both.padded["abs_error_max"].problem
    full = np.broadcast_to(mask[..., None], reference.shape)
    assert measure(NAMES, reference, candidate, mask=full)["abs_error_mean"] == both.real["abs_error_mean"]


def test_a_mask_without_padding_leaves_nothing_to_measure_there():
    ones = np.ones((2, 3), np.float32)
    both = measure_masked(["abs_error_max"], ones, ones, mask=np.ones(2, bool))
    assert both.real["abs_error_max"].number == 0
    assert "no padded position" in both.padded["abs_error_max"].problem


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((2, 3), bool), "no real position"),
        (np.ones((3, 2), bool), "says nothing about the first axes"),
        (np.ones((2, 3), np.uint8), "made of booleans"),
    ],
    ids=["nothing-real", "other-shape", "not-boolean"],
)
def test_a_mask_that_does_not_fit_is_refused(mask, message):
    ones = np.ones((2, 3), np.float32)
    with pytest.raises(MetricError, match=message):
        measure(NAMES, ones, ones, mask=mask)


@pytest.mark.parametrize(
    ("reference", "candidate", "dtype", "message"),
    [
        (np.ones(3, np.float32), np.ones(3, np.float16), None, "dtypes differ: float32 and float16"),
        (np.ones(3, np.float32), np.ones(3, np.float32), "float16", "declared as float16"),
        (np.ones(3, np.float32), np.ones(3, np.float32), "bfloat16", "uint16 bits"),
        (np.ones(3, complex), np.ones(3, complex), None, "nothing is measured on complex128"),
        (np.array(["a"]), np.array(["a"]), None, "nothing is measured"),
    ],
    ids=["dtypes", "declared", "not-bits", "complex", "text"],
)
def test_arrays_that_are_not_what_was_declared_are_refused(reference, candidate, dtype, message):
    with pytest.raises(MetricError, match=message):
        measure(NAMES, reference, candidate, dtype=dtype)


def test_an_unknown_name_is_refused():
    with pytest.raises(MetricError, match="no tensor metric is called ssim"):
        measure(["ssim"], np.ones(3), np.ones(3))


def test_what_does_not_apply_to_a_format_is_refused_with_its_reason():
    value = measure(["ulp_max"], np.ones(3), np.ones(3))["ulp_max"]
    assert math.isnan(value.number)
    assert "float64" in value.problem
    assert "ulp_max" not in default_names(np.ones(3))
    assert "ulp_max" in default_names(np.ones(3, np.uint16), dtype="bfloat16")
