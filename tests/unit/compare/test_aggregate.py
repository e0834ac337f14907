"""Aggregates: what infinity and NaN do, and who is the worst."""

from __future__ import annotations

import math
import statistics

import pytest

from paritygate.compare.aggregate import aggregate, worst_index

VALUES = [3.0, 1.0, 4.0, 1.5, 9.0]


@pytest.mark.parametrize(
    ("how", "expected"),
    [("min", 1.0), ("max", 9.0), ("mean", statistics.mean(VALUES)), ("median", 3.0), ("p01", 1.0), ("p99", 9.0)],
)
def test_hand_computed_aggregates(how, expected):
    assert aggregate(VALUES, how, direction="higher") == pytest.approx(expected)


def test_all_is_the_worst_by_direction():
    assert aggregate(VALUES, "all", direction="higher") == 1.0
    assert aggregate(VALUES, "all", direction="lower") == 9.0


def test_an_even_median_is_halfway():
    assert aggregate([4.0, 1.0, 2.0, 9.0], "median", direction="higher") == 3.0


@pytest.mark.parametrize("how", ["min", "max", "mean", "median", "p01", "p99", "all"])
@pytest.mark.parametrize("values", [[0.1, math.nan], [math.nan, 0.1], [math.inf, math.nan]])
@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_not_a_number_anywhere_gives_no_number(how, values, direction):
    assert math.isnan(aggregate(values, how, direction=direction))


def test_no_values_give_no_number():
    assert math.isnan(aggregate([], "min", direction="higher"))


def test_one_perfect_image_does_not_carry_the_mean_or_the_median():
    values = [20.0, 24.0, math.inf]
    assert aggregate(values, "mean", direction="higher") == 22.0
    assert aggregate([20.0, math.inf], "median", direction="higher") == 20.0
    assert aggregate(values, "max", direction="higher") == math.inf
    assert aggregate([math.inf, math.inf], "mean", direction="higher") == math.inf
    assert aggregate([math.inf] * 3, "median", direction="higher") == math.inf


def test_percentiles_are_values_that_occurred():
    values = [float(value) for value in range(1, 201)]
    assert aggregate(values, "p01", direction="higher") == 2.0
    assert aggregate(values, "p99", direction="higher") == 198.0


def test_the_worst_is_the_first_extreme_and_a_missing_number_is_worse():
    assert worst_index([3.0, 1.0, 1.0], direction="higher") == 1
    assert worst_index([3.0, 1.0, 3.0], direction="lower") == 0
    assert worst_index([3.0, math.nan, -1.0], direction="higher") == 1
    assert worst_index([math.inf, math.inf], direction="higher") == 0
