"""Cases -> neutral steps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from paritygate.ci.sources import case_sources
from paritygate.ci.step import Retry, Step
from paritygate.ci.yaml_text import one_line
from paritygate.errors import ExitCode
from paritygate.manifest.case import Case
from paritygate.manifest.marks import mark_expression
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Preset, Registries

#: Only what the code under test cannot cause: -1 is a lost agent. A flaky number must stay red.
RETRIES = (Retry(exit_status=-1, limit=2), Retry(exit_status=int(ExitCode.INFRASTRUCTURE), limit=2))

#: A failing setup line ends the script. Some agents run it with a plain sh, which may not know pipefail.
_STRICT = ("set -eu", "if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi")
#: Whatever a setup line does, a script that ends before the test command is red.
_GUARD = """trap 'case $? in 0) echo "the setup ended the script before the test" >&2; exit 1 ;; esac' EXIT"""
_UNGUARD = "trap - EXIT"
#: What the agent or a setup line leaves there could turn the test command into one that tests nothing.
_OWN_WORDS = "unset PYTEST_ADDOPTS"
_BACKSLASHED_DOLLAR = re.compile(r"\\+\$")


def build_steps(cases: Iterable[Case], project: Project, registries: Registries) -> tuple[Step, ...]:
    """One step per case variant, sorted by key. The cases passed the rules: lane and hardware are to be had."""
    presets: dict[tuple[str, int], Preset | None] = {}
    steps: list[Step] = []
    for case in cases:
        wanted = (case.ci.sku[0], case.ci.cards)
        if wanted not in presets:
            presets[wanted] = registries.preset(*wanted)
        preset = presets[wanted]
        assert preset is not None, f"rules let {case.id} pass without hardware"
        steps.append(_step(case, project, registries, preset=preset))
    return tuple(sorted(steps, key=lambda step: step.key))


def _step(case: Case, project: Project, registries: Registries, *, preset: Preset) -> Step:
    lane = registries.lanes[case.ci.lane]
    hardware = f"{preset.cards}x {preset.hardware.sku}" if preset.cards else preset.hardware.sku
    return Step(
        key=case.id,
        label=f"{_shown(case.title)} ({hardware})",
        group=_shown(case.ci.group or lane.group),
        lane=lane,
        preset=preset,
        timeout_minutes=case.ci.timeout_minutes,
        script=_script(case, project, preset),
        # The plugin is strict where CI is "true"; a container need not inherit the agent's environment.
        env={**preset.hardware.env, "CI": "true"},
        artifacts=(f"{project.artifacts}/{case.id}/**/*", _junit(case, project)),
        retries=RETRIES,
        sources=case_sources(case, project, registries),
    )


def _script(case: Case, project: Project, preset: Preset) -> str:
    """Setup, then exactly one pytest node as the last command, so that its exit code is the script's."""
    node = f"{project.test_module}::test_accuracy[{case.id}]"
    expression = mark_expression(case, sku=preset.hardware.sku)
    command = (
        f'pytest {shlex.quote(node)} -m "{expression}" --paritygate-expect 1 '
        f"--junitxml {shlex.quote(_junit(case, project))}"
    )
    setup = (*preset.hardware.setup, *case.ci.setup)
    return "\n".join((*_STRICT, _GUARD, *setup, _UNGUARD, _OWN_WORDS, command))


def _junit(case: Case, project: Project) -> str:
    """Beside the run folders, under a name that no case folder can have: ids hold no dot."""
    return f"{project.artifacts}/{case.id}.junit.xml"


def _shown(text: str) -> str:
    """A display text on one line; backslashes before a dollar would not survive the upload and are dropped."""
    return _BACKSLASHED_DOLLAR.sub("$", one_line(text))
