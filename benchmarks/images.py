"""SSIM of a pair of RGB pictures beside scikit-image and torchmetrics, and the default set of metrics beside SSIM.

    .venv/bin/python benchmarks/images.py [--rounds 5]

One thread each, arrays of bytes in, conversions included. All take turns within one run, and the best of the rounds
counts, in processor time: a neighbour on the machine would be in wall time. Exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from skimage import data
from skimage.metrics import structural_similarity
from torchmetrics.functional.image import structural_similarity_index_measure

from paritygate.metrics import kernel
from paritygate.metrics.image import default_names, measure

Pixels = NDArray[np.uint8]

#: engine -> size -> lowest speed of SSIM against scikit-image.
SPEED_GOALS = {"numpy": {1024: 7.0, 2048: 9.0}, "kernel": {1024: 25.0, 2048: 30.0}}
TORCHMETRICS_GOAL = 10.0
#: engine -> highest time of the default set as a multiple of SSIM alone.
SET_GOALS = {"numpy": 1.5, "kernel": 2.5}
#: engine -> most memory beyond the pair, of SSIM.
MEMORY_GOALS_MIB = {"numpy": 16.0, "kernel": 4.0}
SET_MEMORY_GOAL_MIB = 16.0
ERROR_GOAL = 1e-7


class Row(NamedTuple):
    """One comparison. ``goal`` is the limit of ``value``: the highest allowed, the lowest with ``at_least``."""

    name: str
    value: float
    goal: float
    at_least: bool = False

    def met(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def pair(size: int) -> tuple[Pixels, Pixels]:
    """A photograph and the same with noise of two levels."""
    reference = np.asarray(Image.fromarray(data.astronaut()).resize((size, size), Image.Resampling.LANCZOS))
    noise = np.random.default_rng(0).normal(0, 2, reference.shape)
    return reference.copy(), np.clip(np.rint(reference + noise), 0, 255).astype(np.uint8)


def scikit_image(reference: Pixels, candidate: Pixels) -> float:
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "channel_axis": 2}
    return float(structural_similarity(reference, candidate, data_range=255, **options))


def torchmetrics(reference: Pixels, candidate: Pixels) -> float:
    sides = [torch.from_numpy(side).permute(2, 0, 1)[None].float() for side in (candidate, reference)]
    return float(structural_similarity_index_measure(*sides, data_range=255.0))


def ssim(reference: Pixels, candidate: Pixels) -> float:
    return measure(("ssim",), reference, candidate, data_range=255, mode="RGB")["ssim"].number


def default_set(reference: Pixels, candidate: Pixels) -> float:
    return measure(default_names("RGB"), reference, candidate, data_range=255, mode="RGB")["ssim"].number


@contextmanager
def engine(name: str) -> Iterator[None]:
    with mock.patch.object(kernel, "library", kernel.library if name == "kernel" else lambda: None):
        yield


def with_engine(name: str, job: Callable[..., float]) -> Callable[..., float]:
    def run(*sides: Pixels) -> float:
        with engine(name):
            return job(*sides)

    return run


def best_s(jobs: dict[str, Callable[..., float]], sides: tuple[Pixels, Pixels], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.process_time()
            job(*sides)
            best[name] = min(best[name], time.process_time() - start)
    return best


def peak_mib(job: Callable[..., Any], sides: tuple[Pixels, Pixels]) -> float:
    """Most memory held at once by arrays. The kernel's own buffers come on top: 0.4 MiB for bytes."""
    tracemalloc.start()
    job(*sides)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def rows(size: int, rounds: int, engines: list[str]) -> list[Row]:
    sides = pair(size)
    jobs = {"scikit-image": scikit_image, "torchmetrics": torchmetrics}
    for name in engines:
        jobs |= {f"{name} ssim": with_engine(name, ssim), f"{name} set": with_engine(name, default_set)}
    seconds = best_s(jobs, sides, rounds)
    for name, value in seconds.items():
        print(f"{size}  {name:<14} {value * 1000:9.1f} ms")
    exact, found = scikit_image(*sides), []
    for name in engines:
        ours, whole = seconds[f"{name} ssim"], seconds[f"{name} set"]
        found += [
            Row(f"{name}: scikit-image / ssim", seconds["scikit-image"] / ours, SPEED_GOALS[name][size], at_least=True),
            Row(f"{name}: torchmetrics / ssim", seconds["torchmetrics"] / ours, TORCHMETRICS_GOAL, at_least=True),
            Row(f"{name}: default set / ssim", whole / ours, SET_GOALS[name]),
            Row(f"{name}: |ssim - scikit-image|", abs(jobs[f"{name} ssim"](*sides) - exact), ERROR_GOAL),
            Row(f"{name}: extra MiB of ssim", peak_mib(jobs[f"{name} ssim"], sides), MEMORY_GOALS_MIB[name]),
            Row(f"{name}: extra MiB of the set", peak_mib(jobs[f"{name} set"], sides), SET_MEMORY_GOAL_MIB),
        ]
    return found


def main() -> int:
    """Print the ratios; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)  # NumPy is held to one by the metrics, and scikit-image has one
    engines = ["numpy", "kernel"] if kernel.library() is not None else ["numpy"]
    if len(engines) == 1:
        print(f"only {kernel.engine()}")
    missed = False
    for size in (1024, 2048):
        for row in rows(size, rounds, engines):
            sign = "at least" if row.at_least else "at most"
            print(f"{size}  {row.name:<32} {row.value:9.3g}  (goal: {sign} {row.goal:g})")
            missed |= not row.met()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
