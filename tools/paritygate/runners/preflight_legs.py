"""What one leg lacks: assets, adapters, its interpreter and everything that must be installed there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paritygate import __version__
from paritygate.errors import UsageError
from paritygate.manifest.case import Case, Leg
from paritygate.runners import probe
from paritygate.runners.asking import UnansweredError, ask_python
from paritygate.runners.leg import interpreter, leg_environment
from paritygate.runners.preflight_programs import program_environment, program_problems
from paritygate.runners.problems import PreflightProblem
from paritygate.runners.table import RUNNERS, WORKER_DISTRIBUTIONS, find_runner

_PROBE_TIMEOUT_S = 60
#: Runner -> the function that its adapter defines.
_ADAPTER_FUNCTIONS = {"diffusers": "prepare", "python": "run"}
#: Key of a ``diffusers`` leg -> the distribution that it needs besides.
_KEY_DISTRIBUTIONS = {"encode": "av", "lora": "peft", "offload": "accelerate"}


class Installed(msgspec.Struct, frozen=True):
    """A distribution: its version, its folder, the commit of its sources, whether files of that differ, its module."""

    version: str
    folder: str
    commit: str
    changed: bool
    module: str

    def __str__(self) -> str:
        return self.version + (f" @{self.commit}" if self.commit else "") + (" and changed" if self.changed else "")


class Interpreter(msgspec.Struct, frozen=True):
    """What ``probe.py`` found.

    ``paritygate`` is the version of this package there. ``entry`` and ``adapter`` say why they cannot be called.
    ``packages`` is a digest over everything that is installed.
    """

    python: str
    distributions: dict[str, Installed | None]
    paritygate: str
    entry: str
    adapter: str
    packages: str

    def versions(self) -> dict[str, str | None]:
        """``python`` and every distribution that was asked for, for people."""
        return {
            "python": self.python,
            **{name: str(found) if found else None for name, found in self.distributions.items()},
        }


class LegState(msgspec.Struct, kw_only=True):
    """What preflight found of one leg; ``interpreter`` is None when it cannot be used."""

    problems: list[PreflightProblem]
    interpreter: Interpreter | None = None


Probes = dict[tuple[str, ...], Interpreter | PreflightProblem]


def leg_state(case: Case, leg: Leg, probes: Probes, environ: Mapping[str, str]) -> LegState:
    """Check one leg; ``probes`` keeps what interpreters answered, for the next leg."""
    state = LegState(problems=[*_file_problems(case, leg), *program_problems(case, leg, environ)])
    try:
        runner = find_runner(leg.runner)
    except UsageError as error:
        state.problems.append(PreflightProblem(code="runner", message=error.message, fix=error.hint, leg=leg.name))
        return state
    needed = (*WORKER_DISTRIBUTIONS, *runner.distributions)
    needed += tuple(name for key, name in _KEY_DISTRIBUTIONS.items() if runner.in_leg_python and leg.spec.get(key))
    if not runner.in_leg_python:
        own = msgspec.structs.replace(leg, python=None, requires={}, adapter=None, spec={})
        _look(state, case, own, needed=needed, probes=probes, environment=leg_environment(own, environ))
        if leg.python is None and not leg.requires:
            return state
        _look(state, case, leg, needed=(), probes=probes, environment=program_environment(case, leg, environ))
    else:
        _look(state, case, leg, needed=needed, probes=probes, environment=leg_environment(leg, environ))
    return state


def _file_problems(case: Case, leg: Leg) -> Iterator[PreflightProblem]:
    for asset in leg.assets:
        if not (case.root / asset.path).exists():
            message = f"{asset.path} does not exist"
            yield PreflightProblem(code="asset", message=message, fix=f"run: {asset.made_by}", leg=leg.name)
    if leg.adapter and not (case.root / leg.adapter).is_file():
        message = f"{leg.adapter} does not exist"
        yield PreflightProblem(code="adapter", message=message, fix="restore it from git", leg=leg.name)


def _look(
    state: LegState, case: Case, leg: Leg, *, needed: tuple[str, ...], probes: Probes, environment: Mapping[str, str]
) -> None:
    """Ask an interpreter and add what it lacks.

    Args:
        state: what to add to.
        case: the case.
        leg: the leg, with the ``python`` to ask.
        needed: what the runner needs there; nothing where it is only what a program starts.
        probes: the answers so far.
        environment: under which it will run.
    """
    python, request = interpreter(case, leg), _request(case, leg, needed)
    key = (python, msgspec.json.encode([request, sorted(environment.items())]).decode())
    if key not in probes:
        probes[key] = _probe(python, request, root=case.root, environment=environment)
    found = probes[key]
    if isinstance(found, PreflightProblem):
        state.problems.append(msgspec.structs.replace(found, leg=leg.name))
        return
    state.interpreter = found
    state.problems += _missing(leg, found, needed)
    state.problems += _other_versions(leg, found)
    if needed and found.paritygate not in ("", "unknown", __version__):
        message = f"paritygate is {found.paritygate} in the leg's Python, the run is of {__version__}"
        fix = f"pip install 'paritygate[{RUNNERS[leg.runner].extra}]=={__version__}'"
        state.problems.append(PreflightProblem(code="version", message=message, fix=fix, leg=leg.name))
    for code, message in (("entry", found.entry), ("adapter", found.adapter)):
        if message:
            fix = f"correct the leg's {code}, or install it in the leg's Python"
            state.problems.append(PreflightProblem(code=code, message=message, fix=fix, leg=leg.name))


def _request(case: Case, leg: Leg, needed: tuple[str, ...]) -> dict[str, Any]:
    adapter = case.root / leg.adapter if leg.adapter else None
    in_leg = leg.runner in _ADAPTER_FUNCTIONS
    return {
        "distributions": sorted({*needed, *leg.requires}),
        "entry": leg.spec.get("entry") or "" if in_leg and not leg.adapter else "",
        "adapter": str(adapter) if in_leg and adapter is not None and adapter.is_file() else "",
        "function": _ADAPTER_FUNCTIONS.get(leg.runner, ""),
    }


def _probe(
    python: str, request: Mapping[str, Any], *, root: Path, environment: Mapping[str, str]
) -> Interpreter | PreflightProblem:
    try:
        return ask_python(
            python,
            probe.__file__,
            request,
            Interpreter,
            cwd=root,
            environment=environment,
            timeout_s=_PROBE_TIMEOUT_S,
        )
    except UnansweredError as error:
        reason = str(error)
    return PreflightProblem(
        code="interpreter",
        message=f"the interpreter {python} cannot be used: {reason}",
        fix="create that environment, or correct the leg's python",
    )


def _missing(leg: Leg, found: Interpreter, needed: tuple[str, ...]) -> Iterator[PreflightProblem]:
    missing = [name for name, installed in found.distributions.items() if installed is None]
    if needed and not found.paritygate:
        missing.insert(0, "paritygate")
    extra = RUNNERS[leg.runner].extra
    for name in missing:
        own = f"pip install {_requirement(name, leg.requires[name])}" if name in leg.requires else ""
        yield PreflightProblem(
            code="distribution",
            message=f"{name} is not installed in the leg's Python {found.python}",
            fix=own or f"pip install {_package_of(name, extra)}",
            leg=leg.name,
        )


def _package_of(name: str, extra: str) -> str:
    return name if name in _KEY_DISTRIBUTIONS.values() else f"'paritygate[{extra}]=={__version__}'"


def _other_versions(leg: Leg, found: Interpreter) -> Iterator[PreflightProblem]:
    """Distributions that are there in another version, or from another commit, than the leg requires."""
    for name, wanted in sorted(leg.requires.items()):
        installed = found.distributions.get(name)
        if installed is None or _satisfies(installed, wanted):
            continue
        has = "of no known commit" if wanted.startswith("@") and not installed.commit else str(installed)
        yield PreflightProblem(
            code="version",
            message=f"{name} is {has} (in {installed.folder}), the leg requires {wanted}",
            fix=f"pip install {_requirement(name, wanted)}",
            leg=leg.name,
        )


def _requirement(name: str, wanted: str) -> str:
    if wanted.startswith("@"):
        return f"'{name} @ git+<its repository>{wanted}', or check {wanted[1:]} out, with no files changed"
    return f"'{name}{wanted}'"


def _satisfies(installed: Installed, wanted: str) -> bool:
    if wanted.startswith("@"):
        return installed.commit == wanted[1:] and not installed.changed
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - part of the run extra, not of the core

    return SpecifierSet(wanted).contains(installed.version, prereleases=True)
