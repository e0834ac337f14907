"""``onnx_candidate.py`` with one named defect: the candidates that ``test_faults.py`` must see fail.

Options: those of ``onnx_candidate.py``, and ``fault``, a name of ``FAULTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from paritygate.runners.job import Job, Writer
from paritygate.runners.python import load_file

real: Any = load_file(Path(__file__).with_name("onnx_candidate.py"))
DROPPED = 5


class Liar:
    """A writer that reports some settings as ``lies`` says, and no feature when ``silent``."""

    def __init__(self, writer: Writer, *, lies: Mapping[str, Any], silent: bool = False) -> None:
        self._writer, self._lies, self._silent = writer, lies, silent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def setting(self, name: str, value: Any) -> None:
        """Report the lie where there is one."""
        self._writer.setting(name, self._lies.get(name, value))

    def feature(self, name: str, **counters: Any) -> None:
        """Report the counters, or nothing."""
        if not self._silent:
            self._writer.feature(name, **counters)


def asking(job: Job, **changes: Any) -> Job:
    """The job with other values in every request."""
    items = tuple(msgspec.structs.replace(item, request={**item.request, **changes}) for item in job.items)
    return msgspec.structs.replace(job, items=items)


def starting_from(job: Job, latents: np.ndarray) -> Job:
    """The job with other initial latents."""
    path = Path(job.directory) / "other.npy"
    np.save(path, latents)
    return msgspec.structs.replace(job, latents=str(path))


def honest_guidance(job: Job, writer: Writer) -> None:
    """Guide by 3.1 and say so."""
    real.run(asking(job, guidance_scale=3.1), writer)


def lying_guidance(job: Job, writer: Writer) -> None:
    """Guide by 3.1 and report 3.0."""
    real.run(asking(job, guidance_scale=3.1), Liar(writer, lies={"config.guidance_scale": 3.0}))


def trailing(job: Job, writer: Writer) -> None:
    """Space the timesteps from the end, while the configuration says ``leading``."""

    def plan(scheduler: Mapping[str, Any], steps: int) -> list[Any]:
        trained = scheduler["num_train_timesteps"]
        alphas = np.cumprod(1 - np.linspace(scheduler["beta_start"], scheduler["beta_end"], trained)).tolist()
        times = [round(trained - index * trained / steps) - 1 for index in range(steps)]
        following = [alphas[time] for time in times[1:]]
        return [
            real.Step(time, alphas[time], after) for time, after in zip(times, [*following, alphas[0]], strict=True)
        ]

    real.plan = plan
    real.run(job, writer)


def dropped_prompt(job: Job, writer: Writer) -> None:
    """Leave one item of the suite out."""
    kept = [row for row in range(len(job.items)) if row != DROPPED]
    latents = np.load(str(job.latents))[kept]
    real.run(msgspec.structs.replace(starting_from(job, latents), items=tuple(job.items[row] for row in kept)), writer)


def moved_prompts(job: Job, writer: Writer) -> None:
    """Answer each item with the prompt of the next one."""
    prompts = [item.request["prompt"] for item in job.items]
    moved = zip(job.items, [*prompts[1:], prompts[0]], strict=True)
    items = [msgspec.structs.replace(item, request={**item.request, "prompt": prompt}) for item, prompt in moved]
    real.run(msgspec.structs.replace(job, items=tuple(items)), writer)


def other_latents(job: Job, writer: Writer) -> None:
    """Start one item from noise that is a thousandth stronger."""
    latents = np.load(str(job.latents))
    latents[3] *= np.float32(1.001)
    real.run(starting_from(job, latents), writer)


def unknown_setting(job: Job, writer: Writer) -> None:
    """Ask for something that the adapter does not implement."""
    real.run(asking(job, guidance_rescale=0.7), writer)


def silent_feature(job: Job, writer: Writer) -> None:
    """Run, and show nothing about the feature."""
    real.run(job, Liar(writer, lies={}, silent=True))


#: name of ``options.fault`` -> the defective run; sorted
FAULTS: dict[str, Callable[[Job, Writer], None]] = {
    "dropped-prompt": dropped_prompt,
    "honest-guidance": honest_guidance,
    "lying-guidance": lying_guidance,
    "moved-prompts": moved_prompts,
    "other-latents": other_latents,
    "silent-feature": silent_feature,
    "trailing": trailing,
    "unknown-setting": unknown_setting,
}


def run(job: Job, writer: Writer) -> None:
    """Answer the job with the defect that its options name."""
    options = dict(job.spec["options"])
    fault = FAULTS[options.pop("fault")]
    fault(msgspec.structs.replace(job, spec={**job.spec, "options": options}), writer)
