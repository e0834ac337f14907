"""``paritygate.yaml``: the root of a project and where its parts are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from paritygate.errors import ManifestError, UsageError
from paritygate.manifest.loader import load_yaml
from paritygate.manifest.schemas import check

PROJECT_FILE = "paritygate.yaml"
_TEXTS = ("artifacts", "buildkite", "goldens", "goldens_url", "test_module")


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project. ``root`` is absolute and resolved; the other paths are relative to it, with forward slashes.

    ``cases`` are the folders searched for ``*.case.yaml``, ``artifacts`` holds run directories, ``buildkite`` the
    registries and the generated pipelines, ``test_module`` the test that runs the cases, ``goldens`` the promoted
    goldens, of which those that are missing come from ``goldens_url``.
    """

    root: Path
    cases: tuple[str, ...] = ("tests/e2e/accuracy",)
    artifacts: str = "artifacts"
    buildkite: str = ".buildkite"
    test_module: str = "tests/e2e/accuracy/test_accuracy.py"
    goldens: str = "goldens"
    goldens_url: str | None = None


def find_project(start: Path) -> Project:
    """The project that holds ``start``: the nearest folder upwards with a ``paritygate.yaml``.

    Raises:
        UsageError: when there is none.
        ManifestError: when the file is wrong.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / PROJECT_FILE
        if os.path.lexists(path):
            return _read(folder, path)
    raise UsageError(f"no {PROJECT_FILE} in {start} or above it", hint="run: paritygate init")


def _read(root: Path, path: Path) -> Project:
    document = load_yaml(path, display=PROJECT_FILE, root=root)
    if problems := check(document, "project"):
        raise ManifestError(problems)
    data: Mapping[str, Any] = document.data
    texts = {key: data[key].rstrip("/") for key in _TEXTS if key in data}
    if "cases" in data:
        texts["cases"] = tuple(folder.rstrip("/") for folder in data["cases"])
    return Project(root=root, **texts)
