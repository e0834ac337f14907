"""What the harness adds to the wall time of the two legs run bare: tiny-digits in Diffusers and in ONNX Runtime.

    .venv/bin/python benchmarks/harness.py [--rounds 3]

Bare means two plain scripts that load, generate the same 16 pictures and save them as PNG. Both sides alternate within
one run and the best of the rounds counts, since a shared machine only ever adds time. Goal: less than 10 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CASE = "tiny-digits-t2i-onnx"
GOAL = 1.10

BARE_REFERENCE = """
import json, sys
from collections.abc import Callable
from pathlib import Path
import numpy as np, torch
from diffusers import StableDiffusionPipeline
from PIL import Image
job, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
torch.set_num_threads(1)
pipeline = StableDiffusionPipeline.from_pretrained(job["model_dir"], dtype=torch.float32, local_files_only=True)
pipeline.set_progress_bar_config(disable=True)
latents = torch.from_numpy(np.load(job["latents"]))
for index, item in enumerate(job["items"]):
    request = {key: value for key, value in item["request"].items() if key != "seed"}
    image = pipeline(**request, latents=latents[index:index + 1], output_type="np").images[0]
    Image.fromarray((image * 255).round().astype("uint8")).save(out / f"{item['id']}.png")
"""
BARE_CANDIDATE = """
import sys
from collections.abc import Callable
from pathlib import Path
from PIL import Image
from paritygate.records.codec import loads
from paritygate.runners.job import Job
from paritygate.runners.python import load_file
job, out = loads(Path(sys.argv[1]).read_text(), Job), Path(sys.argv[2])
class Bare:
    def image(self, item_id, pixels, *, index=0):
        Image.fromarray((pixels * 255).round().astype("uint8")).save(out / f"{item_id}.png")
    def __getattr__(self, _name):
        return lambda *args, **kwargs: None
load_file(Path(job.adapter)).run(job, Bare())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run = harness(work)  # also warms the caches, and leaves the jobs for the bare scripts
        whole, bare = [], []
        for _ in range(rounds):
            bare.append(timed(lambda: bare_legs(run, work)))
            whole.append(timed(lambda: harness(work)))
    ratios = {}
    for name, column in (("wall", 0), ("processor", 1)):
        ours, theirs = (min(row[column] for row in rows) for rows in (whole, bare))
        ratios[name] = ours / theirs
        print(f"{name:<10} two legs bare {theirs:6.2f} s   paritygate run {ours:6.2f} s   ratio {ours / theirs:.3f}")
    print(f"goal: wall ratio less than {GOAL:.2f}, best of {rounds}; on a busy machine, repeat with more --rounds")
    return 0 if ratios["wall"] < GOAL else 1


def harness(work: Path) -> Path:
    """``paritygate run`` as a user starts it; the run directory."""
    command = [sys.executable, "-c", "import sys; from paritygate.cli.main import main; main(sys.argv[1:])"]
    words = ["run", CASE, "--json", "--artifacts", str(work / "artifacts")]
    done = subprocess.run(
        [*command, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False, env=environment()
    )
    (result,) = json.loads(done.stdout)["cases"]
    if "run_id" not in result:
        raise SystemExit(f"the case did not run: {result}")
    return work / "artifacts" / CASE / str(result["run_id"])


def bare_legs(run: Path, work: Path) -> None:
    for leg, script in (("reference", BARE_REFERENCE), ("candidate", BARE_CANDIDATE)):
        out = work / leg
        out.mkdir(exist_ok=True)
        command = [sys.executable, "-c", script, str(run / leg / "job.json"), str(out)]
        subprocess.run(command, cwd=work, check=True, capture_output=True, env=environment())


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds of the processes that an action starts."""
    started, before = time.perf_counter(), os.times()
    action()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


if __name__ == "__main__":
    raise SystemExit(main())
