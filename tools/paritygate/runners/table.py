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
    installed in the leg's interpreter; ``extra`` is the part of this package that brings them. ``takes_inputs``:
    whether it can hand conditioning media to the model. ``kinds``: the kinds of output that it can store.
    """

    module: str
    distributions: tuple[str, ...]
    extra: str
    takes_inputs: bool
    kinds: tuple[OutputKind, ...]


#: What every worker needs, whatever it runs.
WORKER_DISTRIBUTIONS = ("msgspec", "numpy", "pillow", "psutil")

#: Runner name -> facts. Sorted. Names the schema knows beyond these cannot run in this version.
RUNNERS = MappingProxyType(
    {
        "diffusers": Runner(
            module="paritygate.runners.diffusers",
            distributions=("diffusers", "safetensors", "torch", "transformers"),
            extra="diffusers",
            takes_inputs=False,
            kinds=("images",),
        ),
        "python": Runner(
            module="paritygate.runners.python",
            distributions=(),
            extra="run",
            takes_inputs=True,
            kinds=get_args(OutputKind),
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
