"""Tensor metrics over many chunks: chunk borders, threads, files, the exact percentile, and the compiled kernel."""

from __future__ import annotations

import math
import mmap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from paritygate.metrics import kernel, tensor_ahead, tensor_kernel, tensor_pass, tensor_tail
from paritygate.metrics.specs.tensor import TENSOR
from paritygate.metrics.tensor import measure
from paritygate.metrics.tensor_tail import Tail
from paritygate.metrics.tensor_view import view_of

NAMES = tuple(spec.name for spec in TENSOR)


@pytest.fixture(params=["numpy", "kernel"])
def engine(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "library", lambda: None)
    elif kernel.library() is None:
        pytest.skip(kernel.engine())
    return request.param


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(tensor_pass, "NUMPY_CHUNK", 512)
    monkeypatch.setattr(tensor_pass, "KERNEL_CHUNK", 512)


def noisy(size=5003, *, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    reference = rng.normal(3, 1, size).astype(dtype)
    return reference, (reference + rng.normal(0.001, 0.01, size)).astype(dtype)


def oracle(reference, candidate):
    """Plain NumPy in float64."""
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    e = c - r
    absolute = np.sort(np.abs(e))
    return {
        "abs_error_max": absolute[-1],
        "abs_error_mean": absolute.mean(),
        "abs_error_p99": absolute[-(-99 * e.size // 100) - 1],
        "abs_error_rms": np.sqrt(np.mean(e * e)),
        "bias_over_rms": abs(e.mean()) / np.sqrt(np.mean(e * e)),
        "correlation": np.corrcoef(r, c)[0, 1],
        "cosine": r @ c / np.sqrt((r @ r) * (c @ c)),
        "mismatch_share": np.mean(r != c),
        "relative_l2": np.linalg.norm(e) / np.linalg.norm(r),
        "relative_linf": absolute[-1] / np.abs(r).max(),
    }


@pytest.mark.parametrize("size", [511, 512, 513, 1024 + 8, 5003])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_chunks_change_nothing(engine, small_chunks, size, dtype):
    pair = noisy(size, dtype=dtype)
    found = measure(NAMES, *pair)
    expected = oracle(*pair)
    assert {name: found[name].number for name in expected} == pytest.approx(expected, rel=1e-12)
    errors = np.abs(pair[1].astype(np.float64) - pair[0])
    worst = found["abs_error_max"].detail["worst"]
    assert [row["index"][0] for row in worst] == list(np.argsort(-errors, kind="stable")[:10])
    first = found["mismatch_count"].detail["first"]
    assert [row["index"][0] for row in first] == list(np.flatnonzero(errors)[:10])


def test_the_number_of_threads_changes_no_digit_and_no_place(engine, small_chunks):
    pair = noisy()
    pair[1][4000] = np.nan
    for mask in (None, np.arange(5003) != 4000):
        one, many = (measure(NAMES, *pair, mask=mask, threads=threads) for threads in (1, 5))
        assert repr(one) == repr(many)


def test_a_mapped_file_is_measured_like_an_array(engine, small_chunks, tmp_path):
    pair = noisy()
    for name, side in zip("rc", pair, strict=True):
        np.save(tmp_path / f"{name}.npy", side)
    mapped = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "rc")
    assert measure(NAMES, *mapped) == measure(NAMES, *pair)


def test_files_that_are_not_in_memory_are_read_ahead_and_only_those(monkeypatch, tmp_path):
    wishes = []

    class Mapping(mmap.mmap):
        def madvise(self, wish, start, length):
            wishes.append((wish, start % mmap.PAGESIZE, start + length))

    path = tmp_path / "values"
    path.write_bytes(bytes(3 * tensor_ahead._WINDOW))
    with path.open("rb") as stream:
        sides = [np.frombuffer(Mapping(stream.fileno(), 0, prot=mmap.PROT_READ), np.float32, offset=128) for _ in "rc"]
    view = view_of(*sides, dtype=None, mask=None, padded=False)
    for pages, expected in ((7, 0), (8, 2)):
        monkeypatch.setattr(tensor_ahead, "pages_read", lambda pages=pages: pages)
        ahead = tensor_ahead.Ahead(view, pages_before=7)
        wishes.clear()
        ahead.reach(0)
        ahead.reach(1000)
        assert wishes == [(mmap.MADV_WILLNEED, 0, tensor_ahead._WINDOW + 128)] * expected
    ahead.reach(view.size - 10)
    assert wishes[-1] == (mmap.MADV_WILLNEED, 0, 3 * tensor_ahead._WINDOW)
    in_memory = view_of(np.ones(9), np.ones(9), dtype=None, mask=None, padded=False)
    tensor_ahead.Ahead(in_memory, pages_before=0).reach(0)


def test_a_mask_leaves_out_elements_in_every_chunk(engine, small_chunks):
    reference, candidate = noisy()
    mask = np.random.default_rng(1).random(5003) < 0.7
    mask[512:1024] = False
    found = measure(NAMES, reference, candidate, mask=mask)
    expected = oracle(reference[mask], candidate[mask])
    assert {name: found[name].number for name in expected} == pytest.approx(expected, rel=1e-12)
    worst = found["abs_error_max"].detail["worst"][0]
    assert abs(reference[worst["index"][0]].item() - candidate[worst["index"][0]].item()) == expected["abs_error_max"]


def test_both_engines_find_the_same(monkeypatch):
    if kernel.library() is None:
        pytest.skip(kernel.engine())
    rng = np.random.default_rng(3)
    for dtype, declared in ((np.float32, None), (np.float16, None), (np.uint16, "bfloat16")):
        codes = [rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, 3001, np.uint64) for _ in range(2)]
        pair = [side.astype(f"u{np.dtype(dtype).itemsize}").view(dtype) for side in codes]
        if declared:  # neither NaN nor infinity
            pair = [np.where(side & 0x7F80 == 0x7F80, 0, side).astype(dtype) for side in pair]
        else:
            pair = [np.where(np.isfinite(side), side, 0).astype(dtype) for side in pair]
        with monkeypatch.context() as context:
            compiled = measure(NAMES, *pair, dtype=declared)
            context.setattr(kernel, "library", lambda: None)
            plain = measure(NAMES, *pair, dtype=declared)
        for name in NAMES:
            assert compiled[name].number == pytest.approx(plain[name].number, rel=1e-12), name
        for name in ("abs_error_max", "mismatch_count"):
            assert compiled[name].detail == plain[name].detail


def test_the_kernel_is_what_measures_when_it_is_there(monkeypatch):
    if kernel.library() is None:
        pytest.skip(kernel.engine())
    calls = []
    real = tensor_kernel.fill_row
    monkeypatch.setattr(tensor_kernel, "fill_row", lambda *args, **kwargs: (calls.append(1), real(*args, **kwargs)))
    measure(["cosine"], *noisy())
    assert calls


@pytest.mark.parametrize("size", [1, 2, 99, 100, 101, 1000, 4321])
@pytest.mark.parametrize("kind", ["normal", "rising", "falling", "ties", "zeros"])
def test_the_tail_gives_the_exact_nearest_rank(monkeypatch, size, kind):
    monkeypatch.setattr(tensor_tail, "_SORTED", 50)
    rng = np.random.default_rng(size)
    values = {
        "normal": np.abs(rng.normal(size=size)),
        "rising": np.arange(size, dtype=float),
        "falling": np.arange(size, dtype=float)[::-1],
        "ties": rng.integers(0, 3, size).astype(float),
        "zeros": np.zeros(size),
    }[kind]
    tail = Tail(size)
    tail._buffer = tail._buffer[: 2 * tail.needed]  # full after every few chunks
    for start in range(0, size, 37):
        chunk = values[start : start + 37]
        tail.add(chunk[chunk > tail.threshold])
    assert tail.percentile_99() == np.sort(values)[math.ceil(size * 99 / 100) - 1]


def test_many_threads_can_feed_one_tail():
    values = np.random.default_rng(0).random(200_000)
    tail = Tail(values.size)
    tail._buffer = tail._buffer[: 2 * tail.needed]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda start: tail.add(values[start : start + 1000]), range(0, values.size, 1000)))
    assert tail.percentile_99() == np.sort(values)[198_000 - 1]


@pytest.mark.parametrize("hidden", [False, True], ids=["typical-sample", "sample-that-misleads"])
def test_a_sampled_threshold_keeps_the_percentile_exact(engine, small_chunks, monkeypatch, hidden):
    monkeypatch.setattr(tensor_tail, "_SAMPLE_FROM", 1000)
    monkeypatch.setattr(tensor_tail, "_SAMPLE_BLOCKS", 8)
    monkeypatch.setattr(tensor_tail, "_SAMPLE_LENGTH", 20)
    pair = noisy(20_000)
    if hidden:  # wherever the sample looks, the errors are large
        monkeypatch.setattr(tensor_tail, "first_threshold", lambda _view: 1.0)
        monkeypatch.setattr(tensor_pass, "first_threshold", lambda _view: 1.0)
    assert measure(["abs_error_p99"], *pair)["abs_error_p99"].number == oracle(*pair)["abs_error_p99"]


def test_totals_stay_exact_where_float32_sums_stop_growing(engine):
    size = (1 << 24) + 4096  # a float32 counter of ones ends at 2^24
    reference, candidate = np.ones(size, np.float32), np.full(size, 2, np.float32)
    found = measure(["abs_error_mean", "mismatch_count", "relative_l2"], reference, candidate)
    assert (found["abs_error_mean"].number, found["relative_l2"].number) == (1.0, 1.0)
    assert found["mismatch_count"].number == size
