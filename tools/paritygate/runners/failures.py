"""Why a leg broke: one class of the taxonomy and one line for a person."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from types import MappingProxyType

import msgspec

from paritygate.errors import InfrastructureError, LegError, MediaError
from paritygate.media.paths import read_tail
from paritygate.records.redact import redact

FAILURE_NAME = "failure.json"
#: Every class of failure. Sorted.
KINDS = ("crash", "infrastructure", "killed", "memory", "timeout", "weights")

_LOG_BYTES = 1 << 20
_LINE_CHARACTERS = 400
_RETRYABLE_STATUS = frozenset({429, *range(500, 600)})
_CRASH_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
_OUT_OF_MEMORY_CODE = 137

#: class of failure -> exception class names that mean it, wherever they are defined. Sorted.
_BY_NAME = MappingProxyType(
    {
        "infrastructure": frozenset({"gaierror"}),
        "memory": frozenset({"MemoryError", "OutOfMemoryError"}),
        "weights": frozenset(
            {
                "EntryNotFoundError",
                "GatedRepoError",
                "LocalEntryNotFoundError",
                "OfflineModeIsEnabled",
                "RepositoryNotFoundError",
                "RevisionNotFoundError",
                "SafetensorError",
            }
        ),
    }
)
#: class of failure -> what the message says when a library raises a general exception. Sorted.
_BY_MESSAGE = MappingProxyType(
    {
        "memory": re.compile(r"out of memory|can(?:'|no)t allocate memory|bad_alloc", re.IGNORECASE),
        "weights": re.compile(
            r"no file named .*(?:safetensors|\.bin)|does not appear to have a file named|size mismatch for"
            r"|deserializing header|in the cached files",
            re.IGNORECASE,
        ),
    }
)
_ERROR_LINE = re.compile(r"error|exception|fatal|panic|abort|out of memory|killed|no such file", re.IGNORECASE)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is one of ``KINDS``; ``message`` is one line."""

    kind: str
    message: str


def classify(error: BaseException, *, model_dir: str | None = None) -> Failure:
    """The failure that an exception inside a leg stands for.

    A refused or broken connection counts as a crash, since most often the server that the leg started is gone;
    only name resolution, and a hub that answers 429 or 5xx, are infrastructure.
    """
    text = " ".join(str(error).split())
    # Secrets are looked for in the message as it was: one of several lines would not be found in one line.
    message = f"{type(error).__name__}: {error}" if text else type(error).__name__
    return Failure(kind=_kind(error, text, model_dir), message=shorten(message))


def classify_exit(exit_code: int, log: Path) -> Failure:
    """The failure of a process that ended badly without saying why itself.

    Args:
        exit_code: as ``subprocess`` reports it; negative for a signal.
        log: what the process printed.
    """
    line = first_error_line(log)
    tail = f"; log: {line}" if line else "; the log is empty"
    if exit_code in (-signal.SIGKILL, _OUT_OF_MEMORY_CODE):
        return Failure(kind="killed", message=f"killed by SIGKILL, most often because memory ran out{tail}")
    if exit_code < 0:
        name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
        kind = "crash" if -exit_code in _CRASH_SIGNALS else "killed"
        return Failure(kind=kind, message=f"ended by {name}{tail}")
    if exit_code == 0:
        return Failure(kind="crash", message=f"exited with code 0 before it had finished{tail}")
    return Failure(kind="crash", message=f"exited with code {exit_code}{tail}")


def first_error_line(log: Path) -> str:
    """The first line of a log's last MiB that speaks of an error, else its last line, else nothing.

    What went wrong stands at the end: servers print warnings for hours before.
    """
    try:
        # The leg could write to the log's folder, so nothing below the run directory is followed.
        text = read_tail(log.parent.parent, f"{log.parent.name}/{log.name}", limit=_LOG_BYTES).decode(
            "utf-8", "replace"
        )
    except MediaError:
        return ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    # Indented lines are the source lines of a traceback: they mention errors that did not happen.
    spoken = (line for line in lines if _ERROR_LINE.search(line) and not line.startswith((" ", "Traceback")))
    return shorten(next(spoken, lines[-1].strip() if lines else ""))


def shorten(text: str) -> str:
    """The text as one readable line, without secrets."""
    text = " ".join(redact(text).split())
    return text if len(text) <= _LINE_CHARACTERS else f"{text[: _LINE_CHARACTERS - 1]}…"


def _kind(error: BaseException, text: str, model_dir: str | None) -> str:
    if isinstance(error, LegError):
        return error.kind
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, InfrastructureError) or status in _RETRYABLE_STATUS:
        return "infrastructure"
    names = {kind.__name__ for kind in type(error).__mro__}
    for kind, known in _BY_NAME.items():
        if names & known:
            return kind
    for kind, pattern in _BY_MESSAGE.items():
        if pattern.search(text):
            return kind
    if isinstance(error, FileNotFoundError) and model_dir and str(error.filename or "").startswith(model_dir):
        return "weights"
    return "crash"
