"""From the folder of a test file to its cases, as pytest parameters.

Loaded on the first test that asks for a case: a pytest run without one never imports the manifest room.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
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
#: What pytest itself can make tests of, and the plugins of it that do.
_TEST_FILES = (".py", ".txt", ".rst")
_PYTEST_COLLECTORS = frozenset({"python", "doctest"})


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
    config.pluginmanager.register(CaseFolders(config), "paritygate-case-folders")


class CaseFolders:
    """Saves pytest the collectors of case folders and of what lies in them: a thousand cost more than their cases."""

    def __init__(self, config: pytest.Config) -> None:
        self._has_text_tests = bool(config.getoption("doctestglob", default=None))
        self._collectors = config.hook.pytest_collect_file

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """True for case files, and for a folder with one that holds nothing which could be a test."""
        try:
            with os.scandir(collection_path) as entries:
                listed = list(entries)
        except NotADirectoryError:
            return True if collection_path.name.endswith(_CASE_FILES) else None
        except OSError:
            return None
        is_case = any(entry.name.endswith(_CASE_FILES) for entry in listed)
        return True if is_case and self._is_inert(listed) else None

    def _is_inert(self, listed: Sequence[os.DirEntry[str]]) -> bool:
        # With other collectors about, any file but ours may be a test.
        others = {hook.plugin_name for hook in self._collectors.get_hookimpls()} - _PYTEST_COLLECTORS
        if others or self._has_text_tests:
            return all(entry.name.endswith(_CASE_FILES) for entry in listed)
        return not any(map(_may_hold_test, listed))


def _may_hold_test(entry: os.DirEntry[str]) -> bool:
    """Whether pytest's own collectors could find a test there, or complain; a linked folder is not looked into."""
    if not entry.is_dir():
        return entry.name.endswith(_TEST_FILES)
    try:
        with os.scandir(entry) as entries:
            return entry.is_symlink() or any(map(_may_hold_test, entries))
    except OSError:
        return True


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
