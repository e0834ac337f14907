"""One question to one interpreter or tool, with a bounded time and a bounded answer, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

_T = TypeVar("_T")

_MAX_BYTES = 16 << 20
_TAIL_BYTES = 4096
_STEP_S = 0.02


class UnansweredError(Exception):
    """An interpreter that gave no answer; the text is one line that says why."""


def ask_python(
    python: str,
    module: str,
    question: Mapping[str, Any],
    answer: type[_T],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> _T:
    """Run a module's file in an interpreter and read the JSON in the last line that it prints.

    Args:
        python: the interpreter.
        module: path of the file, whose text is handed over, so that nothing need be installed there.
        question: its one argument, as JSON.
        answer: the type of the answer.
        cwd: the working folder.
        environment: the whole environment.
        timeout_s: seconds until it is ended, with everything that it started.

    Raises:
        UnansweredError: when it cannot be started, breaks, takes too long, prints too much, or no answer.
    """
    words = [python, "-c", Path(module).read_text(encoding="utf-8"), msgspec.json.encode(question).decode()]
    printed = ask_program(words, cwd=cwd, environment=environment, timeout_s=timeout_s)
    try:
        return msgspec.json.decode(printed.rstrip(b"\n").rpartition(b"\n")[2], type=answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnansweredError(f"no answer: {str(error).partition(chr(10))[0][:200]}") from error


def ask_program(
    words: list[str], *, cwd: Path | None = None, environment: Mapping[str, str], timeout_s: float
) -> bytes:
    """What a program prints until it ends.

    Args:
        words: the program and its arguments.
        cwd: the working folder; ours by default.
        environment: the whole environment.
        timeout_s: seconds until it is ended, with everything that it started.

    Raises:
        UnansweredError: when it cannot be started, fails, takes too long or prints too much.
    """
    # Files, not pipes: what a process leaves behind could hold a pipe open for ever.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            code = _run(words, (out, err), cwd=cwd, environment=environment, timeout_s=timeout_s)
        except (OSError, ValueError) as error:
            raise UnansweredError(getattr(error, "strerror", None) or str(error)) from error
        if code != 0:
            raise UnansweredError(_last_line(err) or _ended(code))
        return _tail(out, _MAX_BYTES)


def _run(
    words: list[str],
    streams: tuple[BinaryIO, BinaryIO],
    *,
    cwd: Path | None,
    environment: Mapping[str, str],
    timeout_s: float,
) -> int:
    """The exit code.

    Raises:
        UnansweredError: when it had to be ended.
    """
    end = time.monotonic() + timeout_s
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=streams[0],
        stderr=streams[1],
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_STEP_S)
            if time.monotonic() > end:
                raise UnansweredError(f"no answer after {timeout_s:g} s")
            if sum(os.fstat(stream.fileno()).st_size for stream in streams) > _MAX_BYTES:
                raise UnansweredError(f"printed more than {_MAX_BYTES >> 20} MiB")
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ended(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"


def _last_line(stream: BinaryIO) -> str:
    lines = [line.strip() for line in _tail(stream, _TAIL_BYTES).decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")[:300]


def _tail(stream: BinaryIO, limit: int) -> bytes:
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - limit))
    return stream.read()
