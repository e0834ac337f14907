"""Safetensors files: a length, a JSON header, and bytes that are mapped. No torch is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from paritygate.errors import MediaError
from paritygate.media.tensor_data import DTYPES, Bytes, Tensor, checked_bytes, map_file, placed

_DTYPES = MappingProxyType(
    {
        "BF16": "bfloat16",
        "BOOL": "bool",
        "F16": "float16",
        "F32": "float32",
        "F64": "float64",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "I16": "int16",
        "I32": "int32",
        "I64": "int64",
        "I8": "int8",
        "U16": "uint16",
        "U32": "uint32",
        "U64": "uint64",
        "U8": "uint8",
    }
)
# The format allows 100 MB; the largest checkpoints need a few.
_MAX_HEADER_BYTES = 16 << 20


def read_safetensors(path: Path) -> list[Tensor]:
    """The tensors of a ``.safetensors`` file, mapped.

    Raises:
        MediaError: when the header is no header, and unless its tensors fill the rest of the file without gaps or
            overlaps: then it belongs to other bytes.
    """
    data = map_file(path)
    header, start = _header(data, name=str(path))
    body = data[start:]
    tensors, end = [], 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        label = f"{path}: tensor {name!r:.80}"
        dtype, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if first != end:
            raise MediaError(f"{label} begins at byte {first!s:.40}, expected {end}", kind="unreadable")
        needed = checked_bytes(shape, dtype=dtype, name=label)
        if last - first != needed or last > body.size:
            text = f"{label} has bytes {first} to {last!s:.40} of {body.size}, its shape takes {needed!s:.40}"
            raise MediaError(text, kind="unreadable")
        tensors.append(
            Tensor(name=name, array=placed(body[first:last], dtype=dtype, shape=shape, name=label), dtype=dtype)
        )
        end = last
    if end != body.size:
        raise MediaError(f"{path}: {body.size - end} bytes after the last tensor", kind="unreadable")
    return tensors


def write_safetensors(path: Path, tensors: Iterable[Tensor]) -> None:
    """Write tensors, in this order, as one file; raw bits are stored as what their dtype says they are.

    Raises:
        OSError: when it cannot be written; what is there then is no whole file.
    """
    codes = {dtype: code for code, dtype in _DTYPES.items()}
    header, end, arrays = {}, 0, []
    for tensor in tensors:
        array = np.ascontiguousarray(tensor.array, dtype=DTYPES[tensor.dtype]).reshape(tensor.shape)
        offsets = [end, end + array.nbytes]
        header[tensor.name] = {"dtype": codes[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        end += array.nbytes
        arrays.append(array)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that mapped values are aligned
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            stream.write(array.data if array.ndim else array.tobytes())


def _header(data: Bytes, *, name: str) -> tuple[dict[str, dict[str, Any]], int]:
    """The entries by tensor name, with our dtypes, and where the values begin.

    Raises:
        MediaError: when it is no such file.
    """
    size = int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or size > min(_MAX_HEADER_BYTES, data.size - 8):
        text = f"{name}: not a .safetensors file (its header is cut off or too long)"
        raise MediaError(text, kind="unreadable")
    try:
        header = json.loads(data[8 : 8 + size].tobytes().decode("utf-8"), object_pairs_hook=_unique)
        if not isinstance(header, dict):
            raise TypeError("its header is no JSON object")
        header.pop("__metadata__", None)
        return {key: _entry(value) for key, value in header.items()}, 8 + size
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise MediaError(f"{name}: not a .safetensors file ({error!s:.80})", kind="unreadable") from error


def _entry(entry: Any) -> dict[str, Any]:
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"dtype {entry['dtype']!r:.40} is not supported")
    first, last = entry["data_offsets"]
    if type(first) is not int or type(last) is not int or not 0 <= first <= last:
        raise ValueError("its offsets are no positions")
    return {"data_offsets": (first, last), "dtype": _DTYPES[entry["dtype"]], "shape": tuple(entry["shape"])}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, refused when a key stands in it twice: readers disagree on which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in its header twice")
    return found
