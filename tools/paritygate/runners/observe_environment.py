"""What a leg ran on besides its model: numeric switches of PyTorch, and where its libraries come from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from paritygate.runners.probe import git

#: Modules whose version, place and revision are recorded. Sorted.
_MODULES = ("accelerate", "diffusers", "numpy", "peft", "safetensors", "tokenizers", "torch", "transformers")
_CUDA, _CUDNN = torch.backends.cuda, torch.backends.cudnn
#: Switch -> how it is read.
_FLAGS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "default_dtype": lambda: str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
    }
)
_CARD_FLAGS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "bf16_reduced_precision_reduction": lambda: bool(_CUDA.matmul.allow_bf16_reduced_precision_reduction),
        "cudnn_allow_tf32": lambda: _CUDNN.allow_tf32,
        "cudnn_benchmark": lambda: _CUDNN.benchmark,
        "cudnn_deterministic": lambda: _CUDNN.deterministic,
        "fp16_reduced_precision_reduction": lambda: bool(_CUDA.matmul.allow_fp16_reduced_precision_reduction),
        "sdp_cudnn": _CUDA.cudnn_sdp_enabled,
        "sdp_flash": _CUDA.flash_sdp_enabled,
        "sdp_math": _CUDA.math_sdp_enabled,
        "sdp_mem_efficient": _CUDA.mem_efficient_sdp_enabled,
    }
)


def numeric_flags(device: str) -> dict[str, Any]:
    """The process-wide switches that decide how numbers are computed on a device, by name.

    Those that act on cards only are left out on a CPU.
    """
    kind = torch.device(device).type
    chosen = {"autocast": lambda: bool(torch.is_autocast_enabled(kind)), **_FLAGS}
    chosen |= {} if kind == "cpu" else _CARD_FLAGS
    return {name: _read(read) for name, read in chosen.items()}


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError:  # PyTorch refuses to name one value when parts of its libraries were set apart
        return "set apart"


def changed_flags(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """The switches that were not put back, such as ``default_dtype: float32 -> float16``; ``none`` when all were."""
    changed = [f"{name}: {value} -> {after.get(name)}" for name, value in before.items() if after.get(name) != value]
    return ", ".join(changed) or "none"


def libraries(root: Path) -> dict[str, dict[str, Any]]:
    """Version, place and, for source checkouts, git revision of the libraries that this process has imported.

    Places begin at ``site-packages``, or are relative to ``root``, or are the last two folders: no machine is named.
    """
    found = {}
    for name in _MODULES:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None or file is None:
            continue
        folder = Path(file).parent
        facts = {"version": str(getattr(module, "__version__", "")), "path": _shown(folder, root)}
        found[name] = facts if "site-packages" in folder.parts else facts | _checkout(folder)
    return found


def _shown(folder: Path, root: Path) -> str:
    parts = folder.parts
    if "site-packages" in parts:
        return "/".join(parts[parts.index("site-packages") :])
    if folder.is_relative_to(root):
        return folder.relative_to(root).as_posix()
    return "/".join(("...", *parts[-2:]))


def _checkout(folder: Path) -> dict[str, Any]:
    """Commit and cleanliness of the git checkout that a folder lies in; nothing where there is none."""
    revision = git(str(folder), "rev-parse", "HEAD")
    if not revision:
        return {}
    changes = git(str(folder), "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": bool(changes)}
