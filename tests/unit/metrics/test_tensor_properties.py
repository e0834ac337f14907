"""What holds for every pair of tensors, found by Hypothesis, and agreement with exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from paritygate.metrics import kernel
from paritygate.metrics.specs import SPECS
from paritygate.metrics.specs.tensor import TENSOR
from paritygate.metrics.tensor import measure

NAMES = tuple(spec.name for spec in TENSOR)
SYMMETRIC = sorted(set(NAMES) - {"non_finite_candidate", "non_finite_reference", "relative_l2", "relative_linf"})
#: Unchanged when the same error is repeated over a larger tensor.
TILED = sorted(set(NAMES) - {"mismatch_count", "non_finite_candidate", "non_finite_reference"})

FEW = settings(
    max_examples=20, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
VALUES = st.floats(-1e6, 1e6, width=32)
PAIRS = array_shapes(max_dims=3, max_side=6).flatmap(
    lambda shape: st.tuples(arrays(np.float32, shape, elements=VALUES), arrays(np.float32, shape, elements=VALUES))
)


@pytest.fixture(autouse=True, params=["numpy", "kernel"])
def engine(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "library", lambda: None)
    elif kernel.library() is None:
        pytest.skip(kernel.engine())


def numbers(reference, candidate, names=NAMES):
    return {name: value.number for name, value in measure(names, reference, candidate).items()}


@FEW
@given(PAIRS)
def test_a_tensor_is_identical_to_itself(pair):
    for name, value in measure(NAMES, pair[0], pair[0].copy()).items():
        assert value.problem or value.number == (SPECS[name].identical or 0.0)


@FEW
@given(PAIRS)
def test_every_number_lies_in_the_stated_range(pair):
    for name, value in measure(NAMES, *pair).items():
        assert value.problem or SPECS[name].low <= value.number <= SPECS[name].high


@FEW
@given(PAIRS)
def test_the_sides_can_be_exchanged_where_that_is_claimed_and_the_sign_turns(pair):
    forth, back = numbers(*pair, SYMMETRIC), numbers(*pair[::-1], SYMMETRIC)
    assert forth == pytest.approx(back, rel=1e-12, abs=1e-12, nan_ok=True)
    signed = [
        measure(["bias_over_rms"], *sides)["bias_over_rms"].detail.get("signed", 0) for sides in (pair, pair[::-1])
    ]
    assert signed[0] == pytest.approx(-signed[1], abs=1e-12)


@FEW
@given(PAIRS)
def test_a_candidate_that_is_higher_everywhere_has_a_positive_bias(pair):
    reference = pair[0].reshape(-1)
    assume(reference.size > 1)
    value = measure(["bias_over_rms"], reference, reference + np.float32(2e6))["bias_over_rms"]
    assert value.detail["signed"] > 0.9


@FEW
@given(PAIRS)
def test_tiling_a_pair_four_times_changes_no_mean_maximum_or_percentile(pair):
    assume(pair[0].size > 2)
    once = numbers(*pair, TILED)
    often = numbers(*(np.concatenate([side] * 4) for side in pair), TILED)
    assert often == pytest.approx(once, rel=1e-9, abs=1e-9, nan_ok=True)
    for name in ("abs_error_max", "abs_error_p99", "ulp_max", "relative_linf"):
        assert often[name] == once[name]


@FEW
@given(st.integers(0, 2**32 - 1))
def test_every_number_worsens_as_noise_grows(seed):
    rng = np.random.default_rng(seed)
    reference, noise = rng.normal(size=(2, 400))
    rows = [numbers(reference, reference + amount * noise) for amount in (0.01, 0.1, 1.0)]
    for name in set(NAMES) - {"bias_over_rms"}:
        values = [row[name] * (-1 if SPECS[name].direction == "higher" else 1) for row in rows]
        assert values == sorted(values) or math.isnan(values[0])
    assert all(rows[0][name] < rows[2][name] for name in ("abs_error_p99", "relative_l2", "relative_linf"))


@FEW
@given(PAIRS)
def test_the_numbers_are_those_of_exact_rational_arithmetic(pair):
    r, c = ([Fraction(float(value)) for value in side.reshape(-1)] for side in pair)
    e = [y - x for x, y in zip(r, c, strict=True)]
    count, square = len(e), sum(x * x for x in e)
    expected = {
        "abs_error_max": float(max(map(abs, e))),
        "abs_error_mean": float(sum(map(abs, e)) / count),
        "abs_error_p99": float(sorted(map(abs, e))[-(-99 * count // 100) - 1]),
        "abs_error_rms": math.sqrt(square / count),
        "mismatch_count": sum(x != 0 for x in e),
        "mismatch_share": sum(x != 0 for x in e) / count,
    }
    if any(r):
        expected["relative_l2"] = math.sqrt(square / sum(x * x for x in r))
        expected["relative_linf"] = float(max(map(abs, e)) / max(map(abs, r)))
    found = numbers(*pair)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-13)
    if any(r) and any(c) and count > 1:
        cosine = float(sum(x * y for x, y in zip(r, c, strict=True))) / math.sqrt(
            sum(x * x for x in r) * sum(y * y for y in c)
        )
        assert found["cosine"] == pytest.approx(cosine, rel=1e-12, abs=1e-14)
