"""Each trap of tensor metrics that was met in the field, by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paritygate.errors import MetricError
from paritygate.metrics import kernel
from paritygate.metrics.specs.tensor import TENSOR
from paritygate.metrics.tensor import measure

NAMES = tuple(spec.name for spec in TENSOR)
COUNTS = {name for name in NAMES if name.startswith(("mismatch_", "non_finite_"))}


@pytest.fixture(autouse=True, params=["numpy", "kernel"])
def engine(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "library", lambda: None)
    elif kernel.library() is None:
        pytest.skip(kernel.engine())


def number(name, reference, candidate, **declared):
    value = measure([name], reference, candidate, **declared)[name]
    assert not value.problem
    return value.number


def problem(name, reference, candidate):
    value = measure([name], reference, candidate)[name]
    assert math.isnan(value.number)
    return value.problem


def bits(*values):
    """bfloat16, rounded to nearest, ties to even."""
    wide = np.asarray(values, np.float32).view(np.uint32)
    return ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)


def sine(length=4096, *, shift=0.0):
    return np.sin(2 * np.pi * (np.arange(length) / 64 + shift)).astype(np.float32)


def test_cosine_and_correlation_are_blind_to_scale_and_relative_l2_is_not():
    x = sine()
    quiet = np.float32(0.25) * x
    assert number("cosine", x, quiet) == pytest.approx(1.0, abs=1e-15)
    assert number("correlation", x, quiet) == pytest.approx(1.0, abs=1e-15)
    assert number("relative_l2", x, quiet) == pytest.approx(0.75, rel=1e-14)


def test_correlation_is_blind_to_an_offset_and_bias_over_rms_is_not():
    x = sine()
    assert number("correlation", x, x + np.float32(4)) == pytest.approx(1.0, abs=1e-12)
    assert number("bias_over_rms", x, x + np.float32(4)) == pytest.approx(1.0, abs=1e-6)


def test_cosine_of_a_quarter_period_shift_is_zero():
    assert number("cosine", sine(), sine(shift=0.25)) == pytest.approx(0.0, abs=1e-7)


def test_relative_l2_sees_noise_of_thirty_percent_that_cosine_hardly_does():
    noise = np.random.default_rng(0).normal(0, 0.3 * np.sqrt(0.5), 4096).astype(np.float32)
    assert number("cosine", sine(), sine() + noise) > 0.95
    assert number("relative_l2", sine(), sine() + noise) == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize("zero", ["reference", "candidate", "both"])
def test_cosine_of_a_zero_vector_is_refused(zero):
    one, none = np.ones(5, np.float32), np.zeros(5, np.float32)
    sides = {"reference": (none, one), "candidate": (one, none), "both": (none, none)}[zero]
    assert "zero vector" in problem("cosine", *sides)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("name", ["bias_over_rms", "correlation", "cosine"])
def test_one_element_says_nothing_about_direction(name, shape):
    assert "always 1" in problem(name, np.full(shape, 2.0), np.full(shape, 7.0))


def test_correlation_of_two_elements_is_refused():
    assert "always 1 or -1" in problem("correlation", np.array([1.0, 2.0]), np.array([5.0, 4.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_and_correlation_never_leave_the_range(dtype):
    rng = np.random.default_rng(1)
    for _ in range(100):
        x = rng.normal(size=7).astype(dtype)
        for factor in (3, -3):
            for name in ("cosine", "correlation"):
                value = measure([name], x, x * dtype(factor))[name]
                assert -1.0 <= value.number <= 1.0
                assert abs(value.detail.get("before_clamping", 1.0)) < 1 + 1e-14


def test_a_constant_side_has_no_correlation():
    flat = np.full(2000, 0.1)  # its mean is not exactly 0.1
    assert "constant: reference" in problem("correlation", flat, np.linspace(0, 1, 2000))
    assert "constant: reference and candidate" in problem("correlation", flat, flat)


def test_correlation_survives_a_mean_that_is_far_larger_than_the_deviation():
    rng = np.random.default_rng(2)
    deviations = rng.normal(size=(2, 5000))
    expected = np.corrcoef(*(deviations + 0.5 * deviations[::-1]))[0, 1]
    far = deviations + 0.5 * deviations[::-1] + 1e9
    assert number("correlation", *far) == pytest.approx(expected, rel=1e-6)  # the data keep seven digits there
    assert number("correlation", *far) == pytest.approx(np.corrcoef(*far)[0, 1], rel=1e-9)


def test_a_tiny_element_does_not_explode_the_relative_error():
    reference, candidate = np.array([1.0, 1e-8]), np.array([1.0, 1e-6])  # 99 element by element
    assert number("relative_l2", reference, candidate) == pytest.approx(9.9e-7, rel=1e-9)
    assert number("relative_linf", reference, candidate) == pytest.approx(9.9e-7, rel=1e-9)


@pytest.mark.parametrize("name", ["relative_l2", "relative_linf"])
def test_an_all_zero_reference_makes_a_relative_error_infinite_or_nothing(name):
    zero = np.zeros(4, np.float32)
    assert number(name, zero, np.full(4, 1e-30, np.float32)) == math.inf
    assert number(name, zero, zero) == 0


def test_denormals_are_not_flushed_to_zero():
    smallest = np.array([2.0**-149, 2.0**-149, 0], np.float32)
    zero = np.zeros(3, np.float32)
    assert number("abs_error_max", smallest, zero) == 2.0**-149
    assert number("relative_l2", smallest, zero) == 1
    assert number("ulp_max", smallest, zero) == 1
    half = np.array([2.0**-24], np.float16)
    assert number("abs_error_max", half, np.zeros(1, np.float16)) == 2.0**-24


def test_relative_l2_says_which_side_is_the_reference():
    small, large = np.array([1.0, 1.0]), np.array([2.0, 2.0])
    assert number("relative_l2", small, large) == 1.0
    assert number("relative_l2", large, small) == 0.5


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 3)), ((8,), (8, 2)), ((4, 4, 1), (4, 4, 3)), ((2, 3), (3, 2)), ((), (1,))], ids=str
)
def test_nothing_is_broadcast(shapes):
    first, second = (np.ones(shape, np.float32) for shape in shapes)
    with pytest.raises(MetricError, match="shapes differ"):
        measure(NAMES, first, second)


def test_empty_tensors_are_an_error_and_no_perfect_match():
    with pytest.raises(MetricError, match="no element"):
        measure(NAMES, np.ones((0, 3)), np.ones((0, 3)))


def test_no_error_grows_with_the_tensor_as_a_sum_does():
    for size in (8, 32):
        reference = np.zeros((size, size), np.float32)
        for name in ("abs_error_max", "abs_error_mean", "abs_error_p99", "abs_error_rms"):
            assert number(name, reference, reference + np.float32(0.5)) == 0.5


@pytest.mark.parametrize(
    ("dtype", "reference", "candidate", "error"),
    [
        ("uint8", 10, 12, 2),
        ("uint8", 0, 255, 255),
        ("int8", -128, 127, 255),
        ("int16", -32768, 0, 32768),
        ("int16", -32768, 32767, 65535),
        ("uint32", 2**32 - 1, 0, 2**32 - 1),
        ("int64", -(2**52), 2**52, 2**53),
        ("float16", 60000, -60000, 120000),
    ],
)
def test_a_difference_does_not_wrap_or_overflow_in_the_dtype(dtype, reference, candidate, error):
    sides = np.array([reference], dtype), np.array([candidate], dtype)
    error = abs(float(sides[0][0]) - float(sides[1][0])) if dtype == "float16" else error
    for name in ("abs_error_max", "abs_error_mean", "abs_error_p99", "abs_error_rms"):
        assert number(name, *sides) == error
    assert number("relative_linf", *sides) == (error / abs(reference) if reference else math.inf)


def test_squares_of_half_floats_do_not_overflow():
    reference, candidate = np.full(100, 300, np.float16), np.full(100, -300, np.float16)
    assert number("abs_error_rms", reference, candidate) == 600
    assert number("cosine", reference, candidate) == -1


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e307])
def test_float64_values_whose_squares_leave_the_range_are_measured(scale):
    reference, candidate = np.array([3.0, 4.0, 0.0]) * scale, np.array([3.0, 4.0, 1.0]) * scale
    assert number("relative_l2", reference, candidate) == pytest.approx(0.2, rel=1e-14)
    assert number("abs_error_rms", reference, candidate) == pytest.approx(scale / math.sqrt(3), rel=1e-14)
    assert number("abs_error_mean", reference, candidate) == pytest.approx(scale / 3, rel=1e-14)
    assert number("cosine", reference, candidate) == pytest.approx(25 / math.sqrt(25 * 26), rel=1e-14)
    unscaled = np.corrcoef([3.0, 4.0, 0.0], [3.0, 4.0, 1.0])[0, 1]
    assert number("correlation", reference, candidate) == pytest.approx(unscaled, rel=1e-12)
    assert number("bias_over_rms", reference, candidate) == pytest.approx(1 / math.sqrt(3), rel=1e-14)


def test_a_difference_beyond_float64_is_refused():
    most = np.finfo(np.float64).max
    assert "more than a float64" in problem("abs_error_mean", np.array([most, 1.0]), np.array([-most, 1.0]))


def test_bfloat16_comes_as_bits_with_its_name():
    assert number("abs_error_max", bits(750.0), bits(752.0), dtype="bfloat16") == 0  # 750 is rounded to 752
    assert number("abs_error_max", bits(999.0), bits(1000.0), dtype="bfloat16") == 0
    assert number("abs_error_max", bits(748.0), bits(752.0), dtype="bfloat16") == 4


def test_one_bfloat16_unit_at_sixteen_is_an_eighth_and_counts_as_one():
    sixteen = bits(16.0, 31.0)
    following = sixteen + np.uint16(1)
    assert number("abs_error_max", sixteen, following, dtype="bfloat16") == 0.125
    assert number("ulp_max", sixteen, following, dtype="bfloat16") == 1
    assert number("ulp_mean", sixteen, following, dtype="bfloat16") == 1
    assert number("ulp_over_1_share", sixteen, following, dtype="bfloat16") == 0
    assert number("ulp_over_1_share", sixteen, following + np.uint16(1), dtype="bfloat16") == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_units_in_the_last_place_count_through_zero_and_both_zeros_are_one(dtype):
    width = 32 if dtype == "float32" else 16
    codes = [0, 1, 3, 1 << (width - 1), (1 << (width - 1)) + 2, 1 << (width - 1)]  # 0, 1, 3 steps up; -0, 2 down; -0
    sides = np.array(codes[:3], f"uint{width}"), np.array(codes[3:], f"uint{width}")
    if dtype != "bfloat16":
        sides = tuple(side.view(dtype) for side in sides)
    assert number("ulp_max", *sides, dtype=dtype) == 3
    assert number("ulp_mean", *sides, dtype=dtype) == (0 + 3 + 3) / 3
    assert number("mismatch_count", *sides, dtype=dtype) == 2


def test_the_longest_way_through_float32_is_counted_without_overflow():
    most = np.array([np.finfo(np.float32).max], np.float32)
    assert number("ulp_max", most, -most) == 2 * 0x7F7FFFFF


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize(("side", "at"), [("reference", 0), ("candidate", 40), ("both", 99)])
def test_a_value_that_is_not_finite_is_never_hidden_by_its_order(dtype, bad, at, side):
    sides = {"reference": np.ones((10, 10), dtype), "candidate": np.ones((10, 10), dtype)}
    for name in sides if side == "both" else [side]:
        sides[name].flat[at] = bad
    found = measure(NAMES, *sides.values())
    for name in set(NAMES) - COUNTS:
        assert math.isnan(found[name].number)
        assert found[name].problem.startswith(("not finite", "units in the last place"))
    for name, array in sides.items():
        value = found[f"non_finite_{name}"]
        assert value.number == np.count_nonzero(~np.isfinite(array))
        assert value.detail["first"] == ([{"index": [at // 10, at % 10], "value": str(bad)}] if value.number else [])
    equal = side == "both" and not np.isnan(bad)
    assert found["mismatch_count"].number == (0 if equal else 1)


def test_not_a_number_in_the_same_place_of_both_sides_is_no_pass():
    x = np.array([1.0, np.nan, 3.0], np.float32)
    found = measure(["abs_error_max", "mismatch_count"], x, x)
    assert (
        "1 of the reference, the first at [1] and 1 of the candidate, the first at [1]"
        in found["abs_error_max"].problem
    )
    assert found["mismatch_count"].number == 1
    assert found["mismatch_count"].detail["first"] == [{"index": [1], "reference": "nan", "candidate": "nan"}]


def test_bfloat16_infinities_are_counted_apart_from_nan():
    candidate = np.array([0x7F80, 0xFF80, 0x7FC0, 0x3F80], np.uint16)  # inf, -inf, nan, 1
    value = measure(["non_finite_candidate"], bits(1, 1, 1, 1), candidate, dtype="bfloat16")["non_finite_candidate"]
    assert (value.number, value.detail["nan"], value.detail["infinite"]) == (3, 1, 2)
    assert [row["value"] for row in value.detail["first"]] == ["inf", "-inf", "nan"]


def test_correlation_survives_sides_of_very_different_scale():
    rng = np.random.default_rng(3)
    pair = rng.normal(5, 1, (2, 3000))
    expected = np.corrcoef(*pair)[0, 1]
    for scale in (1e-18, 1e-9, 1e9):
        assert number("correlation", pair[0], pair[1] * scale) == pytest.approx(expected, rel=1e-9)
