"""Cases -> neutral steps, with every reason why a case cannot become one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from paritygate.ci.sources import case_sources
from paritygate.ci.step import Retry, Step
from paritygate.errors import ExitCode, ManifestError, Problem
from paritygate.manifest.case import Case
from paritygate.manifest.loader import Pointer, load_yaml
from paritygate.manifest.marks import mark_expression
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Lane, Preset, Registries
from paritygate.manifest.shell_lines import setup_fault
from paritygate.manifest.wording import nearest

#: Only what the code under test cannot cause: -1 is a lost agent. A flaky number must stay red.
RETRIES = (Retry(exit_status=-1, limit=2), Retry(exit_status=int(ExitCode.INFRASTRUCTURE), limit=2))

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)


def build_steps(cases: Iterable[Case], project: Project, registries: Registries) -> tuple[Step, ...]:
    """One step per case variant, sorted by key.

    Raises:
        ManifestError: with every case that cannot become a step: unknown lane, hardware that no pool offers, a
            time limit beyond the lane's, a key that the CI refuses, setup lines that would hide the test.
    """
    presets: dict[tuple[str, int], Preset] = {}
    helpers: dict[str, tuple[str, ...]] = {}
    problems: list[Problem] = []
    steps: list[Step] = []
    for case in cases:
        lane, wanted = registries.lanes.get(case.ci.lane), (case.ci.sku[0], case.ci.cards)
        if wanted not in presets and (preset := registries.preset(*wanted)):
            presets[wanted] = preset
        faults = list(_faults(case, registries, lane=lane))
        problems += _located(case, faults)
        if lane is not None and wanted in presets and not faults:
            sources = case_sources(case, registries, helpers=helpers)
            steps.append(_step(case, project, registries, lane=lane, preset=presets[wanted], sources=sources))
    if problems:
        raise ManifestError(problems)
    return tuple(sorted(steps, key=lambda step: step.key))


def _step(
    case: Case, project: Project, registries: Registries, *, lane: Lane, preset: Preset, sources: tuple[str, ...]
) -> Step:
    hardware = f"{preset.cards}x {preset.hardware.sku}" if preset.cards else preset.hardware.sku
    return Step(
        key=case.id,
        label=f"{_one_line(case.title)} ({hardware})",
        group=_one_line(case.ci.group or lane.group),
        lane=lane,
        preset=preset,
        timeout_minutes=case.ci.timeout_minutes,
        script=_script(case, project, registries, preset=preset),
        # The plugin is strict where CI is "true"; a container need not inherit the agent's environment.
        env={"CI": "true", **preset.hardware.env},
        artifacts=(f"{project.artifacts}/{case.id}/**/*", _junit(case, project)),
        retries=RETRIES,
        sources=sources,
    )


def _script(case: Case, project: Project, registries: Registries, *, preset: Preset) -> str:
    """Setup, then exactly one pytest node as the last command, so that its exit code is the script's."""
    node = f"{project.test_module}::test_accuracy[{case.id}]"
    expression = mark_expression(case, registries, sku=preset.hardware.sku)
    command = (
        f'pytest {shlex.quote(node)} -m "{expression}" --paritygate-expect 1 '
        f"--junitxml {shlex.quote(_junit(case, project))}"
    )
    return "\n".join(("set -euo pipefail", *preset.hardware.setup, *case.ci.setup, command))


def _junit(case: Case, project: Project) -> str:
    """Beside the run folders, under a name that no case folder can have: ids hold no dot."""
    return f"{project.artifacts}/{case.id}.junit.xml"


def _one_line(text: str) -> str:
    """A display text on one line; a backslash before a dollar would not survive the upload and is dropped."""
    return " ".join(_CONTROL.sub(" ", text).replace("\\$", "$").split())


def _faults(case: Case, registries: Registries, *, lane: Lane | None) -> Iterator[tuple[Pointer, str, str, str]]:
    """``(pointer, rule, message, hint)`` for each reason why this case cannot become a step."""
    ci = case.ci
    if lane is None:
        yield ("ci", "lane"), "ci-lane", f"no lane {ci.lane!r} in lanes.yml", nearest(ci.lane, registries.lanes)
    elif ci.timeout_minutes > lane.max_timeout_minutes:
        message = f"{ci.timeout_minutes} minutes exceed the limit of lane {lane.name!r}: {lane.max_timeout_minutes}"
        yield ("ci", "timeout_minutes"), "ci-timeout", message, "shorten it, or move the case to another lane"
    for index, sku in enumerate(ci.sku):
        if reason := registries.unmet(sku, ci.cards):
            yield ("ci", "hardware", "sku", index), "ci-hardware", *reason
    for index, entry in enumerate(ci.sources):
        if entry.startswith("@") and entry[1:] not in registries.sources:
            message = f"no entry {entry[1:]!r} in sources.yml"
            yield ("ci", "sources", index), "ci-sources", message, nearest(entry[1:], registries.sources)
    for index, line in enumerate(ci.setup):
        if fault := setup_fault(line):
            yield ("ci", "setup", index), "ci-setup", *fault
    if len(case.id) == 36 and _UUID.match(case.id):
        yield ("id",), "ci-key", f"the id {case.id!r} reads as a UUID, which Buildkite refuses as a key", "rename it"


def _located(case: Case, faults: Iterable[tuple[Pointer, str, str, str]]) -> Iterator[Problem]:
    """Problems at the author's line; the manifest is read again only when there are some."""
    document = None
    for pointer, rule, message, hint in faults:
        document = document or load_yaml(case.root / case.manifest, display=case.manifest, root=case.root)
        yield document.problem(pointer, rule, message, hint=hint)
