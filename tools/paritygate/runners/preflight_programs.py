"""What a leg starts or talks to: programs and folders that must be there, variables, servers and ports."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import socket
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from paritygate.manifest.case import Case, Leg
from paritygate.runners.leg import interpreter, leg_environment
from paritygate.runners.problems import PreflightProblem

#: Key of a leg that holds a command -> what the command is called.
_COMMANDS = {"command": "the program", "server": "the server's program"}
_CONNECT_TIMEOUT_S = 5
_PORT_OPTIONS = ("--port", "-p")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def program_problems(case: Case, leg: Leg, environ: Mapping[str, str]) -> Iterator[PreflightProblem]:
    """What the commands of a leg lack on this machine; nothing is started."""
    for key in ("cwd", "pythonpath"):
        stated = leg.spec.get(key) or ()
        for folder in (stated,) if isinstance(stated, str) else stated:
            if not (case.root / folder).is_dir():
                message = f"{key}: {folder} is no folder"
                yield PreflightProblem(code=key, message=message, fix=f"make it, or correct {key}", leg=leg.name)
    variable = leg.spec.get("api_key_env")
    if variable and not environ.get(variable):
        message = f"api_key_env: the variable {variable} is not set"
        yield PreflightProblem(code="variable", message=message, fix=f"export {variable}", leg=leg.name)
    for key, called in _COMMANDS.items():
        if leg.spec.get(key):
            yield from _absent_program(case, leg, key, called, environ)
            yield from _absent_script(case, leg, key)


def program_environment(case: Case, leg: Leg, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of what a leg starts: the leg's own, ``env`` and ``pythonpath``."""
    found = {**leg_environment(leg, environ), **(leg.spec.get("env") or {})}
    if folders := [str(case.root / folder) for folder in leg.spec.get("pythonpath") or ()]:
        found["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [found.get("PYTHONPATH")])])
    return found


def port_problems(leg: Leg) -> Iterator[PreflightProblem]:
    """Whether a leg's server can have its port, or is reached where it runs already."""
    if leg.runner != "openai":
        return
    url, server = leg.spec.get("url"), leg.spec.get("server")
    if url is not None and server is None:
        yield from _unreachable(leg, str(url))
        return
    wanted = _stated_ports(server or ())
    if url is not None and (port := _address(str(url))[1]) not in wanted and _address(str(url))[0] in _LOOPBACK:
        wanted = (*wanted, port)
    for port in wanted:
        if problem := _bind_problem(port):
            holder = _holder(port)
            yield PreflightProblem(
                code="port",
                message=f"the server cannot have port {port}: {problem}{f' by {holder}' if holder else ''}",
                fix='end what holds it, or write --port, "{port}" for a free one',
                leg=leg.name,
            )
    if not wanted and (problem := _bind_problem(0)):
        message = f"no port of 127.0.0.1 can be had: {problem}"
        yield PreflightProblem(code="port", message=message, fix="allow loopback connections", leg=leg.name)


def _absent_program(
    case: Case, leg: Leg, key: str, called: str, environ: Mapping[str, str]
) -> Iterator[PreflightProblem]:
    program = str(leg.spec[key][0]).replace("{python}", interpreter(case, leg))
    folder = case.root / leg.spec["cwd"] if leg.spec.get("cwd") else None
    if "/" not in program:
        places = program_environment(case, leg, environ).get("PATH")
        if shutil.which(program, path=places) is None:
            message = f"{called} {program!r} is not on PATH"
            yield PreflightProblem(code=key, message=message, fix=f"install it, or correct {key}", leg=leg.name)
    elif not program.startswith("/") and folder is None:
        message = f"{called} {program!r} is relative, and the leg has no cwd"
        fix = "write cwd, or name a program on PATH"
        yield PreflightProblem(code=key, message=message, fix=fix, leg=leg.name)
    else:
        path = Path(folder or "/", program)
        if not path.is_file() or not os.access(path, os.X_OK):
            message = f"{called} {path} is not {'executable' if path.is_file() else 'there'}"
            yield PreflightProblem(code=key, message=message, fix=f"install it, or correct {key}", leg=leg.name)


def _absent_script(case: Case, leg: Leg, key: str) -> Iterator[PreflightProblem]:
    """The script of ``[{python}, script.py, ...]`` where it is absent; other arguments may be no files."""
    words = [str(word) for word in leg.spec[key][:2]]
    if len(words) < 2 or words[0] != "{python}" or not words[1].endswith(".py") or "{" in words[1]:
        return
    folder = case.root / leg.spec["cwd"] if leg.spec.get("cwd") else None
    if not (folder or Path()).joinpath(words[1]).is_file() or (folder is None and not words[1].startswith("/")):
        message = f"the script {words[1]} is not in {leg.spec['cwd'] if folder else 'the folder of the run'}"
        yield PreflightProblem(code=key, message=message, fix=f"write cwd, or correct {key}", leg=leg.name)


def _unreachable(leg: Leg, url: str) -> Iterator[PreflightProblem]:
    host, port = _address(url)
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        message = f"infrastructure: nothing answers at {url}: {error.strerror or error}"
        yield PreflightProblem(code="server", message=message, fix="start that server, or correct url", leg=leg.name)


def _address(url: str) -> tuple[str, int]:
    parts = urllib.parse.urlsplit(url)
    return parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)


def _stated_ports(argv: tuple[str, ...] | list[str]) -> tuple[int, ...]:
    """The ports that a command names itself: ``--port 8000``, ``--port=8000``."""
    pairs = [word.partition("=")[::2] for word in argv] + list(itertools.pairwise(argv))
    return tuple(int(value) for name, value in pairs if name in _PORT_OPTIONS and value.isdecimal())


def _bind_problem(port: int) -> str:
    """Why a port of the loopback interface cannot be bound; empty when it can."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do: a connection that ended a moment ago does not keep the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        return "it is held" if taken else str(getattr(error, "strerror", None) or error)
    return ""


def _holder(port: int) -> str:
    """The program that listens on a port, where this user may see it."""
    import psutil  # noqa: PLC0415 - part of the run extra, not of the core

    try:
        for entry in psutil.net_connections(kind="tcp"):
            if entry.laddr and entry.laddr[1] == port and entry.status == psutil.CONN_LISTEN and entry.pid:
                return f"{psutil.Process(entry.pid).name()} (pid {entry.pid})"
    except (psutil.Error, OSError):
        return ""
    return ""
