"""What preflight found: problems with their fixes, and what could not be checked."""

from __future__ import annotations

import msgspec

from paritygate.errors import printable
from paritygate.records.model import DeviceProfile


class PreflightProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing missing. ``code`` is stable; ``leg`` is empty for what concerns the whole case."""

    code: str
    message: str
    fix: str
    leg: str = ""


class PreflightReport(msgspec.Struct, frozen=True, kw_only=True):
    """``preflight.json``. ``profile`` is None when this machine is none that the case allows.

    ``notes`` are things that could not be checked. ``weights_verified``: whether the digest of the weights was computed
    and is the declared one. ``interpreters``: leg -> what its Python has installed. ``goldens``: leg -> local
    folder of the verified golden that it reads. ``fingerprint`` is a digest over everything that the report rests on
    and that was not looked at anew when it was ``reused``: content of files, and imports.
    """

    case: str
    problems: tuple[PreflightProblem, ...]
    notes: tuple[str, ...]
    weights_verified: bool
    model_dir: str
    profile: DeviceProfile | None
    interpreters: dict[str, dict[str, str | None]]
    goldens: dict[str, str] = {}
    fingerprint: str = ""
    reused: bool = False

    @property
    def hardware_missing(self) -> bool:
        """Whether this machine is none that the case allows."""
        return any(problem.code == "hardware" for problem in self.problems)


def environment_lines(report: PreflightReport) -> list[str]:
    """What each leg's Python has installed, one line each in a fixed form: ``environment <leg>: name=version ...``."""
    return [
        f"  environment {leg}: " + printable(" ".join(f"{name}={version or '-'}" for name, version in found.items()))
        for leg, found in report.interpreters.items()
    ]


def lines(report: PreflightReport) -> list[str]:
    """The problems for a person, one line each with its fix, and then the notes."""
    found = [
        f"[{problem.code}] {f'{problem.leg}: ' if problem.leg else ''}{problem.message}; fix: {problem.fix}"
        for problem in report.problems
    ]
    return [f"  {printable(line)}" for line in (*found, *(f"note: {note}" for note in report.notes))]
