"""The three-way comparison of three large float32 files beside naive NumPy: time, memory, digits.

    .venv/bin/python benchmarks/threeway.py [--values 500000000] [--folder DIR] [--rounds 2]

Naive is what people write: whole arrays, ``np.linalg.norm``, ``std`` and two ``np.histogram``. Both sides read the
same mapped files with a warm cache and one thread, alternating, and the best of the rounds counts; the ratio of
processor times is printed too. Memory is what the process holds beyond the mapping (``RssAnon``), looked at every 5 ms.
Digits are those of the ratios against float64 by chunks, added without rounding. Goals: the engine that is used here
at least 8x as fast; less than 64 MiB, within 1e-9, counts that sum to the number of values; else the script exits 1.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import contextlib
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paritygate.media.tensors import UNNAMED, read_tensors
from paritygate.metrics import kernel
from paritygate.metrics.threeway import ThreeWay, Triple, measure

GOAL_RATIO = 8.0
GOAL_MIB = 64.0
GOAL_DIGITS = 1e-9
LEGS = ("reference", "low", "target")
CHUNK = 1 << 22

Arrays = tuple[NDArray[np.float32], ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=500_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the files are written; default: a temporary folder")
    options = parser.parse_args()
    print(f"{options.values} values in each of three files, one thread")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = written(Path(folder), values=options.values)
        truth = exact(paths)  # also warms the page cache
        jobs: dict[str, Callable[[], object]] = {"naive NumPy": lambda: naive(paths)}
        jobs |= {name: lambda switch=switch: ours(paths, switch=switch) for name, switch in engines().items()}
        seconds, processor = dict.fromkeys(jobs, math.inf), dict.fromkeys(jobs, math.inf)
        peaks, results = dict.fromkeys(jobs, 0.0), {}
        for _ in range(options.rounds):
            for name, job in jobs.items():
                with peak_mib() as peak:
                    started, used = time.perf_counter(), time.process_time()
                    results[name] = job()
                    processor[name] = min(processor[name], time.process_time() - used)
                    seconds[name] = min(seconds[name], time.perf_counter() - started)
                peaks[name] = max(peaks[name], peak[0])
    missed = False
    for name, result in results.items():
        ratio = seconds["naive NumPy"] / seconds[name]
        used_ratio = processor["naive NumPy"] / processor[name]
        line = f"{name:<12} {seconds[name]:7.2f} s  {ratio:5.1f}x (processor {used_ratio:.1f}x)  {peaks[name]:8.1f} MiB"
        if isinstance(result, ThreeWay):
            off = digits(result, truth)
            counted = {sum(getattr(bin_, side) for bin_ in result.bins.bins) for side in ("low", "target")}
            whole = counted == {options.values}
            used_here = name == next(reversed(jobs))
            missed |= (used_here and ratio < GOAL_RATIO) or peaks[name] >= GOAL_MIB or off > GOAL_DIGITS or not whole
            line += f"  {off:.1e} off float64  counts sum to {'N' if whole else counted}"
        print(line)
    print(f"goals: {GOAL_RATIO:g}x, {GOAL_MIB:g} MiB, {GOAL_DIGITS:g}, N; on a busy machine, repeat with more --rounds")
    return int(missed)


def engines() -> dict[str, bool]:
    """Name -> whether the compiled kernel computes."""
    if kernel.library() is None:
        print(f"without the kernel: {kernel.engine()}")
        return {"NumPy": False}
    return {"NumPy": False, "kernel": True}


def written(folder: Path, *, values: int) -> dict[str, Path]:
    """Normal values, and two legs with normal errors of 0.002 and 0.0021."""
    rng = np.random.default_rng(3)
    paths = {leg: folder / f"{leg}.npy" for leg in LEGS}
    files = {
        leg: np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(values,))
        for leg, path in paths.items()
    }
    for start in range(0, values, CHUNK):
        chosen = slice(start, min(start + CHUNK, values))
        reference = rng.standard_normal(chosen.stop - start, dtype=np.float32)
        files["reference"][chosen] = reference
        for leg, amount in (("low", 0.002), ("target", 0.0021)):
            noise = rng.standard_normal(chosen.stop - start, dtype=np.float32)
            files[leg][chosen] = reference + noise * np.float32(amount)
    for file in files.values():
        file.flush()
    return paths


def mapped(paths: dict[str, Path]) -> Arrays:
    return tuple(np.load(paths[leg], mmap_mode="r") for leg in LEGS)


def naive(paths: dict[str, Path]) -> tuple[float, ...]:
    reference, low, target = mapped(paths)
    low_error, target_error = low - reference, target - reference
    low_size, target_size = np.abs(low_error), np.abs(target_error)
    top = max(low_size.max(), target_size.max())
    low_counts, target_counts = (np.histogram(size, 1024, (0, top))[0] for size in (low_size, target_size))
    return (
        float(target_size.max() / low_size.max()),
        float(low_size.max() / np.abs(reference).max()),
        float(np.linalg.norm(low_error) / np.linalg.norm(reference)),
        float(np.linalg.norm(target_error) / np.linalg.norm(reference)),
        float(target_error.std() / low_error.std()),
        float(np.sqrt(low_counts / low_counts.sum() * (target_counts / target_counts.sum())).sum()),
    )


def ours(paths: dict[str, Path], *, switch: bool) -> ThreeWay:
    library = kernel.library
    if not switch:
        kernel.library = lambda: None
    try:
        legs = {leg: read_tensors(paths[leg])[UNNAMED] for leg in LEGS}
        return measure([Triple(name="file", **legs)])
    finally:
        kernel.library = library


def exact(paths: dict[str, Path]) -> dict[str, float]:
    """The ratios from float64 chunks whose sums are added without rounding."""
    reference, low, target = mapped(paths)
    sums: dict[str, list[float]] = {}
    largest = dict.fromkeys(LEGS, 0.0)
    for start in range(0, reference.size, CHUNK):
        chosen = slice(start, start + CHUNK)
        wide = reference[chosen].astype(np.float64)
        for leg, array in (("low", low), ("target", target)):
            error = array[chosen].astype(np.float64) - wide
            largest[leg] = max(largest[leg], float(np.abs(error).max()))
            sums.setdefault(leg, []).append(float(error.sum()))
            sums.setdefault(f"{leg} squared", []).append(float((error * error).sum()))
    l2 = {leg: math.fsum(sums[f"{leg} squared"]) for leg in ("low", "target")}
    variance = {leg: l2[leg] / reference.size - (math.fsum(sums[leg]) / reference.size) ** 2 for leg in l2}
    return {
        "linf_ratio": largest["target"] / largest["low"],
        "l2_ratio": math.sqrt(l2["target"] / l2["low"]),
        "sigma_ratio": math.sqrt(variance["target"] / variance["low"]),
    }


def digits(result: ThreeWay, truth: dict[str, float]) -> float:
    return max(abs(getattr(result, name).number / value - 1) for name, value in truth.items())


@contextlib.contextmanager
def peak_mib() -> Iterator[list[float]]:
    """The most anonymous memory above that at the start, in the first place of a list."""
    before, peak, done = anonymous_mib(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], anonymous_mib() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def anonymous_mib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
