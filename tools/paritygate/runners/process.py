"""One child process on a leash: its own session, a log, a timeout, and nothing of it left afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import msgspec
import psutil

from paritygate.errors import ArtifactError, LegError
from paritygate.runners.kernel import adopting
from paritygate.runners.leglog import leg_log

#: Every process that a leg starts inherits this variable, which is how strays are found.
TOKEN_VARIABLE = "PARITYGATE_LEG_TOKEN"  # noqa: S105 - a marker, not a secret
#: Begins the name of a leg's own folder for temporary files, which goes with the leg. It lies where such folders do, as
#: the path of a socket in it may not be long.
TEMPORARY_PREFIX = "paritygate-leg-"

#: A leg that prints more is ended: nobody reads it, and the disk is needed for the outputs.
MAX_LOG_BYTES = 64 << 20

#: Between SIGTERM and SIGKILL.
_GRACE_S = 3.0
_PAUSE_S = 0.01
_TICK_S = 0.2
_KILL_ROUNDS = 20
#: Processes that lead a leg now; each thread may run one. Who holds the lock sees no leader that is not listed yet and
#: would be taken for an orphan of another leg.
_leaders: set[int] = set()
_leading = threading.Lock()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended.

    ``exit_code`` is negative for a signal, and None when it was ended, after its timeout or when its log was
    ``flooded``.
    """

    exit_code: int | None
    duration_s: float
    flooded: bool = False


def run_process(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    tick: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run a command to its end and leave no process and no temporary file of it behind, whatever happens.

    The child leads its own session. Its standard input is a pipe that only this process holds open: when this
    process dies, the guard of the worker reads end-of-file there and kills its own tree (see ``leash``). SIGTERM and
    SIGHUP are turned into KeyboardInterrupt while the child runs, so that a cancelled CI job cleans up too.

    Args:
        command: the argument array; no shell is involved.
        cwd: working directory of the child.
        env: its whole environment, to which the leash token and a folder for temporary files are added.
        log: file that receives standard output and standard error.
        timeout_s: seconds until the tree is ended.
        tick: called a few times a second while the child runs.

    Raises:
        LegError: when the command cannot be started.
        ArtifactError: when the log or temporary files cannot be written.
    """
    token = uuid.uuid4().hex
    started = time.monotonic()

    def go_on() -> bool:
        tick()
        return not stream.flooded

    with leg_log(log, limit=MAX_LOG_BYTES) as stream, _signals_raise(), _temporary_folder() as folder, adopting():
        earlier = frozenset(psutil.Process().children())
        child = _start(command, cwd=cwd, env={**env, TOKEN_VARIABLE: token, "TMPDIR": folder}, log=stream.target)
        stream.handed_over()
        try:
            exit_code = _wait(child, deadline=started + timeout_s, go_on=go_on)
        finally:
            with _signals_wait():
                _end_tree(child.pid, token, earlier)
                child.wait()
                with _leading:
                    _leaders.discard(child.pid)
                if child.stdin is not None:
                    child.stdin.close()
    return Outcome(exit_code=exit_code, duration_s=time.monotonic() - started, flooded=stream.flooded)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    try:
        folder = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)
    except OSError as error:
        raise ArtifactError(
            f"cannot make a folder for temporary files: {error.strerror or error}", hint="free space, or set TMPDIR"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_tree(group: int, token: str, earlier: frozenset[psutil.Process]) -> None:
    """End every process of a group, its descendants, its orphans, and every process that carries the token.

    SIGTERM first; after the grace period SIGKILL, repeated, because a dying process may still start others.
    """
    members = _members(group, token, earlier)
    for process in members:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _wait_gone(members)
    for _ in range(_KILL_ROUNDS):
        strays = {*(process for process in members if is_alive(process)), *_members(group, token, earlier)}
        if not strays:
            break
        for process in strays:
            with contextlib.suppress(psutil.Error):
                process.kill()
        _wait_gone(strays)
    for process in _adopted(earlier):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def _wait_gone(processes: Collection[psutil.Process]) -> None:
    """Wait for the grace period, or until none of these runs; a dead one may be anybody's to collect."""
    end = time.monotonic() + _GRACE_S
    while time.monotonic() < end and any(is_alive(process) for process in processes):
        time.sleep(_PAUSE_S)


def _members(group: int, token: str, earlier: frozenset[psutil.Process]) -> list[psutil.Process]:
    """Living processes of the group, below its leader, orphaned by it, or carrying the token; never this process."""
    found: set[psutil.Process] = set()
    with contextlib.suppress(psutil.Error):
        found.update(psutil.Process(group).children(recursive=True))
    for process in _adopted(earlier):
        found.add(process)
        with contextlib.suppress(psutil.Error):
            found.update(process.children(recursive=True))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == group or process.environ().get(TOKEN_VARIABLE) == token:
                found.add(process)
    return [process for process in found if process.pid != os.getpid() and is_alive(process)]


def _adopted(earlier: frozenset[psutil.Process]) -> list[psutil.Process]:
    """Children of this process that a leg orphaned, dead ones too.

    Nothing below a leg can be in our session, and what else we start is, or was there before.
    """
    found = []
    with _leading:
        for process in psutil.Process().children():
            with contextlib.suppress(OSError):
                if process not in earlier and process.pid not in _leaders and os.getsid(process.pid) != os.getsid(0):
                    found.append(process)
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs: it is there, and neither another one under its id nor dead and unread."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _start(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: int) -> subprocess.Popen[bytes]:
    try:
        with _leading:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            _leaders.add(child.pid)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LegError(f"cannot start {command[0]}: {reason}", kind="crash") from error
    return child


def _wait(child: subprocess.Popen[bytes], *, deadline: float, go_on: Callable[[], bool]) -> int | None:
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=min(_TICK_S, left))
        if not go_on():
            break
    return None


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, which pytest and the command line both understand."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold signals back while a tree is being ended; the last one is delivered afterwards."""
    held: list[int] = []
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), lambda number, _frame: held.append(number)):
        yield
    if held:
        raise KeyboardInterrupt(signal.Signals(held[-1]).name)


@contextlib.contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a handler, except for signals that are ignored (nohup) and outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
