"""From the folder of a test file to its cases, as pytest parameters.

Loaded on the first test that asks for a case: a pytest run without one never imports the manifest room.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paritygate.errors import ParitygateError, Problem, printable
from paritygate.manifest.discovery import CASE_SUFFIX, GATE_SUFFIX
from paritygate.manifest.index import load_cases
from paritygate.manifest.marks import all_marks, marks
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import Registries, load_registries
from paritygate.pytest_plugin.watch import Target

_CASE_FILES = (CASE_SUFFIX, GATE_SUFFIX)


def register_marks(config: pytest.Config, registries: Registries) -> None:
    """Make every mark that a manifest can give known to ``--strict-markers`` and ``--markers``."""
    known = {line.partition(":")[0].strip() for line in config.getini("markers")}
    for name, description in all_marks(registries).items():
        if name not in known:
            config.addinivalue_line("markers", f"{name}: {description}")


def enter_project(config: pytest.Config) -> None:
    """Register the marks of the project above the root, and keep its case folders out of pytest's search.

    Broken files of the project are reported where a case is collected, not here: other tests may still run.
    """
    with suppress(ParitygateError):
        register_marks(config, load_registries(find_project(config.rootpath)))
    config.pluginmanager.register(CaseFolders(), "paritygate-case-folders")


class CaseFolders:
    """Saves pytest a collector for every case folder: a thousand of them cost more than their cases."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """True for case files, and for a folder that holds nothing else: there is no test in it."""
        try:
            with os.scandir(collection_path) as entries:
                names = [entry.name for entry in entries]
        except NotADirectoryError:
            names = [collection_path.name]
        except OSError:
            return None
        return True if names and all(name.endswith(_CASE_FILES) for name in names) else None


def parameters(config: pytest.Config, folder: Path) -> list[Any]:
    """One ``pytest.param`` per case beneath a folder, with its node id and its marks.

    Raises:
        pytest.Collector.CollectError: with our problem lines, when a hand-written file is wrong, when there is no
            project above the folder, or no case beneath it.
    """
    try:
        project = find_project(folder)
        registries = load_registries(project)
        loaded = load_cases(project, registries, only=folder)
    except ParitygateError as error:
        raise _refusal(getattr(error, "problems", ()), error) from None
    if loaded.problems:
        raise _refusal(loaded.problems)
    if not loaded.cases:
        raise pytest.Collector.CollectError(
            f"paritygate: no *.case.yaml beneath {folder}; write one with: paritygate new SLUG"
        )
    register_marks(config, registries)
    decorators: dict[str, pytest.MarkDecorator] = {}
    params: list[Any] = []
    for case in loaded.cases:
        names = marks(case, registries)
        for name in names:
            if name not in decorators:
                decorators[name] = getattr(pytest.mark, name)
        target = Target(case=case, project=project, registries=registries)
        params.append(pytest.param(target, id=case.id, marks=[decorators[name] for name in names]))
    # All cases live as long as the session, and pytest alone makes five garbage collections at its end. What is
    # frozen here is the whole session's, but without it collecting misses its goal: benchmarks/collection.py
    # measured 2.3 to 2.5 times the empty tests instead of 1.3 to 1.6, and 2.0 is allowed.
    gc.freeze()
    return params


def _refusal(problems: tuple[Problem, ...], error: ParitygateError | None = None) -> pytest.Collector.CollectError:
    lines = [problem.text() for problem in problems]
    if not lines and error is not None:
        lines = [f"paritygate: {error.message}", *([f"  fix: {error.hint}"] if error.hint else [])]
    return pytest.Collector.CollectError("\n".join(printable(line) for line in lines))
