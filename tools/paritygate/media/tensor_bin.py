"""Raw little-endian values, whose dtype and shape the user declares, or a JSON file beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paritygate.errors import MediaError
from paritygate.media.tensor_data import DTYPES, UNNAMED, Tensor, map_file, placed

_MAX_SIDECAR_BYTES = 1 << 16


def sidecars(path: Path) -> tuple[Path, Path]:
    """Where ``{"dtype": "float32", "shape": [2, 3]}`` for ``a.bin`` may stand: ``a.bin.json`` or ``a.json``."""
    return path.with_name(f"{path.name}.json"), path.with_suffix(".json")


def read_bin(path: Path, *, dtype: str | None, shape: tuple[int, ...] | None) -> list[Tensor]:
    """The values of a raw file, mapped, in C order.

    Args:
        path: the file.
        dtype: a key of ``DTYPES``; None when the sidecar says it.
        shape: the lengths of the axes; None when the sidecar says it.

    Raises:
        MediaError: when dtype or shape are declared nowhere or differently, or do not fit the file.
    """
    declared = {"dtype": dtype, "shape": None if shape is None else list(shape)}
    found = [sidecar for sidecar in sidecars(path) if sidecar.exists()]
    if len(found) > 1:
        raise MediaError(f"{path}: described by both {found[0].name} and {found[1].name}", kind="format")
    for key, value in (_sidecar(found[0]) if found else {}).items():
        if declared[key] not in (None, value):
            text = f"{path}: {key} {declared[key]!s:.80} is declared, {found[0].name} says {value!s:.80}"
            raise MediaError(text, kind="format")
        declared[key] = value
    missing = [key for key, value in declared.items() if value is None]
    if missing:
        text = f"{path}: raw values, and nothing declares their {' and '.join(missing)}"
        hint = f'declare them, or write {sidecars(path)[0].name} with {{"dtype": "float32", "shape": [2, 3]}}'
        raise MediaError(text, kind="format", hint=hint)
    kept: Any = declared
    array = placed(map_file(path), dtype=kept["dtype"], shape=tuple(kept["shape"]), name=str(path))
    return [Tensor(name=UNNAMED, array=array, dtype=kept["dtype"])]


def _sidecar(path: Path) -> dict[str, Any]:
    """Dtype and shape as a sidecar says them.

    Raises:
        MediaError: when it says anything else.
    """
    data = map_file(path)
    try:
        if data.size > _MAX_SIDECAR_BYTES:
            raise ValueError("it is too long")
        content = json.loads(data.tobytes().decode("utf-8"))
        if not isinstance(content, dict) or content.keys() != {"dtype", "shape"}:
            raise ValueError("it is no object of dtype and shape")
        if content["dtype"] not in DTYPES or not isinstance(content["shape"], list):
            raise ValueError(f"dtype {content['dtype']!r:.40}, known are {', '.join(DTYPES)}; the shape is a list")
    except (RecursionError, TypeError, ValueError) as error:
        raise MediaError(f"{path}: describes no raw values ({error!s:.200})", kind="format") from error
    return content
