"""From the folder of a test file to its cases, as pytest parameters.

Loaded on the first test that asks for a case: a pytest run without one never imports the manifest room.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paritygate.errors import ParitygateError, Problem
from paritygate.manifest.index import load_cases
from paritygate.manifest.marks import all_marks, marks
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import Registries, load_registries
from paritygate.pytest_plugin.watch import Target


def register_marks(config: pytest.Config, registries: Registries) -> None:
    """Make every mark that a manifest can give known to ``--strict-markers`` and ``--markers``."""
    known = {line.partition(":")[0].strip() for line in config.getini("markers")}
    for name, description in all_marks(registries).items():
        if name not in known:
            config.addinivalue_line("markers", f"{name}: {description}")


def register_project_marks(config: pytest.Config) -> None:
    """Register the marks of the project above the root; its broken files are reported where a case is collected."""
    with suppress(ParitygateError):
        register_marks(config, load_registries(find_project(config.rootpath)))


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
    return params


def _refusal(problems: tuple[Problem, ...], error: ParitygateError | None = None) -> pytest.Collector.CollectError:
    lines = [problem.text() for problem in problems]
    if not lines and error is not None:
        lines = [f"paritygate: {error.message}", *([f"  fix: {error.hint}"] if error.hint else [])]
    return pytest.Collector.CollectError("\n".join(lines))
