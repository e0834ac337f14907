"""A project laid out from the samples."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paritygate.manifest.index import Loaded, load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries

SAMPLES = Path(__file__).parents[2] / "samples" / "manifest"


@pytest.fixture
def sample_project(tmp_path: Path) -> Path:
    """The root of a fresh copy of the sample project, without a case."""
    root = tmp_path.resolve() / "project"
    shutil.copytree(SAMPLES / "project", root)
    return root


@pytest.fixture
def add_case(sample_project: Path) -> Callable[[str, str], Path]:
    """Write ``cases/NAME.case.yaml`` that extends the sample base, with more text below."""

    def add(name: str, text: str = "") -> Path:
        path = sample_project / "cases" / f"{name}.case.yaml"
        path.write_text(f"schema_version: 1\nextends: base.yaml\nid: {name}\n{text}", encoding="utf-8")
        return path

    return add


@pytest.fixture
def load(sample_project: Path) -> Callable[[], Loaded]:
    """Load the sample project as it is now."""

    def load_now() -> Loaded:
        project = find_project(sample_project)
        return load_cases(project, load_registries(project))

    return load_now
