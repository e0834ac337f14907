"""Where a case's weights are on this machine, and whether they are all there, before anything loads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from paritygate.errors import MediaError
from paritygate.manifest.case import Case, Leg
from paritygate.media.digests import tree_digest
from paritygate.runners.weights_headers import VARIANT, file_problem, index_problems, presence_problem, read_json

_WEIGHT_SUFFIXES = (".safetensors", ".bin")
#: Components of a pipeline that have no weights of their own.
_WEIGHTLESS = re.compile(r"Scheduler|Tokenizer|Processor|FeatureExtractor|Guider")
#: What a tokenizer is made of: each row is enough.
_TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
    ("*.model",),
    ("*.tiktoken",),
    ("tekken.json",),
)
#: Files that may be empty.
_EMPTY_NAMES = frozenset({".gitattributes", ".gitkeep", "__init__.py"})
#: Names of components, libraries and classes; others would lead out of the folder, or be no file name at all.
_NAME = re.compile(r"\w[\w.-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HALVES = frozenset({"bfloat16", "float16"})


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


def components(folder: Path) -> dict[str, tuple[str, str]]:
    """Component -> the library and the class that ``model_index.json`` names; nothing where it is no pipeline."""
    data = read_json(folder / "model_index.json")
    return {name: row for name, row in _named(data) if all(_NAME.fullmatch(word) for word in (name, *row))}


def folder_problems(folder: Path, *, pipeline: bool) -> Iterator[str]:
    """Everything wrong with a model folder, one sentence each.

    Args:
        folder: the folder, which exists.
        pipeline: whether it must be a pipeline, with a ``model_index.json``.
    """
    index = folder / "model_index.json"
    if not os.path.lexists(index):
        if pipeline:
            yield f"{folder} has no model_index.json"
        yield from _file_problems(folder)
        return
    if problem := presence_problem(index):
        yield problem
        return
    data = read_json(index)
    if not isinstance(data, dict):
        yield f"{index} is not readable JSON"
        return
    if pipeline and not isinstance(data.get("_class_name"), str):
        yield f"{index} names no pipeline (_class_name)"
    for name, (library, kind) in _named(data):
        if odd := [word for word in (name, library, kind) if not _NAME.fullmatch(word)]:
            yield f"{index} names something that is no component: {odd[0]!r:.80}"
            continue
        yield from _component_problems(folder / name, library, kind)


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


def is_snapshot(case: Case, folder: Path) -> bool:
    """Whether a folder is where the hub's client keeps the declared commit; nothing more can be known of it."""
    return folder.parent.name == "snapshots" and folder.name == case.model.revision


def has_digest(case: Case) -> bool:
    """Whether the declared revision is a digest, which the content can be held against."""
    return case.model.revision.startswith("sha256:")


def least_bytes(folder: Path, leg: Leg) -> int:
    """The memory that a ``diffusers`` leg's weights take at the very least: the smallest set of files, as loaded."""
    total = 0
    for name in components(folder):
        found: dict[str, int] = {}
        for path in (folder / name).glob("*"):
            if path.suffix in _WEIGHT_SUFFIXES and path.is_file() and not VARIANT.search(path.name):
                found[path.suffix] = found.get(path.suffix, 0) + path.stat().st_size
        total += min(found.values(), default=0)
    dtype = leg.spec.get("dtype")
    declared = dtype.values() if isinstance(dtype, Mapping) else (dtype,)
    return total if _HALVES.isdisjoint(declared) else total // 2


def _named(data: object) -> Iterator[tuple[str, tuple[str, str]]]:
    """The rows of a ``model_index.json`` that name a component, whatever they call it."""
    for name, entry in sorted(data.items()) if isinstance(data, dict) else ():
        if isinstance(entry, list) and len(entry) == 2 and entry[0] is not None:
            yield name, (str(entry[0]), str(entry[1]))


def _component_problems(folder: Path, library: str, kind: str) -> Iterator[str]:
    if not folder.is_dir() or not any(folder.iterdir()):
        yield f"{folder} is missing ({kind})"
        return
    names = {path.name for path in folder.iterdir()}
    if "Scheduler" in kind:
        yield from _config_problems(folder / "scheduler_config.json", "")
    if "Tokenizer" in kind and not any(all(list(folder.glob(part)) for part in row) for row in _TOKENIZERS):
        yield f"{folder} holds no tokenizer: neither tokenizer.json nor a vocabulary ({kind})"
    if not _WEIGHTLESS.search(kind):
        yield from _config_problems(folder / "config.json", library)
        if not any(name.endswith((*_WEIGHT_SUFFIXES, ".index.json")) for name in names):
            yield f"{folder} holds no weights ({kind})"
    yield from _file_problems(folder)


def _config_problems(path: Path, library: str) -> Iterator[str]:
    if not os.path.lexists(path):
        yield f"{path} is missing"
    elif isinstance(data := read_json(path), dict):
        if library == "diffusers" and not isinstance(data.get("_class_name"), str):
            yield f"{path} names no class (_class_name)"
    elif data is not None:
        yield f"{path} is no JSON object"


def _file_problems(folder: Path) -> Iterator[str]:
    """What is wrong with the files directly in a folder, each said once."""
    damaged = set()
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.suffix in _WEIGHT_SUFFIXES:
            yield f"{path} is a folder, no file of weights"
        if path.is_dir() or path.name in _EMPTY_NAMES:
            continue
        if problem := presence_problem(path) or file_problem(path):
            damaged.add(path)
            yield problem
    for index in sorted(set(folder.glob("*.index.json")) - damaged):
        yield from index_problems(index, damaged=frozenset(damaged))
