"""What a Diffusers pipeline really did: observed by hooks on the loaded objects, never read from the request.

Nothing here changes a value. The scheduler's ``step`` is watched on its class, because pipelines copy schedulers,
and a copy must call its own ``step``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from paritygate.runners.diffusers_names import denoisers

#: Attention processors that know no backend name of their own -> the backend they are.
_PROCESSOR_BACKENDS = {"AttnProcessor": "eager", "AttnProcessor2_0": "native"}


class Observation:
    """One pipeline call as it happened.

    ``timesteps``: as given to each scheduler step. ``first_latents``: ``(batch, ...)`` as they entered the first one.
    ``token_calls``: text encoder -> one batch of rows per forward, in order.
    """

    def __init__(self) -> None:
        self.timesteps: list[float] = []
        self.first_latents: torch.Tensor | None = None
        self.token_calls: dict[str, list[list[list[int]]]] = {}


class Observer:
    """Hooks on one pipeline. ``dtypes``: component -> dtypes of the tensors that went in and came out."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._seen = Observation()
        self.dtypes: dict[str, set[str]] = {}

    @contextlib.contextmanager
    def watch(self) -> Iterator[Observation]:
        """Observe one pipeline call."""
        self._seen = Observation()
        with contextlib.ExitStack() as stack:
            for name, component in sorted(self._pipeline.components.items()):
                if isinstance(component, torch.nn.Module):
                    self._hook(name, component, stack)
            if (scheduler := getattr(self._pipeline, "scheduler", None)) is not None:
                stack.enter_context(_watched_steps(scheduler, self._on_step))
            yield self._seen

    def _hook(self, name: str, component: torch.nn.Module, stack: contextlib.ExitStack) -> None:
        def on_forward(_module: Any, args: Any, kwargs: Any, output: Any) -> None:
            found = self.dtypes.setdefault(name, set())
            found.update(_float_dtypes((args, kwargs, output)))

        def on_tokens(_module: Any, args: Any, kwargs: Any) -> None:
            ids = kwargs.get("input_ids", args[0] if args else None)
            if isinstance(ids, torch.Tensor):
                self._seen.token_calls.setdefault(name, []).append(ids.tolist())

        # A VAE is used through decode(), which calls its decoder and not its own forward.
        for module in (component, getattr(component, "decoder", None)):
            if isinstance(module, torch.nn.Module):
                stack.callback(module.register_forward_hook(on_forward, with_kwargs=True).remove)
        if name.startswith("text_encoder"):
            stack.callback(component.register_forward_pre_hook(on_tokens, with_kwargs=True).remove)

    def _on_step(self, timestep: Any, sample: torch.Tensor) -> None:
        if not self._seen.timesteps:
            self._seen.first_latents = sample.detach().clone()
        self._seen.timesteps.append(float(timestep))


@contextlib.contextmanager
def _watched_steps(scheduler: Any, record: Callable[[Any, torch.Tensor], None]) -> Iterator[None]:
    kind = type(scheduler)
    original = kind.step
    signature = inspect.signature(original)

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is scheduler:
            given = signature.bind(self, *args, **kwargs).arguments
            record(given["timestep"], given["sample"])
        return original(self, *args, **kwargs)

    own = "step" in vars(kind)
    kind.step = step
    try:
        yield
    finally:
        if own:
            kind.step = original
        else:
            del kind.step


def token_rows(seen: Observation, index: int, *, batch: int) -> list[list[int]]:
    """The rows of token ids of one item of a batch, unconditional first, text encoders by name.

    Pipelines encode the prompts of a batch in one forward and the negative prompts in the next; one forward with both
    has the negative ones first.
    """
    rows = []
    for _, calls in sorted(seen.token_calls.items()):
        for call in reversed(calls):
            rows += [call[start + index] for start in range(0, len(call), batch) if start + index < len(call)]
    return rows


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


def attention_backend(pipeline: Any) -> str:
    """The attention backend of the denoisers; several, when layers differ, are joined by commas."""
    names = set()
    for module in (module for denoiser in denoisers(pipeline).values() for module in denoiser.modules()):
        processor = getattr(module, "processor", None)
        if processor is None:
            continue
        own = getattr(processor, "_attention_backend", None)
        kind = type(processor).__name__
        if own is not None:
            names.add(str(getattr(own, "value", own)))
        elif hasattr(processor, "_attention_backend"):
            names.add(_default_backend())
        else:
            names.add(_PROCESSOR_BACKENDS.get(kind, kind))
    return ", ".join(sorted(names))


def _default_backend() -> str:
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry  # noqa: PLC0415

    name, _ = _AttentionBackendRegistry.get_active_backend()
    return str(getattr(name, "value", name))


def _float_dtypes(value: Any) -> Iterator[str]:
    """Dtypes of floating tensors inside; vectors are left out, since timesteps keep a precision of their own."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.ndim > 1:
            yield str(value.dtype).removeprefix("torch.")
    elif isinstance(value, dict):
        yield from _float_dtypes(tuple(value.values()))
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _float_dtypes(entry)
    elif hasattr(value, "sample"):
        yield from _float_dtypes(value.sample)
