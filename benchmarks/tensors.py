"""Tensor metrics: every one of them over two files in one pass, beside naive NumPy, ``np.sum`` and reading the files.

    .venv/bin/python benchmarks/tensors.py [--elements 500000000] [--rounds 3] [--folder DIR] [--no-cold]

One thread. The best of the rounds counts, ours and ``np.sum`` alternating; naive NumPy runs once. Memory is anonymous
memory, sampled; pages of the mapped files are not in it. Last, the files are dropped from the page cache, and measuring
them is compared with reading them. The numbers are held against float64 totals from ``math.fsum``. The goals are for
the default number of elements; exits 1 when one is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from paritygate.metrics import kernel
from paritygate.metrics.tensor import default_names, measure

#: Goals: times naive NumPy, times ``np.sum`` by engine, MiB, times reading cold files, relative error.
NAIVE_GOAL, SUM_GOALS, MEMORY_GOAL_MIB, COLD_GOAL, ERROR_GOAL = 10.0, {"numpy": 7.0, "kernel": 3.0}, 256, 1.3, 1e-9
BLOCK = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=500_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the two files are kept; a temporary folder by default")
    parser.add_argument("--no-cold", dest="cold", action="store_false", help="leave the page cache alone")
    arguments = parser.parse_args()
    print(f"measured with {kernel.engine()}")
    with tempfile.TemporaryDirectory() as temporary:
        files = write_pair(arguments.folder or Path(temporary), arguments.elements)
        met = [*warm(files, arguments.rounds)]
        if arguments.cold:
            met += [cold(files, arguments.rounds)]
    return 0 if all(met) else 1


def write_pair(folder: Path, elements: int) -> tuple[Path, Path]:
    """Two ``.npy`` files of float32: normal values, and the same with noise of a thousandth."""
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"reference-{elements}.npy", folder / f"candidate-{elements}.npy"
    if all(file.exists() for file in files):
        return files
    rng = np.random.default_rng(0)
    sides = [np.lib.format.open_memmap(file, "w+", np.float32, (elements,)) for file in files]
    for start in range(0, elements, BLOCK):
        size = min(BLOCK, elements - start)
        reference = rng.standard_normal(size, dtype=np.float32)
        sides[0][start : start + size] = reference
        sides[1][start : start + size] = reference + np.float32(1e-3) * rng.standard_normal(size, dtype=np.float32)
    for side in sides:
        side.flush()
    return files


def warm(files: tuple[Path, Path], rounds: int) -> Iterator[bool]:
    reference, candidate = mapped(files)
    names = default_names(reference)
    engines = {"numpy": None, "kernel": kernel.library()} if kernel.library() else {"numpy": None}
    sums, ours = [], {engine: [] for engine in engines}
    peaks: dict[str, float] = {}
    values: dict[str, Mapping[str, float]] = {}
    for _ in range(rounds):
        sums.append(timed(lambda: [np.sum(side) for side in mapped(files)]))
        for engine, library in engines.items():
            with using(library), anonymous_peak(peaks, engine):
                start = time.perf_counter()
                found = measure(names, *mapped(files))
                ours[engine].append(time.perf_counter() - start)
            values[engine] = {name: value.number for name, value in found.items()}
    naive_s = timed(lambda: naive(reference, candidate))
    exact = exact_numbers(reference, candidate)
    print(f"{reference.size:,} float32 elements, {len(names)} metrics, 1 thread, best of {rounds}")
    print(f"np.sum over both files {min(sums):6.2f} s   naive NumPy {naive_s:6.2f} s")
    for engine, seconds in ours.items():
        best = min(seconds)
        error = max(abs(values[engine][name] / number - 1) for name, number in exact.items())
        print(
            f"{engine:<7} {best:6.2f} s   {best / min(sums):5.2f} x np.sum (goal {SUM_GOALS[engine]})   naive / ours "
            f"{naive_s / best:5.1f} (goal {NAIVE_GOAL})   {peaks[engine]:4.0f} MiB (goal {MEMORY_GOAL_MIB})   "
            f"largest relative error {error:.1e} (goal {ERROR_GOAL})"
        )
        yield best / min(sums) <= SUM_GOALS[engine] and naive_s / best >= NAIVE_GOAL
        yield peaks[engine] <= MEMORY_GOAL_MIB and error <= ERROR_GOAL
        yield is_nearest_rank(values[engine]["abs_error_p99"], reference, candidate)


def cold(files: tuple[Path, Path], rounds: int) -> bool:
    reads, ours = [], []
    for _ in range(rounds):
        forget(files)
        reads.append(timed(lambda: read(files)))
        forget(files)
        ours.append(timed(lambda: measured_files(files)))
    ratio = min(ours) / min(reads)
    print(f"cold    {min(ours):6.2f} s   reading both files {min(reads):6.2f} s   ratio {ratio:.2f} (goal {COLD_GOAL})")
    return ratio <= COLD_GOAL


def measured_files(files: tuple[Path, Path]) -> object:
    reference, candidate = mapped(files)
    return measure(default_names(reference), reference, candidate)


def mapped(files: tuple[Path, Path]) -> tuple[np.ndarray, np.ndarray]:
    """The two arrays, mapped anew: what the first touch of each page costs is part of every time."""
    reference, candidate = (np.load(file, mmap_mode="r") for file in files)
    return reference, candidate


def read(files: tuple[Path, Path]) -> None:
    buffer = memoryview(bytearray(4 << 20))
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass


def forget(files: tuple[Path, Path]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def naive(reference: np.ndarray, candidate: np.ndarray) -> tuple[float, ...]:
    """What one writes down first; without the bit distances and the worst places."""
    error = candidate - reference
    return (
        np.abs(error).max(),
        np.abs(error).mean(),
        np.percentile(np.abs(error), 99),
        np.sqrt(np.mean(error**2)),
        np.linalg.norm(error) / np.linalg.norm(reference),
        np.abs(error).max() / np.abs(reference).max(),
        np.dot(reference, candidate) / (np.linalg.norm(reference) * np.linalg.norm(candidate)),
        np.mean((reference - reference.mean()) * (candidate - candidate.mean())) / (reference.std() * candidate.std()),
        np.mean(error) / np.sqrt(np.mean(error**2)),
        np.count_nonzero(reference != candidate),
        np.count_nonzero(~np.isfinite(reference)),
        np.count_nonzero(~np.isfinite(candidate)),
    )


def exact_numbers(reference: np.ndarray, candidate: np.ndarray) -> dict[str, float]:
    """From float64 blocks and totals without rounding."""
    rows, largest, count = [], 0.0, reference.size
    for start in range(0, count, BLOCK):
        r, c = (side[start : start + BLOCK].astype(np.float64) for side in (reference, candidate))
        e = c - r
        largest = max(largest, np.abs(e).max())
        rows.append([x.sum() for x in (r, c, e, abs(e), r * r, c * c, e * e, r * c)])
    r, c, e, absolute, rr, cc, ee, rc = (math.fsum(column) for column in zip(*rows, strict=True))
    return {
        "abs_error_max": largest,
        "abs_error_mean": absolute / count,
        "abs_error_rms": math.sqrt(ee / count),
        "bias_over_rms": abs(e / count) / math.sqrt(ee / count),
        "correlation": (rc - r * c / count) / math.sqrt((rr - r * r / count) * (cc - c * c / count)),
        "cosine": rc / math.sqrt(rr * cc),
        "relative_l2": math.sqrt(ee / rr),
    }


def is_nearest_rank(value: float, reference: np.ndarray, candidate: np.ndarray) -> bool:
    """Whether the value is the exact 99th percentile of the errors: counted, not sorted."""
    below = up_to = 0
    for start in range(0, reference.size, BLOCK):
        r, c = (side[start : start + BLOCK].astype(np.float64) for side in (reference, candidate))
        error = np.abs(c - r)
        below += np.count_nonzero(error < value)
        up_to += np.count_nonzero(error <= value)
    rank = -(-99 * reference.size // 100)
    print(f"        rank of the 99th percentile {rank:,}, found {below + 1:,} to {up_to:,}")
    return below < rank <= up_to


@contextmanager
def using(library: object) -> Iterator[None]:
    before = kernel.library
    kernel.library = lambda: library  # type: ignore[assignment]
    try:
        yield
    finally:
        kernel.library = before


@contextmanager
def anonymous_peak(peaks: dict[str, float], name: str) -> Iterator[None]:
    """Highest anonymous memory above that at the start, in MiB."""
    done, base, highest = threading.Event(), anonymous_mib(), [0.0]

    def watch() -> None:
        while not done.wait(0.005):
            highest[0] = max(highest[0], anonymous_mib() - base)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        peaks[name] = max(peaks.get(name, 0.0), highest[0])


def anonymous_mib() -> float:
    (line,) = [row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
