"""The runners of this version: where each lives and what its interpreter must have installed."""

from __future__ import annotations

from types import MappingProxyType
from typing import get_args

import msgspec

from paritygate.errors import UsageError
from paritygate.manifest.case import OutputKind


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """One way to produce a leg's output.

    ``module`` defines ``run(job, writer)`` and is imported only in the worker. ``distributions`` must be
    installed in the worker's interpreter; ``extra`` is the part of this package that brings them. ``in_leg_python``:
    whether the worker itself runs in the leg's Python; where it does not, it runs in ours, and the leg's Python is
    what the runner starts. ``takes_latents``: whether shared initial latents reach the model. ``kinds``: the kinds of
    output that it can store.
    """

    module: str
    distributions: tuple[str, ...]
    extra: str
    in_leg_python: bool
    takes_latents: bool = True
    kinds: tuple[OutputKind, ...]


#: What every worker needs, whatever it runs.
WORKER_DISTRIBUTIONS = ("msgspec", "numpy", "pillow", "psutil")
_ALL_KINDS: tuple[OutputKind, ...] = get_args(OutputKind)

#: Runner name -> facts. Sorted.
RUNNERS = MappingProxyType(
    {
        "command": Runner(
            module="paritygate.runners.command", distributions=(), extra="run", in_leg_python=False, kinds=_ALL_KINDS
        ),
        "diffusers": Runner(
            module="paritygate.runners.diffusers",
            distributions=("diffusers", "safetensors", "torch", "transformers"),
            extra="diffusers",
            in_leg_python=True,
            kinds=("images", "video", "audio", "video_audio"),
        ),
        "golden": Runner(
            module="paritygate.runners.golden", distributions=(), extra="run", in_leg_python=False, kinds=_ALL_KINDS
        ),
        "import": Runner(
            module="paritygate.runners.imported", distributions=(), extra="run", in_leg_python=False, kinds=_ALL_KINDS
        ),
        "openai": Runner(
            module="paritygate.runners.openai",
            distributions=("urllib3",),
            extra="http",
            in_leg_python=False,
            takes_latents=False,
            kinds=("images", "video", "video_audio"),
        ),
        "python": Runner(
            module="paritygate.runners.python", distributions=(), extra="run", in_leg_python=True, kinds=_ALL_KINDS
        ),
    }
)


def find_runner(name: str) -> Runner:
    """The runner of that name.

    Raises:
        UsageError: when this version cannot run it.
    """
    if name not in RUNNERS:
        raise UsageError(
            f"the runner {name!r} cannot run in this version; it can run: {', '.join(RUNNERS)}",
            hint="upgrade paritygate, or give the leg one of these runners",
        )
    return RUNNERS[name]
