"""What a leg switches on in a loaded pipeline: adapters, offload, caches and compilation."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch

from paritygate.runners.diffusers_names import declared_file, denoisers, near, refused
from paritygate.runners.job import Job

_CACHES = ("CacheConfig", "BroadcastConfig")
_OFFLOADS = {"model": "enable_model_cpu_offload", "sequential": "enable_sequential_cpu_offload"}


def place(pipeline: Any, job: Job) -> Any:
    """The pipeline on its device, or with the hooks that move its weights there when they are needed.

    Raises:
        LegError: ``kind="backend"`` for a card that is not there, and for offload without one.
    """
    device = str(job.spec.get("device") or job.device)
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        message = f"the leg runs on {device}, and PyTorch {torch.__version__} finds no card"
        raise refused(message, kind="backend", hint="install a build of PyTorch for the card and its driver")
    if (offload := job.spec.get("offload")) is None:
        return pipeline.to(device)
    if torch.device(device).type == "cpu":
        message = f"offload {offload!r} moves weights between memory and a card, and this leg runs on {device}"
        raise refused(message, kind="backend", hint="leave offload out, or give the leg a device such as cuda")
    _need("accelerate", "offload")
    getattr(pipeline, _OFFLOADS[offload])(device=device)
    return pipeline


def load_lora(pipeline: Any, job: Job) -> None:
    """Load the adapters of a leg in their order, each with its scale.

    Raises:
        LegError: for a file that is not the one of the manifest, and for an adapter that changes no layer.
    """
    wanted = job.spec.get("lora") or ()
    if not wanted:
        return
    _need("peft", "lora")
    if not hasattr(pipeline, "load_lora_weights"):
        raise refused(f"lora: {type(pipeline).__name__} takes no adapters")
    for number, adapter in enumerate(wanted):
        name = str(adapter["path"])
        if Path(name).suffix != ".safetensors":
            raise refused(f"lora: {name} is no safetensors file; other formats can run code while they are read")
        path = declared_file(job, name, str(adapter["sha256"]), key="lora", kind="weights")
        try:
            pipeline.load_lora_weights(str(path.parent), weight_name=path.name, adapter_name=_adapter(number))
        except (KeyError, ValueError) as error:
            raise refused(f"lora: {adapter['path']} is no adapter of {type(pipeline).__name__}: {error}") from error
        if not any(_effective(layer, _adapter(number)) for layer in _layers(pipeline, _adapter(number))):
            raise refused(
                f"LoRA touched no layer: {adapter['path']} has no weights for {type(pipeline).__name__} but zeros",
                hint="compare the names of its tensors with those of the model's layers",
            )
    names = [_adapter(number) for number in range(len(wanted))]
    pipeline.set_adapters(names, adapter_weights=[float(adapter["scale"]) for adapter in wanted])


def lora_facts(pipeline: Any, job: Job) -> Iterator[tuple[str, int, str]]:
    """``(sha256, layers, factors)`` of each adapter; the factors that its layers multiply it by include its own."""
    for number, adapter in enumerate(job.spec.get("lora") or ()):
        layers = [layer for layer in _layers(pipeline, _adapter(number)) if _effective(layer, _adapter(number))]
        factors = sorted({float(layer.scaling[_adapter(number)]) for layer in layers if _is_on(layer, number)})
        yield str(adapter["sha256"]), len(layers), ", ".join(f"{factor:g}" for factor in factors)


def enable_cache(pipeline: Any, wanted: Mapping[str, Any]) -> None:
    """Put a cache hook of Diffusers on every denoiser.

    Raises:
        LegError: for a class or argument that does not exist, and for a denoiser that takes no such hook.
    """
    name = str(wanted["class"])
    kind = getattr(diffusers, name, None) if name in dir(diffusers) else None
    if kind is None or not name.endswith(_CACHES):
        known = [known for known in dir(diffusers) if known.endswith(_CACHES)]
        raise refused(f"cache: diffusers {diffusers.__version__} has no {name!r}; it has: {', '.join(known)}")
    given = dict(wanted.get("config") or {})
    accepted = inspect.signature(kind).parameters
    for key, value in given.items():
        if key not in accepted:
            takes = f"it takes: {', '.join(accepted)}"
            raise refused(f"cache: {name} has no argument {key!r}{near(key, accepted)}; {takes}")
        given[key] = _cache_argument(f"cache.config.{key}", value, default=accepted[key].default)
    if "current_timestep_callback" in accepted:
        given["current_timestep_callback"] = lambda: pipeline.current_timestep
    for component, denoiser in denoisers(pipeline).items():
        if not hasattr(denoiser, "enable_cache"):
            raise refused(f"cache: {component} ({type(denoiser).__name__}) takes no cache hooks of Diffusers")
        try:
            denoiser.enable_cache(kind(**given))
        except (TypeError, ValueError, IndexError) as error:
            raise refused(f"cache: {name} cannot be put on {component}: {error}") from error


def _cache_argument(key: str, value: Any, *, default: Any) -> Any:
    """A value of a manifest as the class takes it; these classes check no types, and fail in the middle of a call."""
    if isinstance(default, torch.dtype):
        if not isinstance(found := getattr(torch, str(value), None), torch.dtype):
            raise refused(f"{key}: expected a dtype such as float32, found {value!r}")
        return found
    if isinstance(default, int | float) and not isinstance(value, int | float):
        raise refused(f"{key}: expected a {type(default).__name__} such as {default}, found {value!r}")
    return value


def compile_components(pipeline: Any, wanted: bool | Mapping[str, Mapping[str, Any]]) -> None:
    """Compile the denoisers, or the named components; of an autoencoder, its encoder and decoder.

    Raises:
        LegError: for a component or an argument of ``torch.compile`` that does not exist.
    """
    if wanted is False:
        return
    chosen = {name: {} for name in denoisers(pipeline)} if isinstance(wanted, bool) else wanted
    modules = {name: part for name, part in pipeline.components.items() if isinstance(part, torch.nn.Module)}
    accepted = [name for name in inspect.signature(torch.compile).parameters if name != "model"]
    for name, options in chosen.items():
        if name not in modules:
            raise refused(f"compile: the pipeline has no {name!r}{near(name, modules)}; it has: {', '.join(modules)}")
        for key in options:
            if key not in accepted:
                raise refused(f"compile.{name}: torch.compile has no {key!r}{near(key, accepted)}")
        backends = torch.compiler.list_backends(exclude_tags=())
        if isinstance(backend := options.get("backend", "inductor"), str) and backend not in backends:
            message = f"compile.{name}: there is no backend {backend!r}{near(backend, backends)}"
            raise refused(message, kind="backend")
        parts = [
            part for part in ("encoder", "decoder") if isinstance(getattr(modules[name], part, None), torch.nn.Module)
        ]
        # Pipelines call encode() and decode() of an autoencoder, never its own forward.
        if parts and hasattr(modules[name], "decode"):
            for part in parts:
                setattr(modules[name], part, torch.compile(getattr(modules[name], part), **options))
        else:
            setattr(pipeline, name, torch.compile(modules[name], **options))


def compiled_graphs() -> tuple[int, int]:
    """How many graphs ``torch.compile`` has made in this process, and how many it took from an earlier one's cache."""
    from torch._dynamo.utils import counters  # noqa: PLC0415 - takes a second, and few legs compile

    return int(counters["stats"]["unique_graphs"]), int(counters["inductor"]["fxgraph_cache_hit"])


def _need(distribution: str, key: str) -> None:
    if importlib.util.find_spec(distribution) is None:
        raise refused(f"{key} needs the Python package {distribution!r}", hint=f"pip install {distribution}")


def _adapter(number: int) -> str:
    return f"lora_{number}"


def _layers(pipeline: Any, adapter: str) -> Iterator[Any]:
    """The layers of all components that hold weights of an adapter."""
    for component in pipeline.components.values():
        for module in component.modules() if isinstance(component, torch.nn.Module) else ():
            if adapter in getattr(module, "lora_B", ()) or adapter in getattr(module, "lora_embedding_B", ()):
                yield module


def _effective(layer: Any, adapter: str) -> bool:
    """Whether the adapter changes what the layer computes: the second of its two factors begins as zeros."""
    if adapter in layer.lora_B:
        return bool(layer.lora_B[adapter].weight.any())
    return bool(layer.lora_embedding_B[adapter].any())


def _is_on(layer: Any, number: int) -> bool:
    return _adapter(number) in layer.active_adapters and not layer.disable_adapters
