"""Measure the room between what is known to be good and what is known to be bad, for the bounds of these cases.

    python tests/e2e/accuracy/tiny_digits/measure_room.py

A repeated run on one machine repeats its rounding, so repetition alone says nothing about another processor. This
script therefore jitters the initial latents by one part in a million, which is what other kernels do to a float32 run,
and compares with two faults: guidance 3.1 for 3.0, and each tensor of the UNet in turn one percent too large. All of
it runs in ONNX Runtime, against the float32 graphs without jitter. It takes about three minutes on one CPU core and
prints one JSON object. The readings are in the README of each case.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import numpy_helper

from paritygate.compare.measure import Values, results, wanted_metrics
from paritygate.compare.pixels import Pixels
from paritygate.manifest.case import Case
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries
from paritygate.manifest.suite import items, latent_shape
from paritygate.metrics.specs import SPECS
from paritygate.records.canonical import sha256_file
from paritygate.records.codec import dumps
from paritygate.records.model import Real
from paritygate.runners.job import Job
from paritygate.runners.leg import Latents, build_job
from paritygate.runners.python import load_file
from paritygate.runners.writer import to_stored
from paritygate.session.latents import draw

FOLDER = Path(__file__).resolve().parent
JITTERS = 16
JITTER = 1e-6
FACTOR = np.float32(1.01)

adapter: Any = load_file(FOLDER / "onnx_candidate.py")
Pictures = dict[str, np.ndarray]
#: measurement id -> value
Readings = dict[str, Real]


class Collector:
    """A writer that keeps the pictures in memory and nothing else."""

    def __init__(self) -> None:
        self.pictures: Pictures = {}

    def image(self, item_id: str, pixels: Any, **_: Any) -> None:
        """Keep one picture, (height, width, 3) float32 in [0, 1]."""
        self.pictures[item_id] = pixels

    def __getattr__(self, _: str) -> Any:
        return lambda *_args, **_kwargs: None


def generate(
    job: Job, *, unet: str = "unet.onnx", graphs: Path | None = None, guidance: float | None = None
) -> Pictures:
    """What the adapter draws for a job with these changes."""
    options = {"unet": unet} | ({"graphs": str(graphs)} if graphs else {})
    suite = job.items
    if guidance is not None:
        requests = [{**item.request, "guidance_scale": guidance} for item in suite]
        pairs = zip(suite, requests, strict=True)
        suite = tuple(msgspec.structs.replace(item, request=request) for item, request in pairs)
    collector = Collector()
    adapter.run(msgspec.structs.replace(job, spec={"options": options}, items=suite), collector)
    return collector.pictures


def measure(case: Case, reference: Pictures, candidate: Pictures) -> Readings:
    """Every measurement of the case, by id."""
    values, wanted = Values(), wanted_metrics(case.measure.output)
    for name, pixels in reference.items():
        left, right = (Pixels(stored=to_stored(side), floats=side) for side in (pixels, candidate[name]))
        values.add(name, left, right, wanted=wanted)
    return {result.id: result.value for result in results(case.measure.output, values)}


def jittered(job: Job, folder: Path) -> Iterator[Job]:
    """The job with initial latents that differ by about one part in a million, ``JITTERS`` times."""
    latents = np.load(str(job.latents))
    for seed in range(JITTERS):
        noise = np.random.default_rng(seed).standard_normal(latents.shape)
        path = folder / f"jitter-{seed}.npy"
        np.save(path, (latents * (1 + JITTER * noise)).astype(np.float32))
        yield msgspec.structs.replace(job, latents=str(path))


def perturbed(source: Path, target: Path) -> Iterator[str]:
    """Names of the UNet's float tensors, each while ``target`` holds graphs in which it is one percent too large."""
    shutil.copytree(source, target)
    model = onnx.load(source / "unet.onnx")
    listed = json.loads((source / "graphs.json").read_text(encoding="utf-8"))
    for tensor in model.graph.initializer:
        original = numpy_helper.to_array(tensor).copy()
        if original.dtype != np.float32 or original.size < 2 or not original.any():
            continue
        tensor.CopyFrom(numpy_helper.from_array(original * FACTOR, tensor.name))
        onnx.save(model, target / "unet.onnx")
        listed["graphs"]["unet.onnx"] = sha256_file(target / "unet.onnx")
        (target / "graphs.json").write_text(json.dumps(listed), encoding="utf-8")
        yield tensor.name
        tensor.CopyFrom(numpy_helper.from_array(original, tensor.name))


def worst(case: Case, runs: Iterable[Readings]) -> Readings:
    """The worst value of each measurement over several runs."""
    rows = list(runs)
    pick = {entry.id: min if SPECS[entry.metric].direction == "higher" else max for entry in case.measure.output}
    return {name: pick[name](row[name] for row in rows) for name in rows[0]}


def room(case: Case, job: Job, folder: Path) -> dict[str, Any]:
    """Known good and known bad, with ``folder`` for scratch files."""
    sound = generate(job)
    jobs = list(jittered(job, folder))
    good = {
        "float32, jittered": worst(case, (measure(case, sound, generate(other)) for other in jobs)),
        "int8": measure(case, sound, generate(job, unet="unet_int8.onnx")),
        "int8, jittered": worst(case, (measure(case, sound, generate(other, unet="unet_int8.onnx")) for other in jobs)),
    }
    bad = {
        "float32, guidance 3.1": measure(case, sound, generate(job, guidance=3.1)),
        "int8, guidance 3.1": measure(case, sound, generate(job, unet="unet_int8.onnx", guidance=3.1)),
    }
    tensors = {}
    for name in perturbed(case.root / adapter.GRAPHS, folder / "graphs"):
        tensors[name] = measure(case, sound, generate(job, graphs=folder / "graphs"))
        print(f"{len(tensors)} tensors", file=sys.stderr, flush=True)
    by_effect = sorted(tensors, key=lambda name: tensors[name]["output.float.psnr_db.min"])
    mildest = by_effect[-1]
    return {
        "known good": good,
        "known bad": bad | {f"float32, {mildest} 1 % too large (mildest of {len(tensors)})": tensors[mildest]},
    }


def main() -> None:
    """Measure and print."""
    project = find_project(FOLDER)
    (case,) = (
        case for case in load_cases(project, load_registries(project)).cases if case.id == "tiny-digits-t2i-onnx"
    )
    shape = latent_shape(case)
    assert shape is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "latents.npy"
        path.write_bytes(draw(items(case), shape))
        latents = Latents(path=path, sha256=sha256_file(path))
        model = case.root / str(case.model.path)
        job = build_job(case, case.candidate, items=items(case), directory=folder, model_dir=model, latents=latents)
        print(dumps(room(case, job, folder)))


if __name__ == "__main__":
    main()
