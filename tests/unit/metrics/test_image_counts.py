"""Both engines count every difference of stored levels, to the last digit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from paritygate.metrics import float_counts, image_kernel, kernel, level_counts

SHAPES = [(1, 1, 1), (7, 9, 3), (8, 8, 4), (300, 37, 3), (255, 101, 2), (600, 33, 1)]


def images(shape, dtype):
    rng = np.random.default_rng(shape[0])
    top = np.iinfo(dtype).max
    reference = rng.integers(0, top + 1, shape).astype(dtype)
    candidate = np.where(rng.random(shape) < 0.3, reference, rng.integers(0, top + 1, shape)).astype(dtype)
    extremes = reference.copy()
    extremes.flat[0] = 0
    return [(reference, candidate), (np.zeros_like(reference), np.full_like(reference, top)), (extremes, reference)]


def by_hand(reference, candidate, bins):
    error = candidate.astype(np.int64) - reference.astype(np.int64)
    apart = np.abs(error)
    cells = np.zeros((-(-apart.shape[0] // 8), -(-apart.shape[1] // 8)))
    for (row, column), value in np.ndenumerate(apart.sum(axis=2)):
        cells[row // 8, column // 8] += value
    counted = [np.bincount(part.ravel(), minlength=bins) for part in (apart, apart.max(axis=2), apart[..., -1])]
    return image_kernel.LevelCounts(*counted, signed=error.sum(axis=(0, 1)), cell_sums=cells)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_counts_are_those_made_one_by_one(shape, dtype):
    bins = np.iinfo(dtype).max + 1
    for reference, candidate in images(shape, dtype):
        expected = by_hand(reference, candidate, bins)
        ways = [level_counts.counted(reference, candidate, bins=bins, last=True)]
        if kernel.library() is not None:
            ways.append(image_kernel.level_counts(reference, candidate, bins=bins, last=True))
        for found in ways:
            for field in dataclasses.fields(expected):
                assert np.array_equal(getattr(found, field.name), getattr(expected, field.name)), field.name


@pytest.mark.parametrize("levels", [1, 2, 50, 1 << 40], ids="of {} levels".format)
def test_ranked_differences_of_floats_are_those_of_a_full_sort(levels):
    rng = np.random.default_rng(levels)
    reference = rng.integers(0, levels, (50, 700, 3)) / levels
    candidate = np.where(
        rng.random(reference.shape) < 0.5, reference, rng.integers(0, levels, reference.shape) / levels
    )
    ordered = np.sort(np.abs(candidate - reference), axis=None)
    ranks = [1, 17, ordered.size // 2, ordered.size - 1, ordered.size]
    found = float_counts.ranked(reference, candidate, ranks=ranks, maximum=float(ordered[-1]))
    assert found == [ordered[rank - 1] for rank in ranks]
