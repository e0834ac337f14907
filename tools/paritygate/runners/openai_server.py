"""The server of an ``openai`` leg: started on a free port, waited for, and asked to end."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

import psutil

from paritygate.errors import InfrastructureError, LegError
from paritygate.runners.command import ended, filled, started
from paritygate.runners.failures import first_error_line
from paritygate.runners.job import LOG_NAME, Job
from paritygate.runners.openai_client import Client, StatusError
from paritygate.runners.openai_wire import Deadline

_HOST = "127.0.0.1"
_GRACE_S = 5.0
_PAUSE_S = 0.1
#: One answer about health; a server that loads its model may not answer at all.
_HEALTH_S = 10.0
_HEALTH_BYTES = 1 << 16
#: Answers that waiting does not change: the key is missing or wrong.
_SHUT = (401, 403)


class Server:
    """A server process. What it prints goes where this process prints, to the leg's log."""

    def __init__(self, child: subprocess.Popen[bytes], job: Job) -> None:
        self.child = child
        self._job = job

    def check(self, wait_s: float = 0.0) -> None:
        """Nothing, while the process runs.

        Args:
            wait_s: how long to wait for its end, when there is a sign of it.

        Raises:
            LegError: when it has ended, with the first line of its log that speaks of an error.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.child.wait(timeout=wait_s)
            failure = ended(code, self._job)
            raise LegError(f"the server {failure.message}", kind=failure.kind)

    def stop(self) -> None:
        """Ask the process to end, and end it when it does not; what it started itself is for the harness to end."""
        with contextlib.suppress(ProcessLookupError):
            self.child.terminate()
        try:
            self.child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def start(job: Job, port: int) -> Server:
    """Start the server of a leg.

    Args:
        job: its ``spec`` has ``server``, and perhaps ``cwd``, ``env`` and ``pythonpath``.
        port: where the server is told to listen.

    Raises:
        LegError: when it cannot be started.
    """
    model = {} if job.model_dir is None else {"model": job.model_dir}
    command = filled(job.spec["server"], {"port": str(port), "python": job.python, **model})
    return Server(started(command, job, what="the server "), job)


def free_port() -> int:
    """A port of the loopback interface on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def base_url(port: int) -> str:
    """Where a server answers that was told to listen on a port."""
    return f"http://{_HOST}:{port}"


def refuse_taken(base: str) -> None:
    """Nothing, when nobody listens where a server that is yet to be started will answer.

    Raises:
        LegError: when somebody does: it would be taken for the server.
    """
    parts = urllib.parse.urlsplit(base)
    place = (parts.hostname or _HOST, parts.port or (443 if parts.scheme == "https" else 80))
    with contextlib.suppress(OSError), socket.create_connection(place, timeout=1):
        message = f"something else answers on port {place[1]} already, before the server is started"
        raise LegError(message, kind="crash", hint="end it, or run the case again")


def wait_ready(client: Client, path: str, *, seconds: float, server: Server | None, job: Job) -> None:
    """Wait until the server answers 200.

    Args:
        client: asks the server.
        path: what to ask for.
        seconds: ``startup_timeout_s``.
        server: the process, when this leg started it.
        job: its log is quoted.

    Raises:
        LegError: when the process ends before, or time is up, with the first line of its log that speaks of an error;
            at once when it wants another key.
        InfrastructureError: when time is up for a host that cannot be reached or is unavailable.
    """
    deadline = Deadline(seconds, f"startup_timeout_s: {seconds:g}")
    last: LegError | InfrastructureError | None = None
    while True:
        once = Deadline(min(_HEALTH_S, deadline.left_s), f"{_HEALTH_S:g} seconds")
        try:
            with client.ask("GET", path, deadline=once, limit=_HEALTH_BYTES, attempts=1):
                break
        except (LegError, InfrastructureError) as error:
            if isinstance(error, StatusError) and error.status in _SHUT:
                raise
            # An answer says more than the end of the last attempt, which had no time left.
            last = last if last is not None and getattr(error, "kind", "") == "timeout" else error
        if server is not None:
            server.check()
        if not deadline.left_s:
            if isinstance(last, InfrastructureError):
                raise last
            line = first_error_line(Path(job.directory) / LOG_NAME)
            heard = f"; log: {line}" if line else ""
            message = f"the server was not ready within {deadline.words}{heard}; last: {last.message}"
            hint = "name the path that answers 200 once it is ready: health" if isinstance(last, StatusError) else ""
            raise LegError(message, kind="timeout", hint=hint)
        time.sleep(_PAUSE_S)
    if server is not None:
        # Another process may have taken the port, so that ours is about to give up.
        server.check()


def refuse_stranger(port: int, server: Server) -> None:
    """Nothing, when whoever listens on a port is younger than the server: it, what it started, or its container's.

    Raises:
        LegError: when it was there before, and took the port in the meantime.
    """
    with contextlib.suppress(psutil.Error):
        started = psutil.Process(server.child.pid).create_time()
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
            if listens and connection.pid and psutil.Process(connection.pid).create_time() < started:
                raise LegError(f"port {port} was taken by another process than the server", kind="crash")
