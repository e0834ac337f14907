"""What a Diffusers pipeline really did: observed by hooks on the loaded objects, never read from the request.

Nothing here changes a value.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch

from paritygate.runners.diffusers_names import denoisers, refused
from paritygate.runners.observe_steps import watched_steps
from paritygate.runners.observe_work import LAYERS

#: Attention processors that know no backend name of their own -> the backend they are.
_PROCESSOR_BACKENDS = {"AttnProcessor": "eager", "AttnProcessor2_0": "native"}

_Hook: TypeAlias = Callable[..., None]


class Observation:
    """One pipeline call as it happened.

    ``timesteps``: as given to each scheduler step. ``first_latents``: ``(batch, ...)`` as they entered the first one.
    ``sampler_noise``: devices of the generators that steps drew from, ``unseeded`` for the one of the process.
    ``token_calls``: text encoder -> one batch of rows per forward, in order. ``conditioning``: autoencoder or encoder
    of pictures -> digest of every picture that it was given, after all resizing and normalising, as float32.
    """

    def __init__(self) -> None:
        self.timesteps: list[float] = []
        self.first_latents: torch.Tensor | None = None
        self.token_calls: dict[str, list[list[list[int]]]] = {}
        self.conditioning: dict[str, Any] = {}
        self.sampler_noise: set[str] = set()


class Observer:
    """Hooks on one pipeline, for all of its calls.

    ``inputs``, ``outputs``: component -> dtypes of the tensors that went in and came out. ``inside``: component ->
    dtypes that its layers gave, in the first call; others than those show a cast inside. An autoencoder is two
    components: its decoder has its name, its encoder ``<name>.encoder``.
    """

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._seen = Observation()
        self._calls = 0
        self._texts: dict[tuple[str, str], tuple[int, ...]] = {}
        self.inputs: dict[str, set[str]] = {}
        self.outputs: dict[str, set[str]] = {}
        self.inside: dict[str, set[str]] = {}

    @property
    def dtypes(self) -> dict[str, str | None]:
        """Setting below ``dtype.`` -> dtypes by comma: what went in or came out of each component.

        ``<component>.in`` and ``.out`` are there only where they differ from that.
        """
        found: dict[str, str | None] = {}
        for name in sorted(self.inputs.keys() | self.outputs.keys()):
            sides = {"in": self.inputs.get(name, set()), "out": self.outputs.get(name, set())}
            both = sides["in"] | sides["out"]
            found[name] = ", ".join(sorted(both)) or None
            own = {side: kinds for side, kinds in sides.items() if kinds and kinds != both}
            found |= {f"{name}.{side}": ", ".join(sorted(kinds)) for side, kinds in own.items()}
        return found

    @property
    def casts(self) -> dict[str, str]:
        """Component -> dtypes of its layers that neither went in nor came out, or ``none``.

        Of every component whose layers were watched, so that a cast of one leg alone is a difference.
        """
        found = {}
        for name, kinds in sorted(self.inside.items()):
            others = kinds - self.inputs.get(name, set()) - self.outputs.get(name, set())
            found[name] = ", ".join(sorted(others)) or "none"
        return found

    @contextlib.contextmanager
    def watch(self) -> Iterator[Observation]:
        """Observe one pipeline call.

        Raises:
            LegError: ``kind="weights"`` when a text encoder says the same of two different prompts.
        """
        self._seen = Observation()
        self._calls += 1
        with contextlib.ExitStack() as stack:
            for name, component in sorted(self._pipeline.components.items()):
                if isinstance(component, torch.nn.Module):
                    self._hook(name, component, stack)
            if (scheduler := getattr(self._pipeline, "scheduler", None)) is not None:
                stack.enter_context(watched_steps(scheduler, self._on_step, self._seen.sampler_noise.add))
            yield self._seen

    def _hook(self, name: str, component: torch.nn.Module, stack: contextlib.ExitStack) -> None:
        # An autoencoder is used through encode() and decode(), which call its parts and not its own forward.
        parts = [(name, component), (name, getattr(component, "decoder", None))]
        if hasattr(component, "decode") and callable(getattr(component, "encode", None)):
            parts.append((f"{name}.encoder", getattr(component, "encoder", None)))
            stack.enter_context(_replaced(component, "encode", self._on_encode(name, component.encode)))
        for part, module in parts:
            if isinstance(module, torch.nn.Module):
                stack.callback(module.register_forward_hook(self._on_forward(part), with_kwargs=True).remove)
        if name.startswith("text_encoder"):
            stack.callback(component.register_forward_hook(self._on_text(name), with_kwargs=True).remove)
        if self._calls == 1 and not is_compiled(component):
            for layer in component.modules():
                if isinstance(layer, LAYERS):
                    stack.callback(layer.register_forward_hook(self._on_layer(name)).remove)

    def _on_forward(self, part: str) -> _Hook:
        def on_forward(_module: Any, args: Any, kwargs: Any, output: Any) -> None:
            first = args[0] if args and part.startswith("image_encoder") else None
            self._digest(part, kwargs.get("pixel_values", first))
            self.inputs.setdefault(part, set()).update(_float_dtypes((args, kwargs)))
            self.outputs.setdefault(part, set()).update(_float_dtypes(output))

        return on_forward

    def _on_layer(self, name: str) -> _Hook:
        def on_layer(_module: Any, _args: Any, output: Any) -> None:
            self.inside.setdefault(name, set()).update(_float_dtypes(output))

        return on_layer

    def _on_text(self, name: str) -> _Hook:
        def on_text(_module: Any, args: Any, kwargs: Any, output: Any) -> None:
            ids = kwargs.get("input_ids", args[0] if args else None)
            if not isinstance(ids, torch.Tensor):
                return
            self._seen.token_calls.setdefault(name, []).append(ids.tolist())
            states = _text_states(output)
            if isinstance(states, torch.Tensor) and ids.ndim == 2 and len(states) == len(ids):
                for row, state in zip(ids.tolist(), states, strict=True):
                    self._check_text(name, tuple(row), state)

        return on_text

    def _check_text(self, name: str, ids: tuple[int, ...], state: torch.Tensor) -> None:
        """Refuse an encoder that says the same of two prompts: embeddings that were not loaded do that."""
        digest = hashlib.sha256(_float32_bytes(state)).hexdigest()
        if self._texts.setdefault((name, digest), ids) != ids:
            message = f"{name} gives the same output for two different prompts, so its weights are not what it needs"
            raise refused(message, kind="weights", hint="look for embeddings that are missing, tied or zero")

    def _on_encode(self, name: str, encode: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(encode)
        def on_encode(*args: Any, **kwargs: Any) -> Any:
            self._digest(name, args[0] if args else next(iter(kwargs.values()), None))
            return encode(*args, **kwargs)

        return on_encode

    def _digest(self, name: str, given: Any) -> None:
        if isinstance(given, torch.Tensor):
            digest = self._seen.conditioning.setdefault(name, hashlib.sha256())
            digest.update(repr(tuple(given.shape)).encode() + _float32_bytes(given))

    def _on_step(self, timestep: Any, sample: torch.Tensor) -> None:
        if not self._seen.timesteps:
            self._seen.first_latents = sample.detach().clone()
        self._seen.timesteps.append(float(timestep))


def _text_states(output: Any) -> Any:
    """What a text encoder says of its prompts: its last hidden states, never the scores of a vocabulary."""
    states = getattr(output, "last_hidden_state", None)
    if states is None:
        states = next(iter(reversed(getattr(output, "hidden_states", None) or ())), None)
    return output[0] if states is None and isinstance(output, tuple) and output else states


def is_compiled(component: torch.nn.Module) -> bool:
    """Whether ``torch.compile`` holds any part of a module: hooks inside would break its graphs."""
    marks = ("_orig_mod", "_compiled_call_impl")  # of torch.compile(module), and of module.compile()
    return any(getattr(module, mark, None) is not None for module in component.modules() for mark in marks)


@contextlib.contextmanager
def _replaced(owner: torch.nn.Module, name: str, value: Callable[..., Any]) -> Iterator[None]:
    """A method of one object, replaced for a while."""
    own = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


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


def _float32_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().to("cpu", torch.float32).contiguous().numpy().data)


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
