"""Single files of weights: whether each is whole, found from its header and its length alone."""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_LARGEST_HEADER_BYTES = 100_000_000
_LARGEST_JSON_BYTES = 64 << 20
#: Bits of a value by the dtype codes of safetensors; others are not checked against the shape.
_BITS = {
    **dict.fromkeys(("BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8"), 8),
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 16),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("C64", "F64", "I64", "U64"), 64),
}
#: How git stores a file that lies elsewhere.
_POINTER = b"version https://git-lfs"
#: How a file of torch.save begins: a zip archive, or before PyTorch 1.6 a pickle.
_ARCHIVE, _PICKLE = b"PK\x03\x04", b"\x80\x02"
_NAMED = 3
#: Weights in another precision than the plain ones beside them.
VARIANT = re.compile(r"\.(fp16|bf16|fp32|ema|non_ema)\b")


def presence_problem(path: Path) -> str:
    """Why a file of a snapshot is not really there: an empty or cut-off download, or something that stands for it."""
    if path.is_symlink() and not path.exists():
        blob = path.readlink()
        started = any((path.parent / blob).parent.glob(f"{blob.name}*.incomplete"))
        return f"{path} links to {blob.name}, which is not there" + (", its download was cut off" if started else "")
    if path.name.endswith(".incomplete"):
        return f"{path} is a download that was cut off"
    if not path.is_file():
        return "" if path.is_dir() else f"{path} is no regular file"
    size = path.stat().st_size
    if size == 0:
        return f"{path} is empty"
    if size < 1024 and path.read_bytes().startswith(_POINTER):
        return f"{path} is a pointer of git-lfs, not the file itself"
    return ""


def file_problem(path: Path) -> str:
    """Why a file that is there is not whole, by what its name says it is; empty when nothing is wrong."""
    if path.suffix == ".safetensors":
        return read_header(path)[1]
    if path.suffix == ".bin" and "pytorch_model" in path.name:
        return _archive_problem(path)
    if path.suffix == ".json" and read_json(path) is None:
        return f"{path} is not readable JSON"
    return ""


def index_problems(index: Path, *, damaged: frozenset[Path]) -> Iterator[str]:
    """Shards that an index names and that are not there, and tensors that are not where it puts them.

    Args:
        index: the ``.index.json`` file, which is there.
        damaged: files of which something else was said already.
    """
    data = read_json(index)
    places = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(places, dict) or not places:
        yield f"{index} is not a readable index of shards"
        return
    if _is_unused(index, {str(shard) for shard in places.values()}):
        return
    by_shard: dict[str, set[str]] = {}
    for tensor, shard in places.items():
        by_shard.setdefault(str(shard), set()).add(tensor)
    for shard, tensors in sorted(by_shard.items()):
        path = index.parent / shard
        if "/" in shard or "\\" in shard or shard in ("", ".", ".."):
            yield f"{index} names a shard outside its folder: {shard!r}"
        elif path in damaged:
            continue
        elif not path.is_file():
            yield f"{path} is missing (named by {index.name})"
        elif path.suffix == ".safetensors":
            header, problem = read_header(path)
            if not problem and (absent := sorted(tensors - header.keys())):
                yield f"{path} lacks {_some(absent)}, which {index.name} puts there"


def read_header(path: Path) -> tuple[Mapping[str, Any], str]:
    """The tensors of a safetensors file by name, and why it is not whole (empty when it is)."""
    if not path.is_file():
        return {}, f"{path} is no regular file"
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(size - 8, _LARGEST_HEADER_BYTES):
                return {}, f"{path} is no safetensors file, or cut off ({size} bytes)"
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        end = 0
        for name, entry in sorted(header.items(), key=lambda row: row[1]["data_offsets"]):
            first, last = entry["data_offsets"]
            bits = math.prod(entry["shape"]) * _BITS.get(entry["dtype"], 0)
            if (
                first != end
                or last < first
                or min(entry["shape"], default=0) < 0
                or (entry["dtype"] in _BITS and (last - first) * 8 != bits)
            ):
                return {}, f"{path} has a header that contradicts itself at {name!r:.80}"
            end = last
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        return {}, f"{path} has no readable safetensors header ({type(error).__name__})"
    if not header:
        return header, f"{path} holds no tensors"
    expected = 8 + length + end
    return header, "" if size == expected else f"{path} has {size} bytes, its header says {expected}"


def read_json(path: Path) -> object:
    """What a JSON file holds; None when it cannot be read or is larger than any of a model."""
    try:
        # A pipe would keep whoever reads it waiting for ever.
        if not path.is_file() or path.stat().st_size > _LARGEST_JSON_BYTES:
            return None
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _is_unused(index: Path, shards: set[str]) -> bool:
    """Whether an index is of another format or variant than the one that was fetched: none of its shards is there."""
    if not (".bin." in index.name or VARIANT.search(index.name)) or any(
        (index.parent / name).exists() for name in shards
    ):
        return False
    return any(path.suffix in (".safetensors", ".bin") for path in index.parent.iterdir())


def _archive_problem(path: Path) -> str:
    """Why a file of ``torch.save`` is not whole. Nothing is unpickled: a pickle can run anything."""
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        if start.startswith(_PICKLE):
            return ""
        if start != _ARCHIVE:
            return f"{path} is no file of torch.save"
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (LookupError, NotImplementedError, OSError, ValueError, zipfile.BadZipFile) as error:
        return f"{path} is damaged or cut off ({error!s:.80})"
    return "" if any(name.endswith("data.pkl") for name in names) else f"{path} is no file of torch.save"


def _some(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(name[:80] for name in names[:_NAMED]) + (f" and {rest} more tensors" if rest > 0 else "")
