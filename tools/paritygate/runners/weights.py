"""Where a case's weights are on this machine, and whether they are all there, before anything loads them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from paritygate.errors import MediaError
from paritygate.manifest.case import Case
from paritygate.media.digests import tree_digest

_WEIGHT_SUFFIXES = (".safetensors", ".bin")
#: Components of a pipeline that have no weights of their own.
_WEIGHTLESS = re.compile(r"Scheduler|Tokenizer|Processor|FeatureExtractor|Guider")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LARGEST_HEADER_BYTES = 100_000_000


def model_folder(case: Case, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that should hold the weights; it may not exist.

    In this order: ``model.path`` (shipped with the project), the folder that ``model.path_env`` names, the
    snapshot of that revision in the Hugging Face cache.
    """
    if case.model.path is not None:
        return case.root / case.model.path
    if case.model.path_env and environ.get(case.model.path_env):
        return Path(environ[case.model.path_env]).expanduser()
    home = Path(environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")).expanduser()
    cache = Path(environ["HF_HUB_CACHE"]).expanduser() if environ.get("HF_HUB_CACHE") else home / "hub"
    return cache / f"models--{case.model.id.replace('/', '--')}" / "snapshots" / case.model.revision


def how_to_get(case: Case) -> str:
    """The command or step that brings the weights."""
    if case.model.path is not None:
        return f"restore {case.model.path} from version control"
    command = f"hf download {case.model.id} --revision {case.model.revision}"
    return f"{command}, or set {case.model.path_env}" if case.model.path_env else command


def folder_problems(folder: Path, *, pipeline: bool) -> Iterator[str]:
    """Everything wrong with a model folder, one sentence each.

    Args:
        folder: the folder, which exists.
        pipeline: whether it must be a pipeline, with a ``model_index.json``.
    """
    index = folder / "model_index.json"
    if not index.is_file():
        if pipeline:
            yield f"{folder} has no model_index.json"
        yield from _weight_problems(folder)
        return
    data = _read_json(index)
    if not isinstance(data, dict):
        yield f"{index} is not readable JSON"
        return
    for name, entry in sorted(data.items()):
        if isinstance(entry, list) and len(entry) == 2 and entry[0] is not None:
            yield from _component_problems(folder / name, str(entry[1]))


def revision_problems(case: Case, folder: Path) -> Iterator[str]:
    """Whether the folder is the declared revision, as far as that can be known."""
    revision = case.model.revision
    if has_digest(case):
        try:
            found = tree_digest(folder)
        except MediaError as error:
            yield error.message
            return
        if found != revision:
            yield f"{folder} has the tree digest {found}, the manifest says {revision}"
    elif folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name) and folder.name != revision:
        yield f"{folder} is the snapshot of another revision, the manifest says {revision}"


def has_digest(case: Case) -> bool:
    """Whether the declared revision is a digest, which the content can be held against."""
    return case.model.revision.startswith("sha256:")


def _component_problems(folder: Path, kind: str) -> Iterator[str]:
    if not folder.is_dir() or not any(folder.iterdir()):
        yield f"{folder} is missing ({kind})"
        return
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.stat().st_size == 0:
            yield f"{path} is empty"
    if _WEIGHTLESS.search(kind):
        return
    if not (folder / "config.json").is_file():
        yield f"{folder / 'config.json'} is missing"
    names = [path.name for path in folder.iterdir()]
    if not any(name.endswith((*_WEIGHT_SUFFIXES, ".index.json")) for name in names):
        yield f"{folder} holds no weights ({kind})"
    yield from _weight_problems(folder)


def _weight_problems(folder: Path) -> Iterator[str]:
    for index in sorted(folder.glob("*.index.json")):
        data = _read_json(index)
        shards = data.get("weight_map") if isinstance(data, dict) else None
        if not isinstance(shards, dict):
            yield f"{index} is not a readable index of shards"
            continue
        for name in sorted({str(shard) for shard in shards.values()}):
            if not (folder / name).is_file():
                yield f"{folder / name} is missing (named by {index.name})"
    for path in sorted(folder.glob("*.safetensors")):
        if problem := _header_problem(path):
            yield problem


def _header_problem(path: Path) -> str:
    """Why a safetensors file is not whole; empty when its header and its length agree."""
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(size - 8, _LARGEST_HEADER_BYTES):
                return f"{path} is no safetensors file, or cut off ({size} bytes)"
            header = json.loads(stream.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"{path} has no readable safetensors header ({type(error).__name__})"
    expected = 8 + length + max(ends, default=0)
    return "" if size == expected else f"{path} has {size} bytes, its header says {expected}"


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
