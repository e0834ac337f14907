"""The ``command`` runner: any program in any environment, given a request file and a folder for its outputs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from paritygate.errors import LegError
from paritygate.records.codec import dumps
from paritygate.records.store import write_text_atomic
from paritygate.runners import delivery
from paritygate.runners.failures import Failure, classify_exit
from paritygate.runners.job import DELIVERY_FOLDER, LOG_NAME, Job, Writer
from paritygate.runners.leglog import settle

REQUEST_NAME = "request.json"
REQUEST_SCHEMA_VERSION = 1

_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


def run(job: Job, writer: Writer) -> None:
    """Write the request, run the program to its end, and take what it delivered by then.

    Raises:
        LegError: when it cannot be started, ends badly, or delivers nothing or something that is refused.
    """
    directory = Path(job.directory)
    outputs = directory / DELIVERY_FOLDER
    outputs.mkdir()
    request = directory / REQUEST_NAME
    write_text_atomic(request, dumps(request_data(job, outputs)))
    values = {"outputs": str(outputs), "python": job.python, "request": str(request)}
    if job.model_dir is not None:
        values["model"] = job.model_dir
    command = filled(job.spec["command"], values)
    _run(command, job)
    delivery.read(outputs, writer)
    # What was read is stored; a container's files may be another user's, and then they stay.
    shutil.rmtree(outputs, ignore_errors=True)


def request_data(job: Job, outputs: Path) -> dict[str, object]:
    """What the program is told, as the plain data of ``request.json``. Paths are absolute."""
    return {
        "schema_version": REQUEST_SCHEMA_VERSION,
        "case": job.case,
        "leg": job.leg,
        "task": job.task,
        "model": {"id": job.model_id, "revision": job.model_revision, "dir": job.model_dir},
        "output": job.output,
        "inputs": [
            {"role": media.role, "path": str(Path(job.root) / media.path), "sha256": media.sha256}
            for media in job.inputs
        ],
        "items": [{"id": item.id, "request": item.request} for item in job.items],
        "latents": job.latents,
        "device": job.spec.get("device") or job.device,
        "threads": job.spec.get("threads") or 1,
        "options": job.spec.get("options") or {},
        "feature": job.feature,
        "outputs": str(outputs),
    }


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The arguments with the names of ``values`` in braces filled in, also inside longer ones.

    Other braces stay as they are, and so does what a value brings.

    Raises:
        LegError: for ``{model}`` of a case whose weights are in no folder.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] == "model" and "model" not in values:
            raise LegError(
                f"the command names {match[0]}, and the model is in no local folder", kind="weights",
                hint="give the case's model a local path, or leave the placeholder out",
            )  # fmt: skip
        return values.get(match[1], match[0])

    return [_PLACEHOLDER.sub(value, argument) for argument in command]


def environment(job: Job, base: Mapping[str, str]) -> dict[str, str]:
    """The program's whole environment: the leg's, ``env``, and ``pythonpath`` before an inherited PYTHONPATH."""
    # Meant for our own worker: a script may import what lies beside it.
    kept = {name: value for name, value in base.items() if name != "PYTHONSAFEPATH"}
    kept.update(job.spec.get("env") or {})
    folders = [str(Path(job.root) / folder) for folder in job.spec.get("pythonpath") or ()]
    if folders:
        kept["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [kept.get("PYTHONPATH")])])
    return kept


def started(command: list[str], job: Job, *, what: str = "") -> subprocess.Popen[bytes]:
    """A program of the leg in its folder and environment; what it prints goes to the leg's log.

    Not a session of its own: the harness ends what is below the leg's worker.

    Raises:
        LegError: when it cannot be started; ``what`` stands before its name.
    """
    cwd = Path(job.root) / job.spec["cwd"] if "cwd" in job.spec else Path(job.directory)
    try:
        return subprocess.Popen(command, cwd=cwd, env=environment(job, os.environ), stdin=subprocess.DEVNULL)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LegError(
            f"cannot start {what}{command[0]} in {cwd}: {reason}", kind="crash",
            hint="name a program on PATH, or one relative to cwd",
        ) from error  # fmt: skip


def ended(code: int, job: Job) -> Failure:
    """Why a program of the leg ended badly, once everything that it printed stands in the log."""
    settle()
    return classify_exit(code, Path(job.directory) / LOG_NAME)


def _run(command: list[str], job: Job) -> None:
    process = started(command, job)
    if code := process.wait():
        failure = ended(code, job)
        raise LegError(f"{Path(command[0]).name} {failure.message}", kind=failure.kind)
