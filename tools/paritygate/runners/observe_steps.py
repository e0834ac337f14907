"""The steps of a scheduler as a pipeline takes them: times, samples and the noise that they draw.

``step`` is watched on its class, because pipelines copy schedulers, and a copy must call its own ``step``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch


def noise_levels(scheduler: Any, timesteps: list[float]) -> list[float] | None:
    """One sigma per step, as the scheduler used it; from alphas_cumprod where it keeps none; None where neither is."""
    sigmas = getattr(scheduler, "sigmas", None)
    if sigmas is not None and len(sigmas) >= len(timesteps):
        begin = getattr(scheduler, "begin_index", None) or 0
        return [float(sigma) for sigma in sigmas[begin : begin + len(timesteps)]]
    alphas = getattr(scheduler, "alphas_cumprod", None)
    if alphas is None:
        return None
    chosen = [float(alphas[int(timestep)]) for timestep in timesteps]
    return [math.sqrt((1 - alpha) / alpha) if alpha > 0 else math.inf for alpha in chosen]


@contextlib.contextmanager
def watched_steps(
    scheduler: Any, record: Callable[[Any, torch.Tensor], None], drawn: Callable[[str], None]
) -> Iterator[None]:
    """Tell ``record`` of each step of one scheduler, and ``drawn`` of the generator that a step drew noise from."""
    kind = type(scheduler)
    original = kind.step
    signature = inspect.signature(original)

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is not scheduler:
            return original(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs).arguments
        record(given["timestep"], given["sample"])
        before = _random_states(given.get("generator"))
        answer = original(self, *args, **kwargs)
        after = _random_states(given.get("generator"))
        for name in before:
            if not torch.equal(before[name], after[name]):
                drawn(name)
        return answer

    own = "step" in vars(kind)
    kind.step = step
    try:
        yield
    finally:
        if own:
            kind.step = original
        else:
            del kind.step


def _random_states(given: Any) -> dict[str, torch.Tensor]:
    """Device of a generator, or ``unseeded`` for those of the process -> its state."""
    generators = given if isinstance(given, (list, tuple)) else [given]
    states = {str(each.device): each.get_state() for each in generators if isinstance(each, torch.Generator)}
    if torch.cuda.is_initialized():
        states["unseeded cuda"] = torch.cuda.get_rng_state()
    return states | {"unseeded": torch.get_rng_state()}
