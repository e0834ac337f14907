"""The three-way comparison: hand-computed values, the traps by name, both engines, and properties."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paritygate.errors import MetricError
from paritygate.metrics import kernel
from paritygate.metrics.specs import SPECS, default_metrics
from paritygate.metrics.threeway import DEFAULT_RULE, Rule, Triple, measure
from paritygate.metrics.threeway_errors import CHUNK
from paritygate.metrics.widen import widened

NAMES = ("bhattacharyya", "l2_ratio", "linf_ratio", "sigma_ratio")


class Bits:
    """What a tensor file gives for dtypes that NumPy lacks."""

    def __init__(self, array, dtype):
        self.array, self.dtype = array, dtype


@pytest.fixture(params=["kernel", "numpy"], autouse=True)
def engine(request, monkeypatch):
    """Every test holds for both engines."""
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "library", lambda: None)
    elif kernel.library() is None:
        pytest.skip(kernel.engine())
    return request.param


def without_kernel(function):
    """What a function returns on a machine without a compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "library", lambda: None)
        return function()


def triple(reference, low, target, *, name="input", dtype=np.float32):
    legs = {"reference": reference, "low": low, "target": target}
    return Triple(
        name=name,
        **{leg: np.asarray(array, dtype) if not isinstance(array, Bits) else array for leg, array in legs.items()},
    )


def noisy(count=16_384, *, low=0.01, target=0.01, bias=0.0, seed=0, name="input"):
    """Normal values, and errors of these standard deviations."""
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=count).astype(np.float32)
    legs = [reference + rng.normal(shift, amount, count) for amount, shift in ((low, 0.0), (target, bias))]
    return triple(reference, *legs, name=name)


def bfloat16(values):
    """Round to nearest even, as bits."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def numbers(result):
    return {name: getattr(result, name).number for name in NAMES}


def test_the_four_ratios_worked_out_by_hand():
    # Errors of low: 1, -1, 0.5, -0.5; of target: 2, -2, 0, 1, whose mean is 0.25.
    result = measure([triple([8, 16, 24, 32], [9, 15, 24.5, 31.5], [10, 14, 24, 33])])
    assert result.linf_ratio.number == 2.0
    assert result.l2_ratio.number == pytest.approx(math.sqrt(9 / 2.5), rel=1e-15)
    assert result.sigma_ratio.number == pytest.approx(math.sqrt((9 / 4 - 1 / 16) / (2.5 / 4)), rel=1e-15)
    (row,) = result.rows
    assert (row.low.max_abs, row.target.max_abs, row.target.mean) == (1.0, 2.0, 0.25)
    assert (row.low.l2, row.low.rms, row.low.std) == pytest.approx(
        [math.sqrt(2.5), math.sqrt(2.5 / 4), math.sqrt(2.5 / 4)]
    )
    assert row.low.relative_linf == 1 / 32
    assert row.target.relative_l2 == pytest.approx(3 / math.sqrt(64 + 256 + 576 + 1024))
    assert result.values == 4


def test_the_overlap_of_two_histograms_worked_out_by_hand():
    # Low: a quarter of the errors +1, three quarters -1. Target: half and half.
    reference = np.zeros(2048)
    reference[::2] = 8
    low, target = reference - 1, reference - 1
    low[::4] += 2
    target[::2] += 2
    result = measure([triple(reference, low, target)])
    assert result.bhattacharyya.number == pytest.approx(math.sqrt(1 / 8) + math.sqrt(3 / 8), rel=1e-15)
    assert [(bin_.low, bin_.target) for bin_ in result.bins.bins] == [(1536, 1024), (512, 1024)]
    assert result.bins.bins[1].start < 1.0 < result.bins.bins[1].stop


def test_a_target_equal_to_the_low_precision_reference_is_exactly_as_good():
    case = noisy()
    result = measure([Triple(name="x", reference=case.reference, low=case.low, target=case.low)])
    assert numbers(result) == dict.fromkeys(NAMES, 1.0)
    assert (result.passed, result.reasons, result.notes) == (True, (), ())


def test_numbers_worsen_with_growing_noise_and_the_rule_notices():
    results = [measure([noisy(target=amount)]) for amount in (0.01, 0.02, 0.05, 0.2)]
    for name in NAMES:
        sign = -1 if SPECS[name].direction == "higher" else 1
        values = [sign * getattr(result, name).number for result in results]
        assert values == sorted(set(values))
    assert [result.verdict for result in results] == ["passed", "failed", "failed", "failed"]


def test_the_worst_input_is_named():
    inputs = [noisy(name="a"), noisy(name="b", target=0.02), noisy(name="c", seed=5)]
    result = measure(iter(inputs))
    assert result.l2_ratio.detail["input"] == result.linf_ratio.detail["input"] == "b"
    assert "in input 'b'" in next(clause.found for clause in result.clauses if clause.name == "l2_ratio")
    assert [row.name for row in result.rows] == ["a", "b", "c"]


def test_splitting_an_input_changes_nothing_that_is_taken_over_all_inputs():
    whole = noisy(bias=0.5)
    parts = [
        Triple(name=str(place), **{leg: getattr(whole, leg)[place::3] for leg in ("reference", "low", "target")})
        for place in range(3)
    ]
    one, three = measure([whole]), measure(parts)
    assert three.bins == one.bins
    assert three.bhattacharyya == one.bhattacharyya
    assert three.sigma_ratio.number == pytest.approx(one.sigma_ratio.number, rel=1e-13)
    assert three.values == one.values == 16_384


def test_b52_two_right_bfloat16_results_pass_although_they_differ_from_each_other():
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(64, 96)), rng.normal(size=(96, 64))
    rounded = [widened(bfloat16(array), "bfloat16").astype(np.float64) for array in (left, right)]
    exact = (rounded[0] @ rounded[1]).astype(np.float32)

    def summed(order):
        total = np.zeros((64, 64), np.float32)
        for step in order:
            product = np.outer(rounded[0][:, step], rounded[1][step]).astype(np.float32)
            total = widened(bfloat16(total + product), "bfloat16")
        return total

    low, target = summed(range(96)), summed(range(95, -1, -1))
    assert np.abs(low - target).max() > 0.25
    result = measure([triple(exact, Bits(bfloat16(low), "bfloat16"), Bits(bfloat16(target), "bfloat16"))])
    assert result.passed
    assert result.rows[0].low.max_abs > 0.1 < result.rows[0].target.max_abs


@pytest.mark.parametrize("leg", ["reference", "low", "target"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_b53_a_value_that_is_not_finite_is_invalid_in_any_leg_and_never_a_pass(leg, value):
    good, bad = noisy(name="good"), noisy(name="bad")
    getattr(bad, leg)[[70, 4000]] = value
    result = measure([good, bad])
    assert (result.passed, result.verdict, result.bins) == (False, "invalid", None)
    assert all(math.isnan(number) for number in numbers(result).values())
    assert all("'bad'" in getattr(result, name).problem for name in NAMES)
    assert result.rows[1].non_finite == {leg: (2, (70,))}
    assert not result.rows[0].problem
    assert math.isfinite(result.rows[0].l2_ratio)
    assert ("reference invalid" in result.reasons[0]) == (leg == "reference")


def test_b54_a_fused_kernel_that_keeps_more_bits_is_no_fault():
    rng = np.random.default_rng(2)
    left, right, more = rng.normal(size=(3, 8192)).astype(np.float32)
    exact = left * right + more
    stepwise = bfloat16(widened(bfloat16(left * right), "bfloat16") + more)
    fused = bfloat16(exact)
    assert np.count_nonzero(stepwise != fused) > 0
    result = measure([triple(exact, Bits(stepwise, "bfloat16"), Bits(fused, "bfloat16"))])
    assert result.passed
    assert result.sigma_ratio.number < 1


def test_histogram_bins_are_common_so_that_scaled_and_shifted_errors_do_not_overlap():
    reference = np.random.default_rng(0).normal(size=4096)
    error = np.random.default_rng(1).normal(size=4096)
    result = measure([triple(reference, reference + error, reference + 5 * error + 100)])
    assert result.bhattacharyya.number == 0.0
    assert not result.passed


def test_histogram_bins_are_not_stretched_by_one_outlier():
    case, wide = noisy(target=0.05), noisy(target=0.05)
    wide.low[7] = wide.target[9] = 1e6
    apart, together = (measure([item]).bhattacharyya.number for item in (case, wide))
    assert together == pytest.approx(apart, abs=1e-3)
    assert together < 0.7


def test_histogram_bins_keep_the_sign_so_that_a_bias_shows():
    case = noisy(low=1e-3, target=1e-3)
    biased = triple(case.reference, case.low, case.reference + np.abs(case.target - case.reference))
    result = measure([biased])
    assert result.bhattacharyya.number < 0.75
    assert result.linf_ratio.number < 1.5


def test_histogram_of_a_permutation_is_equal_and_the_facts_say_so():
    case = noisy()
    error = np.random.default_rng(9).permutation(case.low - case.reference)
    assert measure([triple(case.reference, case.low, case.reference + error)]).bhattacharyya.number > 0.999
    assert "permutation" in SPECS["bhattacharyya"].blind_to


def test_histogram_of_exact_zeros_and_of_negligible_errors_are_one():
    case = noisy(4096, low=1.0)
    low, target = (np.array(case.low) for _ in range(2))
    low[:2000], target[:2000] = case.reference[:2000], case.reference[:2000] + np.float32(1e-6)
    assert measure([triple(case.reference, low, target)]).bhattacharyya.number == 1.0


def test_errors_just_below_and_just_above_a_round_number_share_a_bin():
    reference = np.tile([0.0, 4.0], 8192)
    below, above = np.nextafter(np.float32(0.5), np.float32(0)), np.nextafter(np.float32(0.5), np.float32(1))
    other = np.arange(16_384) < 8192
    legs = [reference + np.where(other, 1.0, step) for step in (below, above)]
    result = measure([triple(reference, *legs, dtype=np.float64)], rule=DEFAULT_RULE)
    assert result.bhattacharyya.number == 1.0
    half = next(bin_ for bin_ in result.bins.bins if bin_.start < 0.5 < bin_.stop)
    assert (half.start, half.stop) == (0.484375, 0.53125)
    assert "8 equal bins per power of two" in result.bins.definition


@pytest.mark.parametrize(("count", "steps"), [(2048, 1), (4095, 1), (4096, 2), (16_383, 4), (16_384, 8)])
def test_the_bins_widen_when_values_are_few_and_their_number_is_stated(count, steps):
    result = measure([noisy(count)])
    assert result.bins.per_octave == steps
    assert f"{steps} equal bin" in result.bins.definition
    # Two samples of one distribution: what chance takes off is less than the rule allows.
    assert result.bhattacharyya.number > 0.993


def test_too_few_values_for_a_histogram_are_judged_without_it_and_the_result_says_so():
    case = noisy(2047)
    result = measure([Triple(name="x", reference=case.reference, low=case.low, target=case.low)])
    assert math.isnan(result.bhattacharyya.number)
    assert "too few" in result.bhattacharyya.problem
    assert result.passed
    assert "sigma_ratio alone" in result.notes[0]
    worse = triple(case.reference, case.low, case.reference + (case.low - case.reference) * np.float32(1.25))
    assert not measure([worse]).passed


def test_one_bin_for_all_errors_is_no_overlap_but_a_refusal():
    reference = np.arange(4096.0)
    result = measure([triple(reference, reference + 0.5, reference + 0.5)])
    assert "one bin" in result.bhattacharyya.problem
    assert (result.sigma_ratio.number, result.passed) == (1.0, True)
    assert "one bin" in result.notes[0]


def test_constant_errors_of_different_size_fail_although_neither_deviates():
    reference = np.arange(4096.0)
    result = measure([triple(reference, reference + 0.125, reference - 1.3)])
    assert result.sigma_ratio.detail["low"] == 0.0
    assert result.bhattacharyya.number == 0.0
    assert {clause.name for clause in result.clauses if not clause.met} >= {"linf_ratio", "l2_ratio"}


def test_a_constant_error_has_no_deviation_whatever_its_digits():
    reference = np.zeros(5000)
    reference[1] = 3
    result = measure([triple(reference, reference + 0.1, reference + 0.7, dtype=np.float64)])
    assert result.rows[0].target.std < 1e-15
    exact = triple(np.zeros(5000) + (np.arange(5000) == 4096), *(np.full(5000, 0.3) + (np.arange(5000) == 4096),) * 2)
    assert measure([exact]).sigma_ratio.number == 1.0


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_a_constant_reference_compares_nothing(value):
    result = measure([triple(*[np.full(3000, value)] * 3)])
    assert (result.verdict, result.passed) == ("invalid", False)
    assert "one value only" in result.reasons[0]


def test_a_single_value_compares_nothing():
    assert measure([triple([1.0], [1.0], [1.0])]).verdict == "invalid"
    assert measure([triple(1.0, 1.5, 1.25)]).verdict == "invalid"


def test_a_baseline_without_error_allows_none():
    case = noisy()
    result = measure([Triple(name="x", reference=case.reference, low=case.reference, target=case.target)])
    assert result.linf_ratio.number == result.l2_ratio.number == result.sigma_ratio.number == math.inf
    assert result.verdict == "failed"
    assert "the low-precision reference equals the exact reference in input 'x'" in result.notes


def test_a_baseline_without_error_is_met_by_a_target_without_error_and_the_result_says_so():
    case = noisy()
    result = measure([Triple(name="x", reference=case.reference, low=case.reference, target=case.reference)])
    assert result.linf_ratio.number == result.l2_ratio.number == result.sigma_ratio.number == 1.0
    assert result.passed
    assert [note.split(" equals")[0] for note in result.notes[1:]] == ["the low-precision reference", "the target"]


def test_a_declared_floor_makes_tiny_errors_equal_and_leaves_large_ones():
    reference = np.linspace(0, 1, 4096)
    tiny, large = reference + 1e-6, reference + 1e-2
    rule = Rule(floor=1e-4)
    assert measure([triple(reference, reference, tiny, dtype=np.float64)], rule=rule).passed
    result = measure([triple(reference, reference, large, dtype=np.float64)], rule=rule)
    assert (result.linf_ratio.number, result.l2_ratio.number) == pytest.approx((100, 100))


def test_one_input_without_error_does_not_hide_behind_others():
    exact = noisy(name="exact")
    exact.low[:] = exact.reference
    result = measure([noisy(name="a"), exact, noisy(name="b")])
    assert result.linf_ratio.detail["input"] == "exact"
    assert not result.passed


@pytest.mark.parametrize(
    ("legs", "message"),
    [
        (([1, 2], [1, 2], [1, 2, 3]), r"the shapes differ: reference \(2,\), low \(2,\), target \(3,\)"),
        (([[1], [2]], [[1, 2]], [[1, 2]]), "the shapes differ"),
        (([[1, 2]], [1, 2], [1, 2]), "the shapes differ"),
        (([], [], []), "holds no values"),
        (([1, 2], [1, 2], Bits(np.zeros(2, np.int32), "int32")), "the target is int32"),
        (([1, 2], Bits(np.zeros(2, np.uint16), "uint16"), [1, 2]), "the low-precision reference is uint16"),
        (([1, 2], Bits(np.zeros(2, np.float32), "bfloat16"), [1, 2]), "the low-precision reference is bfloat16"),
        (
            (Bits(np.zeros(2, np.uint16), "bfloat16"), [1, 2], [1, 2]),
            "the exact reference is bfloat16, expected float32",
        ),
        ((Bits(np.zeros(2, bool), "bool"), [1, 2], [1, 2]), "the exact reference is bool"),
    ],
    ids=["count", "broadcast", "axes", "empty", "integers", "bits", "no-bits", "low-precision-truth", "booleans"],
)
def test_inputs_that_cannot_be_compared_are_refused(legs, message):
    with pytest.raises(MetricError, match=message):
        measure([triple(*legs)])


def test_no_inputs_and_two_of_one_name_are_refused():
    with pytest.raises(MetricError, match="no inputs"):
        measure([])
    with pytest.raises(MetricError, match="two inputs are named 'input'"):
        measure([noisy(), noisy()])


@pytest.mark.parametrize(
    "limits",
    [
        {"linf_ratio_below": math.inf},
        {"l2_ratio_below": math.nan},
        {"sigma_ratio_at_most": 0.0},
        {"bhattacharyya_at_least": 1.5},
        {"floor": -1.0},
    ],
    ids=str,
)
def test_a_rule_that_nothing_or_everything_meets_is_refused(limits):
    with pytest.raises(MetricError, match=next(iter(limits))):
        Rule(**limits)


def test_the_default_rule_is_the_published_one_and_its_ends_are_exact():
    published = Rule(
        bhattacharyya_at_least=0.99, sigma_ratio_at_most=1.0, linf_ratio_below=5.0, l2_ratio_below=3.0, floor=0.0
    )
    assert published == DEFAULT_RULE
    reference, error = np.tile([0.0, 8.0], 500), np.tile([1.0, 0.0, -1.0, 0.0], 250)
    met = {
        factor: {
            clause.name: clause.met
            for clause in measure([triple(reference, reference + error, reference + error * factor)]).clauses
        }
        for factor in (1.0, 3.0, 5.0, np.nextafter(np.float32(5), np.float32(0)))
    }
    assert met[1.0] == {"distribution": True, "linf_ratio": True, "l2_ratio": True}
    assert met[3.0] == {"distribution": False, "linf_ratio": True, "l2_ratio": False}
    assert not met[5.0]["linf_ratio"]
    assert met[np.nextafter(np.float32(5), np.float32(0))]["linf_ratio"]


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_errors_whose_squares_leave_float64_are_invalid(size):
    reference = np.array([1.0, 2.0, 3.0]) * size
    result = measure([triple(reference, reference * 1.5, reference * 1.25, dtype=np.float64)])
    assert result.verdict == "invalid"
    assert "range of float64" in result.reasons[0]


def test_errors_beyond_float32_are_counted_in_the_last_bin():
    reference = np.linspace(0, 1, 4000)
    result = measure([triple(reference, reference + 1e60, reference - 1e60, dtype=np.float64)])
    assert [(bin_.low, bin_.target) for bin_ in result.bins.bins] == [(0, 4000), (4000, 0)]
    assert result.bins.bins[-1].stop == math.inf


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_every_dtype_is_widened_exactly(dtype):
    rng = np.random.default_rng(4)
    stored = {"bfloat16": np.uint16, "float16": np.uint16}.get(dtype, np.uint8)
    bits = rng.integers(0, np.iinfo(stored).max, (2, 4000), dtype=stored, endpoint=True)
    values = [widened(leg.view(np.float16) if dtype == "float16" else leg, dtype) for leg in bits]
    keep = np.isfinite(values).all(axis=0) & (np.abs(values) < 1e4).all(axis=0)
    legs = [leg[keep].view(np.float16) if dtype == "float16" else leg[keep] for leg in bits]
    reference = rng.normal(size=keep.sum())
    narrow = measure([triple(reference, Bits(legs[0], dtype), Bits(legs[1], dtype))])
    wide = measure([triple(reference, values[0][keep], values[1][keep])])
    assert numbers(narrow) == numbers(wide)
    assert narrow.rows[0].dtypes == ("float32", dtype, dtype)


def test_float8_values_are_those_of_the_specification():
    e4m3 = widened(np.array([0x00, 0x01, 0x08, 0x38, 0x7E, 0x7F, 0x80, 0xC0, 0xFF], np.uint8), "float8_e4m3fn")
    assert np.array_equal(e4m3, [0, 2**-9, 2**-6, 1, 448, math.nan, -0.0, -2, math.nan], equal_nan=True)
    e5m2 = widened(np.array([0x01, 0x3C, 0x7B, 0x7C, 0x7F, 0xFC], np.uint8), "float8_e5m2")
    assert np.array_equal(e5m2, [2**-16, 1, 57344, math.inf, math.nan, -math.inf], equal_nan=True)


def test_a_bad_value_is_named_by_its_place_whatever_the_order_in_memory():
    case = noisy(6 * 35 * 50)
    for turn in (np.ascontiguousarray, np.asfortranarray):
        legs = [turn(np.array(getattr(case, leg)).reshape(6, 35, 50)) for leg in ("reference", "low", "target")]
        legs[2][2, 5, 7] = np.nan
        (row,) = measure([triple(*legs)]).rows
        assert row.non_finite == {"target": (1, (2, 5, 7))}
        assert "at [2, 5, 7]" in row.problem
    far = noisy(CHUNK + 100)
    far.low[CHUNK + 3] = np.inf
    assert measure([far]).rows[0].non_finite == {"low": (1, (CHUNK + 3,))}


def test_the_order_in_memory_changes_nothing():
    case = noisy(60 * 70, target=0.02)
    plain = [np.array(getattr(case, leg)).reshape(60, 70) for leg in ("reference", "low", "target")]
    expected = numbers(measure([triple(*plain)]))
    spread = np.zeros((60, 140), np.float32)
    spread[:, ::2] = plain[1]
    swapped = plain[0].astype(">f4")
    unaligned = np.frombuffer(b"\0" + plain[2].tobytes(), np.uint8)[1:].view(np.float32).reshape(60, 70)
    mixed = Triple(name="x", reference=swapped, low=spread[:, ::2], target=np.asfortranarray(unaligned))
    assert numbers(measure([mixed])) == pytest.approx(expected, rel=1e-14)
    unmoved = Triple(name="x", reference=swapped, low=spread[:, ::2], target=unaligned)
    assert numbers(measure([unmoved])) == expected


def test_memory_does_not_grow_with_the_inputs():
    case = noisy(1 << 21)
    tracemalloc.start()
    try:
        measure([case])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20


def test_every_measured_number_has_its_facts():
    assert default_metrics("threeway") == NAMES
    for name in NAMES:
        value = getattr(measure([noisy()]), name).number
        assert SPECS[name].low <= value <= SPECS[name].high


LENGTHS = st.one_of(st.integers(1, 40), st.sampled_from([2047, 2048, 2049, 4103, CHUNK, CHUNK + 1]))
SHIFTS = st.sampled_from([0.0, 1e-3, 1.0, 1e4])


@settings(max_examples=40, deadline=None)
@given(count=LENGTHS, seed=st.integers(0, 2**32 - 1), bias=SHIFTS)
def test_numbers_are_those_of_exact_sums_and_both_engines_count_alike(count, seed, bias):
    case = noisy(count, low=0.5, target=0.3, bias=bias, seed=seed)
    result = measure([case])
    other = without_kernel(lambda: measure([case]))
    exact = np.asarray(case.reference, np.float64)
    errors = [np.asarray(leg, np.float64) - exact for leg in (case.low, case.target)]
    for found, also, error in zip(
        (result.rows[0].low, result.rows[0].target), (other.rows[0].low, other.rows[0].target), errors, strict=True
    ):
        mean = math.fsum(error) / count
        expected = (
            np.abs(error).max(),
            math.sqrt(math.fsum(error * error)),
            mean,
            math.sqrt(math.fsum((error - mean) ** 2) / count),
        )
        assert (found.max_abs, found.l2, found.mean, found.std) == pytest.approx(expected, rel=1e-9, abs=1e-13)
        assert (also.max_abs, also.l2, also.mean, also.std) == pytest.approx(expected, rel=1e-9, abs=1e-13)
    assert other.bins == result.bins
    for side in ("low", "target"):
        assert count == 1 or sum(getattr(bin_, side) for bin_ in result.bins.bins) == count


FLOATS = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)


@settings(max_examples=60, deadline=None)
@given(
    legs=hnp.arrays(np.float32, st.tuples(st.just(3), st.integers(2, 60)), elements=FLOATS), scale=st.integers(-20, 20)
)
def test_a_power_of_two_changes_no_number(legs, scale):
    legs[np.abs(legs) < 1e-20] = 0
    result, scaled = (measure([triple(*(legs * np.float32(factor)))]) for factor in (1.0, 2.0**scale))
    assert repr(numbers(scaled)) == repr(numbers(result))
    assert scaled.verdict == result.verdict


@settings(max_examples=60, deadline=None)
@given(legs=hnp.arrays(np.float32, st.tuples(st.just(3), st.integers(1, 60)), elements=st.floats(width=32)))
def test_a_pass_is_never_silent_whatever_the_values(legs):
    result = measure([triple(*legs)])
    finite = bool(np.isfinite(legs).all())
    assert finite or result.verdict == "invalid"
    assert result.passed == (not result.reasons)
    if result.passed:
        assert all(clause.met for clause in result.clauses)
        assert result.linf_ratio.number < 5
        assert result.l2_ratio.number < 3
        assert result.sigma_ratio.number <= 1
        assert np.ptp(legs[0]) > 0
