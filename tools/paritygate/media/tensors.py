"""Tensor files -> arrays. Dtype and shape are what the file or the user declares, never guessed from the values.

Files may be hostile: one that is truncated, corrupt, a decompression bomb, or wants to run code gives one
``MediaError`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

from paritygate.errors import MediaError
from paritygate.media.npz import read_npy, read_npz
from paritygate.media.safetensors import read_safetensors
from paritygate.media.tensor_bin import read_bin, sidecars
from paritygate.media.tensor_data import DTYPES, RAW_BITS, UNNAMED, Tensor
from paritygate.media.tensor_pt import read_pt

__all__ = ["DTYPES", "RAW_BITS", "SUFFIXES", "UNNAMED", "Tensor", "read_tensors", "sidecars"]

_Reader = Callable[[Path, str | None, tuple[int, ...] | None], list[Tensor]]
_READERS: MappingProxyType[str, _Reader] = MappingProxyType(
    {
        ".bin": lambda path, dtype, shape: read_bin(path, dtype=dtype, shape=shape),
        ".npy": lambda path, dtype, _shape: read_npy(path, dtype=dtype),
        ".npz": lambda path, dtype, _shape: read_npz(path, dtype=dtype),
        ".pt": lambda path, _dtype, _shape: read_pt(path),
        ".pth": lambda path, _dtype, _shape: read_pt(path),
        ".safetensors": lambda path, _dtype, _shape: read_safetensors(path),
    }
)
#: The endings of tensor files, in lower case.
SUFFIXES = tuple(_READERS)


def read_tensors(
    path: Path | str, *, dtype: str | None = None, shape: tuple[int, ...] | None = None
) -> dict[str, Tensor]:
    """The tensors of a file by name, in the file's order; ``{UNNAMED: tensor}`` where the format has no names.

    Arrays are mapped where the format allows: ``.npy``, ``.safetensors``, ``.bin``, ``.pt``, uncompressed ``.npz``.

    Args:
        path: a file with one of ``SUFFIXES``; the ending decides on the format, the content must agree.
        dtype: a key of ``DTYPES``. Needed for ``.bin`` without a sidecar, and to name the raw bits of a bfloat16 or
            float8 array in ``.npy`` and ``.npz``; in any other file it must be what the file says.
        shape: the same for the lengths of the axes.

    Raises:
        MediaError: one clear reason: ``kind`` is unreadable, format, size or path.
        ModuleNotFoundError: for ``.pt`` without torch.
    """
    path = Path(path)
    if dtype is not None and dtype not in DTYPES:
        raise MediaError(f"dtype {dtype!r:.40} is not known, known are {', '.join(DTYPES)}", kind="format")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise MediaError(f"{path}: tensor files end in {', '.join(SUFFIXES)}", kind="format")
    tensors = reader(path, dtype, shape)
    if not tensors:
        raise MediaError(f"{path}: holds no tensors", kind="unreadable")
    for tensor in tensors:
        for what, declared, found in (("dtype", dtype, tensor.dtype), ("shape", shape, tensor.shape)):
            if declared is not None and declared != found:
                text = f"{path}: {tensor.name!r:.80} has {what} {found!s:.80}, {declared!s:.80} is declared"
                raise MediaError(text, kind="format" if what == "dtype" else "size")
    return {tensor.name: tensor for tensor in tensors}
