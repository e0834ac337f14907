"""What a pipeline call really did: hooks on the loaded objects, never the request. Nothing here changes a value."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

#: Method of a pipeline -> those of its arguments that are reported as they came in.
_ARGUMENTS = {"encode_prompt": ("negative_prompt", "max_sequence_length"), "get_timesteps": ("strength",)}
_LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_PROCESSORS = {"AttnProcessor": "eager", "AttnProcessor2_0": "native"}


class Observation:
    """One call: timesteps, the latents of the first step, rows of token ids, arguments, dtypes and digests.

    ``layers``: component -> dtypes that its layers gave. ``flags``: the switches before it.
    """

    def __init__(self, on_step: Callable[[int], None]) -> None:
        self.on_step = on_step
        self.timesteps: list[float] = []
        self.latents: torch.Tensor | None = None
        self.tokens: dict[str, list[list[list[int]]]] = {}
        self.arguments: dict[str, Any] = {}
        self.dtypes: dict[str, set[str]] = {}
        self.layers: dict[str, set[str]] = {}
        self.encoded: dict[str, Any] = {}
        self.flags = flags()


@contextlib.contextmanager
def observed(pipeline: Any, on_step: Callable[[int], None]) -> Iterator[Observation]:
    """Watch one call of a pipeline; ``on_step`` gets the number of each step before it is computed."""
    seen = Observation(on_step)
    with contextlib.ExitStack() as stack:
        for name, component in pipeline.components.items():
            if isinstance(component, torch.nn.Module):
                _watch_component(seen, name, component, stack)
                _watch_layers(seen, name, component, stack)
        for name, wanted in _ARGUMENTS.items():
            if hasattr(pipeline, name):
                _replace(pipeline, name, _arguments(seen, getattr(pipeline, name), wanted), stack)
        _replace(pipeline.scheduler, "step", _steps(seen, pipeline.scheduler.step), stack)
        yield seen


def token_rows(seen: Observation) -> list[list[int]]:
    """Rows of token ids, unconditional first: pipelines encode the prompt first, then the negative one."""
    return [row for _, calls in sorted(seen.tokens.items()) for call in reversed(calls) for row in call]


def flags() -> dict[str, str | bool]:
    """The switches of the process, and of this thread, that decide how numbers are computed on a CPU."""
    return {
        "autocast": torch.is_autocast_enabled("cpu"),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def digest(tensor: torch.Tensor) -> str:
    """sha256 of the little-endian float32 bytes."""
    return f"sha256:{hashlib.sha256(_bytes(tensor)).hexdigest()}"


def noise_levels(scheduler: Any, timesteps: list[float]) -> list[float | str] | None:
    """One sigma per step, from ``alphas_cumprod`` where the scheduler keeps none; infinity is the text ``inf``."""
    sigmas = getattr(scheduler, "sigmas", None)
    if sigmas is not None and len(sigmas) >= len(timesteps):
        begin = getattr(scheduler, "begin_index", None) or 0
        return [float(sigma) for sigma in sigmas[begin : begin + len(timesteps)]]
    if getattr(scheduler, "alphas_cumprod", None) is None:
        return None
    alphas = [float(scheduler.alphas_cumprod[int(timestep)]) for timestep in timesteps]
    return [math.sqrt((1 - alpha) / alpha) if alpha > 0 else "inf" for alpha in alphas]


def attention_backend(denoiser: torch.nn.Module) -> str:
    """The attention backend of the layers; several, when they differ, are joined by commas."""
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry  # noqa: PLC0415 - no public way

    names = set()
    for processor in (getattr(module, "processor", None) for module in denoiser.modules()):
        if processor is None:
            continue
        kind = type(processor).__name__
        if hasattr(processor, "_attention_backend"):
            own = processor._attention_backend or _AttentionBackendRegistry.get_active_backend()[0]
            names.add(str(getattr(own, "value", own)))
        else:
            names.add(_PROCESSORS.get(kind, kind))
    return ", ".join(sorted(names))


def _watch_component(seen: Observation, name: str, component: torch.nn.Module, stack: contextlib.ExitStack) -> None:
    def dtypes(part: str) -> Callable[..., None]:
        def hook(_module: Any, args: Any, kwargs: Any, output: Any) -> None:
            seen.dtypes.setdefault(part, set()).update(_dtypes((args, kwargs, output)))

        return hook

    def tokens(_module: Any, args: Any, kwargs: Any) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        if isinstance(ids, torch.Tensor):
            seen.tokens.setdefault(name, []).append(ids.tolist())

    # An autoencoder is used through encode() and decode(), which call its parts and not its own forward.
    for part, module in (
        (name, component),
        (name, getattr(component, "decoder", None)),
        (f"{name}.encoder", getattr(component, "encoder", None) if hasattr(component, "encode") else None),
    ):
        if isinstance(module, torch.nn.Module):
            stack.callback(module.register_forward_hook(dtypes(part), with_kwargs=True).remove)
    if name.startswith("text_encoder"):
        stack.callback(component.register_forward_pre_hook(tokens, with_kwargs=True).remove)
    if hasattr(component, "encode"):
        _replace(component, "encode", _encoded(seen, name, component.encode), stack)


def _watch_layers(seen: Observation, name: str, component: torch.nn.Module, stack: contextlib.ExitStack) -> None:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        seen.layers.setdefault(name, set()).update(_dtypes(output))

    for module in component.modules():
        if isinstance(module, _LAYERS):
            stack.callback(module.register_forward_hook(hook).remove)


def _arguments(seen: Observation, method: Callable[..., Any], wanted: tuple[str, ...]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        seen.arguments |= {name: given.arguments[name] for name in wanted if name in given.arguments}
        return method(*args, **kwargs)

    return call


def _steps(seen: Observation, step: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(step)

    @functools.wraps(step)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if seen.latents is None:
            seen.latents = given["sample"].detach().clone()
        seen.timesteps.append(float(given["timestep"]))
        seen.on_step(len(seen.timesteps))
        return step(*args, **kwargs)

    return call


def _encoded(seen: Observation, name: str, encode: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(encode)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else next(iter(kwargs.values()))
        found = seen.encoded.setdefault(name, hashlib.sha256())
        found.update(repr(tuple(given.shape)).encode() + _bytes(given))
        return encode(*args, **kwargs)

    return call


def _replace(owner: Any, name: str, value: Any, stack: contextlib.ExitStack) -> None:
    """Set a method of one object until the stack is left; the class has it again then."""
    owner.__dict__[name] = value
    stack.callback(owner.__dict__.pop, name)


def _bytes(tensor: torch.Tensor) -> bytes:
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float32).numpy(), "<f4").tobytes()


def _dtypes(value: Any) -> Iterator[str]:
    """Dtypes of floating tensors inside; vectors are left out, since timesteps keep a precision of their own."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.ndim > 1:
            yield str(value.dtype).removeprefix("torch.")
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _dtypes(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _dtypes(entry)
    elif hasattr(value, "sample"):
        yield from _dtypes(value.sample)
