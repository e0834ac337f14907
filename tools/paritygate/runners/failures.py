"""Why a leg broke: one class of the taxonomy and one line for a person."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import signal
import urllib.parse
from pathlib import Path
from types import MappingProxyType

import msgspec

from paritygate.errors import GoldenError, InfrastructureError, LegError, MediaError, ParitygateError
from paritygate.media.paths import read_tail
from paritygate.records.redact import redact

FAILURE_NAME = "failure.json"
#: Every class of failure. Sorted.
KINDS = ("backend", "crash", "golden", "infrastructure", "killed", "memory", "timeout", "weights")

_LOG_BYTES = 1 << 20
_LINE_CHARACTERS = 400
_RETRYABLE_STATUS = frozenset({429, *range(500, 600)})
_CRASH_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
_OUT_OF_MEMORY_CODE = 137
_HUB_ERROR = "HfHubHTTPError"
_PRIVATE_DOMAINS = (".home.arpa", ".internal", ".lan", ".local", ".localdomain", ".localhost")

#: class of failure -> exception class names that mean it, wherever they are defined. Sorted.
_BY_NAME = MappingProxyType(
    {
        "golden": frozenset({GoldenError.__name__}),
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
        "backend": re.compile(
            r"\battention\b.*\b(?:unavailable|unsupported|cannot be used"
            r"|not (?:available|installed|registered|supported|usable))\b|\bf(?:a|e)ll(?:s|ing)?[ -]back (?:to|on)\b"
            # Packages that hold nothing but kernels.
            r"|(?:no module named|cannot import name .* from) '(?:aiter|flash_attn|sageattention|triton|xformers)",
            re.IGNORECASE,
        ),
        "memory": re.compile(r"out of memory|can(?:'|no)t allocate memory|bad_alloc|\b\w*MemoryError\b", re.IGNORECASE),
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
    only name resolution, and a host of the network that answers 429 or 5xx, are infrastructure. A server on this
    machine or its private network is the code under test, and a hub's own error without an address is the hub's.
    """
    text = " ".join(str(error).split())
    # Secrets are looked for in the message as it was: one of several lines would not be found in one line.
    message = f"{type(error).__name__}: {error}" if text else type(error).__name__
    if isinstance(error, ParitygateError) and error.hint:
        message += f"; fix: {error.hint}"
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
        # That memory ran out is a guess, until the log says it.
        kind = "memory" if _BY_MESSAGE["memory"].search(line) else "killed"
        return Failure(kind=kind, message=f"killed by SIGKILL, most often because memory ran out{tail}")
    if exit_code < 0:
        name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
        kind = "crash" if -exit_code in _CRASH_SIGNALS else "killed"
        return Failure(kind=kind, message=f"ended by {name}{tail}")
    if exit_code == 0:
        return Failure(kind="crash", message=f"exited with code 0 before it had finished{tail}")
    return Failure(kind=_kind_of(line) or "crash", message=f"exited with code {exit_code}{tail}")


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
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, InfrastructureError) or _is_network_failure(error, is_hub=_HUB_ERROR in names):
        return "infrastructure"
    for kind, known in _BY_NAME.items():
        if names & known:
            return kind
    if kind := _kind_of(text):
        return kind
    if isinstance(error, FileNotFoundError) and model_dir and str(error.filename or "").startswith(model_dir):
        return "weights"
    return "crash"


def _kind_of(text: str) -> str:
    """The class that a message speaks of; empty when it speaks of none."""
    return next((kind for kind, pattern in _BY_MESSAGE.items() if pattern.search(text)), "")


def _is_network_failure(error: BaseException, *, is_hub: bool) -> bool:
    """Whether a host that the code under test cannot be answered 429 or 5xx."""
    response = getattr(error, "response", None)
    if getattr(response, "status_code", None) not in _RETRYABLE_STATUS:
        return False
    host = _host(error, response)
    return is_public(host) if host else is_hub


def _host(error: BaseException, response: object) -> str:
    """The host that was asked, as ``requests`` and ``httpx`` keep it; empty when neither says."""
    places = (response, getattr(response, "request", None), getattr(error, "request", None))
    for place in places:
        # Properties of a foreign object may raise, and its text may be no address.
        with contextlib.suppress(AttributeError, RuntimeError, ValueError):
            if host := urllib.parse.urlsplit(str(getattr(place, "url", ""))).hostname:
                return host
    return ""


def is_public(host: str) -> bool:
    """Whether a host, a name or an address, is neither this machine nor one of a private network."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        name = host.rstrip(".").lower()
        return "." in name and not name.endswith(_PRIVATE_DOMAINS)
