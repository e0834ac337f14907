"""The files that a step depends on: what the case itself names, and what its author adds."""

from __future__ import annotations

from paritygate.manifest.case import Case
from paritygate.manifest.paths import path_values
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries

REGISTRY_FILES = ("hardware.yml", "lanes.yml", "sources.yml")


def shared_sources(project: Project, registries: Registries) -> tuple[str, ...]:
    """Path prefixes on which every step depends: configuration, registries, the test module, the declared ones."""
    derived = ["paritygate.yaml", project.test_module, *(f"{project.buildkite}/{name}" for name in REGISTRY_FILES)]
    return tuple(sorted({*derived, *(source.path for source in registries.shared)}))


def case_sources(case: Case, project: Project, registries: Registries) -> tuple[str, ...]:
    """Path prefixes on which one case depends beyond the shared ones. Sorted.

    The manifest and what it extends, the gate file and its evidence (also before they exist), adapters, prompt files,
    inputs, a model that ships with the project, the goldens that it reads, and the declared sources with ``@name``
    resolved.
    """
    folder, _, name = case.manifest.rpartition("/")
    folder = f"{folder}/" if folder else ""
    found = {case.manifest, *case.bases, f"{folder}{name.removesuffix('.case.yaml')}.gate.yaml", f"{folder}evidence/"}
    for value in path_values(case.document):
        # An asset is built from sources, so it is none.
        if "assets" not in value.pointer:
            found.add(f"{value.text}/" if value.expects == "folder" else value.text)
    goldens = [leg.spec["golden"] for leg in case.legs if "golden" in leg.spec]
    goldens += [tensor.golden for tensor in case.component.inputs.values()] if case.component else []
    found.update(f"{project.goldens}/{golden['name']}/v{golden['version']}/" for golden in goldens)
    for entry in case.ci.sources:
        if entry.startswith("@"):
            found.update(source.path for source in registries.sources[entry[1:]])
        else:
            found.add(entry)
    return tuple(sorted(found))
