"""What the commands that run cases share: the project of the current folder and its cases."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from paritygate.errors import EXTRA_OF, ManifestError, MissingExtraError, UsageError
from paritygate.manifest.case import Case
from paritygate.manifest.index import Loaded, find_case, load_cases
from paritygate.manifest.project import Project, find_project
from paritygate.manifest.registries import Registries, load_registries


class Opened(NamedTuple):
    """A project, its registries, and the cases that loaded."""

    project: Project
    registries: Registries
    loaded: Loaded

    def cases(self, name: str) -> tuple[Case, ...]:
        """The cases that a name means.

        Raises:
            ManifestError: when the name means nothing and some manifests did not load: the reason may lie there.
            UsageError: when the name means nothing.
        """
        try:
            return find_case(self.loaded, name)
        except UsageError:
            if self.loaded.problems:
                raise ManifestError(self.loaded.problems) from None
            raise

    def case(self, name: str) -> Case:
        """The one case that a name means.

        Raises:
            UsageError: when it means several variants, or none.
        """
        found = self.cases(name)
        if len(found) > 1:
            raise UsageError(f"{name!r} means {len(found)} variants", hint=", ".join(case.id for case in found))
        return found[0]


def open_project(artifacts: Path | None = None) -> Opened:
    """The project that holds the current folder; ``artifacts`` replaces its folder for run directories.

    Raises:
        UsageError: outside a project.
        ManifestError: for a broken registry or project file.
    """
    project = find_project(Path.cwd())
    if artifacts is not None:
        project = msgspec.structs.replace(project, artifacts=str(artifacts.resolve()))
    registries = load_registries(project)
    return Opened(project, registries, load_cases(project, registries))


def require_run_extra() -> None:
    """Say what to install when the parts that running needs are absent.

    Raises:
        MissingExtraError: naming every absent module.
    """
    import importlib.util  # noqa: PLC0415 - only the commands that run cases ask

    needed = [module for module, extra in EXTRA_OF.items() if extra == "run"]
    if absent := [module for module in needed if importlib.util.find_spec(module) is None]:
        raise MissingExtraError(*absent)
