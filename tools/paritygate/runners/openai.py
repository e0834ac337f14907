"""The ``openai`` runner: a server that is started, or is there, answers the suite over OpenAI's HTTP interface.

Nothing of a request is reported as having taken effect: a server that tells it does so at ``effective``, and the
effect probe asks whether other values change anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paritygate.errors import ArtifactError, LegError
from paritygate.records.codec import loads
from paritygate.records.model import EFFECTIVE_SCHEMA_VERSION, Effective
from paritygate.runners import delivery
from paritygate.runners.effective import Delivered
from paritygate.runners.job import Job, Writer
from paritygate.runners.openai_answers import images, video
from paritygate.runners.openai_client import Client
from paritygate.runners.openai_probe import Result, fields, probe
from paritygate.runners.openai_requests import Plan, call, plan
from paritygate.runners.openai_server import base_url, free_port, refuse_stranger, refuse_taken, start, wait_ready
from paritygate.runners.openai_wire import Deadline

#: As in the schema; a job of a test may leave them out.
_HEALTH = "/health"
_STARTUP_S = 600.0
_REQUEST_S = 1800.0
_EFFECTIVE_BYTES = 64 << 20


def run(job: Job, writer: Writer) -> None:
    """Answer the suite, one request after the other; then ask for effective settings, and probe effects.

    Raises:
        LegError: when a request would not reach the server whole, or the server breaks or answers anything else
            than what it was asked for.
        InfrastructureError: when a public host cannot be found or is unavailable.
    """
    found = plan(job)
    chosen = fields(job, found)
    writer.environment("endpoint", found.endpoint)
    with _client(job) as client, _downloads(job, found) as folder:

        def generate(request: Mapping[str, Any], request_id: str) -> Result:
            return _generate(client, job, found, request, request_id=request_id, folder=folder)

        first: Result = []
        for item in job.items:
            result = generate(item.request, item.id)
            if item is job.items[0]:
                first = _kept(result) if chosen else []
            _store(writer, item.id, result)
        if path := job.spec.get("effective"):
            _report_effective(client, job, str(path), writer)
        probe(job.items[0], first, chosen, generate, writer)


@contextlib.contextmanager
def _downloads(job: Job, found: Plan) -> Iterator[Path]:
    """A folder for clips that are on their way, in the leg's own: storing a clip then moves it."""
    if found.endpoint != "videos":
        yield Path(job.directory)
        return
    with tempfile.TemporaryDirectory(prefix="download-", dir=job.directory) as name:
        yield Path(name)


@contextlib.contextmanager
def _client(job: Job) -> Iterator[Client]:
    """A client of a server that is ready; a server that was started here is asked to end afterwards."""
    key, url = _key(job), job.spec.get("url")
    health, seconds = str(job.spec.get("health", _HEALTH)), float(job.spec.get("startup_timeout_s", _STARTUP_S))
    if "server" not in job.spec:
        client = Client(str(url), key=key, alive=lambda _wait_s: None)
        wait_ready(client, health, seconds=seconds, server=None, job=job)
        yield client
        return
    port = free_port()
    base = str(url or base_url(port))
    refuse_taken(base)
    server = start(job, port)
    try:
        client = Client(base, key=key, alive=server.check)
        wait_ready(client, health, seconds=seconds, server=server, job=job)
        if url is None:
            refuse_stranger(port, server)
        yield client
        # Answers of a server that ended meanwhile may have been those of another one.
        server.check()
    finally:
        server.stop()


def _key(job: Job) -> str | None:
    """What the server is shown as a bearer token.

    Raises:
        LegError: when it is declared and not there, or cannot be sent; the message never shows it.
    """
    name = job.spec.get("api_key_env")
    if name is None:
        return None
    key = os.environ.get(str(name), "")
    if not re.fullmatch(r"[!-~]+", key):
        found = "has characters that a header cannot hold" if key else "is not set"
        raise LegError(f"the environment variable {name} (api_key_env) {found}", kind="crash", hint=f"export {name}")
    return key


def _generate(
    client: Client, job: Job, found: Plan, request: Mapping[str, Any], *, request_id: str, folder: Path
) -> Result:
    body = call(found, request)
    if found.endpoint == "videos":
        return video(client, found, body, request_id=request_id, deadline=_deadline(job), folder=folder)
    return images(client, found, body, request_id=request_id, deadline=_deadline(job))


def _kept(result: Result) -> Result:
    """A result that stays when it is stored: storing a file moves it."""
    return (
        Path(shutil.copyfile(result, result.with_stem(f"{result.stem}-kept"))) if isinstance(result, Path) else result
    )


def _store(writer: Writer, item_id: str, result: Result) -> None:
    if isinstance(result, Path):
        writer.video(item_id, result)
        return
    for index, pixels in enumerate(result):
        writer.image(item_id, pixels, index=index)


def _report_effective(client: Client, job: Job, path: str, writer: Writer) -> None:
    """Hand on what the server tells; what it says of requests that are not this leg's is left aside.

    Raises:
        LegError: when it is not in the format of ``effective.json``.
    """
    with client.ask("GET", path, deadline=_deadline(job), limit=_EFFECTIVE_BYTES) as answer:
        data = answer.read(_EFFECTIVE_BYTES)
    if key := _key(job):
        data = _blanked(data, key)
    try:
        told = loads(data, Delivered, source=path)
        if told.schema_version > EFFECTIVE_SCHEMA_VERSION:
            raise ValueError(f"it is of the later version {told.schema_version}")
        if told.effects or told.pending:
            raise ValueError("effects and pending stages are not the server's to tell")
        known = {item.id for item in job.items}
        own: dict[str, Any] = {
            name: {item: entry for item, entry in getattr(told, name).items() if item in known}
            for name in ("token_ids", "initial_latents")
        }
        # Beside what the worker says of its own interpreter, in which no model runs.
        own["environment"] = {"server": told.environment}
        delivery.report(Effective(**{**msgspec.structs.asdict(told), **own}), writer)
    except (ArtifactError, ValueError) as error:
        message = f"{path} is not in the format of effective.json: {client.clean(error)}"
        raise LegError(message, kind="crash") from error


def _blanked(data: bytes, key: str) -> bytes:
    """JSON without a key, however it is escaped there."""
    with contextlib.suppress(ValueError, RecursionError):  # it is refused then
        data = json.dumps(json.loads(data), ensure_ascii=False).encode()
    return data.replace(json.dumps(key)[1:-1].encode(), b"***")


def _deadline(job: Job) -> Deadline:
    seconds = float(job.spec.get("request_timeout_s", _REQUEST_S))
    return Deadline(seconds, f"request_timeout_s: {seconds:g}")
