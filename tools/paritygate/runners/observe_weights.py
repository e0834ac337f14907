"""Are the weights what a model needs? Looked at after loading, because loaders only warn."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from paritygate.runners.diffusers_names import refused

#: Names that are listed for one component; all are counted.
_LISTED = 8
_WIDE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@contextlib.contextmanager
def recorded_loading() -> Iterator[dict[str, dict[str, list[str]]]]:
    """Component -> ``missing`` and ``unexpected`` names, of the models that are loaded meanwhile.

    Pipelines load their components themselves and pass on no report, so the two loaders are asked for it on the way.
    """
    found: dict[str, dict[str, list[str]]] = {}
    with contextlib.ExitStack() as stack:
        for base in (diffusers.ModelMixin, transformers.PreTrainedModel):
            stack.enter_context(_asked(base, found))
        yield found


@contextlib.contextmanager
def _asked(base: Any, found: dict[str, dict[str, list[str]]]) -> Iterator[None]:
    original = vars(base)["from_pretrained"]

    @functools.wraps(original.__func__)
    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        load = original.__get__(None, cls)
        if kwargs.get("output_loading_info") or not args:
            return load(*args, **kwargs)
        answer = load(*args, **kwargs, output_loading_info=True)
        if not isinstance(answer, tuple):
            return answer
        model, report = answer
        found[Path(str(args[0])).name] = {
            kind: sorted(str(name) for name in report.get(f"{kind}_keys") or ()) for kind in ("missing", "unexpected")
        }
        return model

    base.from_pretrained = classmethod(from_pretrained)
    try:
        yield
    finally:
        base.from_pretrained = original


def audit(pipeline: Any, loading: Mapping[str, Mapping[str, list[str]]]) -> dict[str, dict[str, Any]]:
    """Component -> how many tensors it has, and which are missing, unexpected, all zero or constant.

    Only matrices and larger tensors count as zero or constant: biases and gains often are.

    Raises:
        LegError: ``kind="weights"`` for tensors that the files lack, since those hold whatever they were begun with;
            for values that are not finite; and for an embedding of all zeros.
    """
    found = {}
    for name, component in pipeline.components.items():
        if isinstance(component, torch.nn.Module):
            found[name] = _audit_component(name, component, loading.get(name, {}))
    return found


def _audit_component(name: str, component: torch.nn.Module, loading: Mapping[str, list[str]]) -> dict[str, Any]:
    zero: list[str] = []
    constant: list[str] = []
    broken: list[str] = []
    tensors = 0
    for key, tensor in component.named_parameters():
        tensors += 1
        if not tensor.is_floating_point() or tensor.numel() == 0 or tensor.is_meta:
            continue  # packed integers of quantised layers, and weights that are not in memory yet
        low, high = _limits(tensor)
        if not (math.isfinite(low) and math.isfinite(high)):
            broken.append(key)
        elif low == high and sum(size > 1 for size in tensor.shape) > 1:
            (constant if low else zero).append(key)
    embeddings = {key for key, module in component.named_modules() if isinstance(module, torch.nn.Embedding)}
    empty = [key for key in zero if key.rpartition(".")[0] in embeddings and name.startswith("text_encoder")]
    wrong = {"not in the files": loading.get("missing", []), "not finite": broken, "an embedding of zeros": empty}
    for what, keys in wrong.items():
        if keys:
            raise refused(
                f"weights of {name}: {_names(keys)} {'is' if len(keys) == 1 else 'are'} {what}",
                kind="weights",
                hint="fetch the model again, or use the versions of the libraries that it was saved with",
            )
    counted = {"unexpected": loading.get("unexpected", []), "zero": zero, "constant": constant}
    return {"tensors": tensors, **{what: _listed(keys) for what, keys in counted.items() if keys}}


def _limits(tensor: torch.Tensor) -> tuple[float, float]:
    """The lowest and the highest value of floats; NaN when there is one."""
    plain = tensor.detach()
    plain = plain if plain.dtype in _WIDE else plain.float()
    low, high = torch.aminmax(plain)
    return float(low), float(high)


def _names(keys: list[str]) -> str:
    return ", ".join(keys[:_LISTED]) + (f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else "")


def _listed(keys: list[str]) -> dict[str, Any]:
    return {"count": len(keys), "names": keys[:_LISTED]}
