"""Rules on how a leg reaches what it runs: servers, their endpoints and fields, and encoders."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

from paritygate.errors import Problem
from paritygate.manifest.paths import LEGS
from paritygate.manifest.rules.context import CaseContext
from paritygate.manifest.suite import AXES
from paritygate.manifest.wording import nearest

#: Endpoint -> the tasks that it answers.
_ENDPOINT_TASKS: Mapping[str, frozenset[str]] = {
    "images/edits": frozenset({"it2i", "layered"}),
    "images/generations": frozenset({"layered", "t2i"}),
    "videos": frozenset({"i2v", "i2va", "t2v", "t2va"}),
}


def endpoint(case: CaseContext) -> Iterable[Problem]:
    """An endpoint answers the task of the case."""
    task = case.data["task"]
    for name, leg in _legs(case, "openai"):
        if task not in _ENDPOINT_TASKS[leg["endpoint"]]:
            fitting = [known for known, tasks in _ENDPOINT_TASKS.items() if task in tasks]
            message = f"the endpoint {leg['endpoint']} does not answer the task {task}"
            hint = f"write endpoint: {' or '.join(fitting)}" if fitting else "give the leg another runner"
            yield case.at((name, "endpoint"), "endpoint", message, hint=hint)


def server_port(case: CaseContext) -> Iterable[Problem]:
    """A server that is started listens where it is told to, or where ``url`` says."""
    for name, leg in _legs(case, "openai"):
        if "server" in leg and "url" not in leg and not any("{port}" in word for word in leg["server"]):
            message = "the server is not told on which port to listen"
            hint = 'add --port, "{port}" to the command: a free port is filled in'
            yield case.at_key((name, "server"), "server-port", message, hint=hint)


def url(case: CaseContext) -> Iterable[Problem]:
    """The host and the port of a server can be those of one."""
    for name, leg in _legs(case, "openai"):
        if "url" in leg and not _is_address(leg["url"]):
            message = f"{leg['url']!r} has no host and port that can be reached"
            yield case.at((name, "url"), "url", message, hint="write it such as http://127.0.0.1:8000")
        elif leg.get("url", "").rstrip("/").endswith("/v1"):
            message = f"{leg['url']!r} ends in /v1, which stands before every endpoint anyway"
            yield case.at((name, "url"), "url", message, hint="leave /v1 out")


def _is_address(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        return bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        return False


def fields(case: CaseContext) -> Iterable[Problem]:
    """Fields that are sent and probed are keys of the request."""
    for name, leg in _legs(case, "openai"):
        known = _request_keys(case)
        pointers = [(key, (name, "fields", key), True) for key in leg.get("fields", {})]
        pointers += [(key, (name, "probe", index), False) for index, key in enumerate(leg.get("probe", ()))]
        for key, pointer, is_key in pointers:
            if key not in known:
                at = case.at_key if is_key else case.at
                yield at(pointer, "fields", f"the request has no key {key!r}", hint=nearest(key, known))


def _request_keys(case: CaseContext) -> set[str]:
    request, suite = case.data["request"], case.data.get("suite", {})
    varied = {key for axis, keys in AXES.items() if axis in suite for key in keys}
    return {*request, *request.get("extra", {}), *varied} - {"extra", "inputs", "initial_latents", "latent_shape"}


def encode(case: CaseContext) -> Iterable[Problem]:
    """A diffusers leg of an encoded output says how it encodes, and no other does."""
    output = case.data["output"]
    is_encoded = output.get("representation") == "encoded" and output["kind"] in ("video", "video_audio")
    for name, leg in _legs(case, "diffusers"):
        if is_encoded and "encode" not in leg:
            message = "the output is compared as encoded, and this leg does not say how it encodes"
            hint = "add encode: {container: mp4, codec: libx264, pixel_format: yuv420p}, as the other leg's engine does"
            yield case.at_key((name,), "encode", message, hint=hint)
        if "encode" in leg and not is_encoded:
            message = "the output is not compared as encoded clips, so nothing would be encoded"
            hint = "remove encode, or write output: {representation: encoded}"
            yield case.at_key((name, "encode"), "encode", message, hint=hint)


def _legs(case: CaseContext, runner: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return [(name, case.data[name]) for name in LEGS if name in case.data and case.data[name]["runner"] == runner]
