"""PyTorch's ``.pt`` files, with ``weights_only``: a file may say what its tensors are, never run code."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paritygate.errors import MediaError
from paritygate.media.tensor_data import DTYPES, RAW_BITS, UNNAMED, Tensor, map_file

_MAX_DEPTH = 16
# Whatever torch raises for hostile bytes; it lets most errors of the bytes through.
_LOADING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


def read_pt(path: Path) -> list[Tensor]:
    """The tensors of a ``.pt`` file: of one tensor, or of dicts and lists of tensors, named by their path (``a.0.b``).

    Raises:
        MediaError: for anything that is more than tensors, code above all, and for damaged files.
        ModuleNotFoundError: without torch.
    """
    import torch  # noqa: PLC0415 - the only format that needs it

    data = map_file(path)
    _check_archive(path, size=data.size)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        text = f"{path}: holds more than tensors; only what torch loads with weights_only=True is read"
        raise MediaError(text, kind="format", hint="save the tensors alone") from error
    except _LOADING_ERRORS as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise MediaError(f"{path}: torch cannot load it ({text:.80})", kind="unreadable") from error
    tensors: dict[str, Tensor] = {}
    for name, value in _leaves(content, path=path, parts=()):
        if name in tensors:
            raise MediaError(f"{path}: two tensors have the path {name!r:.80}", kind="format")
        tensors[name] = _tensor(value, name=name, size=data.size, path=path)
    return list(tensors.values())


def _check_archive(path: Path, *, size: int) -> None:
    """Refuse what ``torch.save`` does not write, before torch inflates it.

    Raises:
        MediaError: for the format before PyTorch 1.6, and for compressed or overlapping members.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (LookupError, NotImplementedError, OSError, ValueError, zipfile.BadZipFile) as error:
        text = f"{path}: not a .pt file of PyTorch 1.6 or newer ({error!s:.80})"
        raise MediaError(text, kind="unreadable") from error
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise MediaError(f"{path}: has compressed members, which torch.save does not write", kind="format")
    if sum(member.file_size for member in members) > size:
        raise MediaError(f"{path}: its members claim more bytes than the file has", kind="unreadable")


def _leaves(content: Any, *, path: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    import torch  # noqa: PLC0415 - as above

    name = ".".join(parts)
    if isinstance(content, torch.Tensor):
        yield name or UNNAMED, content
    elif len(parts) < _MAX_DEPTH and isinstance(content, Mapping):
        for key, value in content.items():
            yield from _leaves(value, path=path, parts=(*parts, str(key)))
    elif len(parts) < _MAX_DEPTH and isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from _leaves(value, path=path, parts=(*parts, str(index)))
    else:
        text = f"{path}: holds {type(content).__name__} {name!r:.80}, expected tensors in dicts and lists"
        raise MediaError(text, kind="format", hint="save the tensors alone")


def _tensor(value: Any, *, name: str, size: int, path: Path) -> Tensor:
    label = f"{path}: tensor {name!r:.80}"
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in DTYPES or str(value.layout) != "torch.strided" or value.device.type != "cpu":
        text = f"{label} is {dtype}, {value.layout} on {value.device.type}, expected plain numbers"
        raise MediaError(text, kind="format")
    if value.numel() == 0:
        raise MediaError(f"{label} holds no values", kind="size")
    # An expanded tensor repeats few stored values at will.
    if value.numel() * value.element_size() > size:
        raise MediaError(f"{label} claims more values than the file has bytes", kind="size")
    value = value.detach()
    if dtype in RAW_BITS:
        import torch  # noqa: PLC0415 - as above

        value = value.view(getattr(torch, str(DTYPES[dtype])))
    array: np.ndarray[Any, np.dtype[Any]] = value.numpy()
    array.flags.writeable = False
    return Tensor(name=name, array=array, dtype=dtype)
