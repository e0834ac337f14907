"""The files that a step depends on: what the case itself names, and what its author adds."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from pathlib import Path

from paritygate.manifest.case import Case
from paritygate.manifest.paths import path_values
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries

REGISTRY_FILES = ("hardware.yml", "lanes.yml", "sources.yml")


def shared_sources(project: Project, registries: Registries) -> tuple[str, ...]:
    """Path prefixes on which every step depends: configuration, registries, the test module, the declared ones."""
    derived = ["paritygate.yaml", project.test_module, *(f"{project.buildkite}/{name}" for name in REGISTRY_FILES)]
    return tuple(sorted({*derived, *(source.path for source in registries.shared)}))


def case_sources(case: Case, registries: Registries, *, helpers: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Path prefixes on which one case depends beyond the shared ones. Sorted.

    The manifest and what it extends, the gate file and its evidence (also before they exist), adapters with the
    modules beside them that they import, prompt files, inputs, a model that ships with the project, and the declared
    sources with ``@name`` resolved.

    Args:
        case: the case.
        registries: where ``@name`` is looked up.
        helpers: adapter -> its helper modules, filled on use: cases share adapters.
    """
    folder, _, name = case.manifest.rpartition("/")
    folder = f"{folder}/" if folder else ""
    found = {case.manifest, *case.bases, f"{folder}{name.removesuffix('.case.yaml')}.gate.yaml", f"{folder}evidence/"}
    for value in path_values(case.document):
        if value.pointer[-1] == "adapter":
            if value.text not in helpers:
                helpers[value.text] = tuple(_closure(case.root, value.text))
            found.update(helpers[value.text])
        elif "assets" not in value.pointer:
            # An asset is built from sources, so it is none.
            found.add(f"{value.text}/" if value.expects == "folder" else value.text)
    for entry in case.ci.sources:
        if entry.startswith("@"):
            found.update(source.path for source in registries.sources[entry[1:]])
        else:
            found.add(entry)
    return tuple(sorted(found))


def _closure(root: Path, adapter: str) -> Iterator[str]:
    """The adapter and every module of its own folder that it imports, directly or not."""
    folder = posixpath.dirname(adapter)
    waiting, seen = [adapter], {adapter}
    while waiting:
        path = waiting.pop()
        yield path
        for module in _imports(root / path):
            beside = posixpath.join(folder, *module.split("."))
            for candidate in (f"{beside}.py", f"{beside}/__init__.py"):
                if candidate not in seen and (root / candidate).is_file():
                    seen.add(candidate)
                    waiting.append(candidate)


def _imports(path: Path) -> Iterator[str]:
    """Top modules that a Python file imports; nothing for one that cannot be read or parsed: its run will tell."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
