"""What an ``openai`` leg sends: every key of a request reaches the server, or is an error that names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from urllib3.filepost import encode_multipart_formdata

from paritygate.errors import LegError
from paritygate.manifest.case import Output
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.runners.job import Job

#: Endpoint -> request key -> field that it always has.
_STANDARD: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "images/edits": {"prompt": "prompt", "seed": "seed"},
        "images/generations": {"prompt": "prompt", "seed": "seed"},
        "videos": {"duration_s": "seconds", "prompt": "prompt", "seed": "seed"},
    }
)
#: Endpoint -> request keys that have a field of the same name, when the leg does not say which. Sorted.
_KNOWN = MappingProxyType(
    {
        "images/edits": (
            "guidance_scale",
            "layers",
            "negative_prompt",
            "num_inference_steps",
            "strength",
            "true_cfg_scale",
        ),
        "images/generations": ("guidance_scale", "layers", "negative_prompt", "num_inference_steps", "true_cfg_scale"),
        "videos": (
            "boundary_ratio",
            "flow_shift",
            "fps",
            "guidance_scale",
            "guidance_scale_2",
            "negative_prompt",
            "num_frames",
            "num_inference_steps",
            "strength",
            "true_cfg_scale",
        ),
    }
)
_SIZE_KEYS = ("width", "height")
#: Number of outputs of one request; the harness has it in ``output.count``.
_COUNT_KEYS = ("num_images_per_prompt", "num_videos_per_prompt")
#: Endpoint -> role of an input -> the part of the form that it becomes.
_ROLES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "images/edits": {"first_frame": "image", "image": "image", "mask": "mask", "source": "image"},
        "images/generations": {},
        "videos": {"first_frame": "input_reference", "image": "input_reference", "source": "input_reference"},
    }
)
#: Where in the first bytes -> what stands there -> ending and content type of a file.
_CONTENT: tuple[tuple[slice, bytes, str, str], ...] = (
    (slice(0, 8), b"\x89PNG\r\n\x1a\n", "png", "image/png"),
    (slice(0, 3), b"\xff\xd8\xff", "jpg", "image/jpeg"),
    (slice(8, 12), b"WEBP", "webp", "image/webp"),
    (slice(0, 4), b"GIF8", "gif", "image/gif"),
    (slice(0, 2), b"BM", "bmp", "image/bmp"),
    (slice(4, 8), b"ftyp", "mp4", "video/mp4"),
    (slice(0, 4), b"\x1aE\xdf\xa3", "mkv", "video/x-matroska"),
)

Part = tuple[str, tuple[str, bytes, str]]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a leg have in common.

    ``names``: request key -> field. ``constants``: fields that do not come from the request. ``parts``: files of the
    form, in order, as name, and file name, content and content type.
    """

    endpoint: str
    output: Output
    names: Mapping[str, str]
    constants: Mapping[str, Any]
    parts: tuple[Part, ...]

    @property
    def path(self) -> str:
        """Where requests go, below the base URL."""
        return f"/v1/{self.endpoint}"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it goes out."""

    body: bytes
    content_type: str


def plan(job: Job) -> Plan:
    """What the requests of a leg have in common, once all of them are known to be whole.

    Raises:
        LegError: naming a request key, an input or an output that would not reach the server.
    """
    endpoint, output = str(job.spec["endpoint"]), job.output
    if (endpoint == "videos") != output.has_video:
        raise _refused(f"the endpoint {endpoint} does not give output.kind {output.kind}")
    if endpoint == "videos" and output.count != 1:
        raise _refused(f"videos gives one clip a request, output.count is {output.count}")
    fields = job.spec.get("fields")
    names = {**_STANDARD[endpoint], **({key: key for key in _KNOWN[endpoint]} if fields is None else fields)}
    found = Plan(
        endpoint=endpoint,
        output=output,
        names=names,
        constants=_constants(job, endpoint),
        parts=_parts(job, endpoint),
    )
    for item in job.items:
        for key, value in item.request.items():
            if value is not None and not is_sent(found, key, item.request):
                raise _refused(
                    f"request.{key} of item {item.id} would not reach the server: {endpoint} has no field for it",
                    hint=f"name its field: fields: {{{key}: ...}} (with `fields`, what it does not name is not sent, "
                    f"except {', '.join(_STANDARD[endpoint])} and the size)",
                )
        try:
            json.dumps(_fields(found, item.request), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _refused(f"the request of item {item.id} cannot be sent: {error}") from error
    return found


def is_sent(found: Plan, key: str, request: Mapping[str, Any]) -> bool:
    """Whether a key of a request reaches the server, as a field or as part of its size or count."""
    if key in _SIZE_KEYS and _has_size(found, request):
        return True
    return key in found.names or (key in _COUNT_KEYS and request[key] == found.output.count)


def call(found: Plan, request: Mapping[str, Any]) -> Call:
    """One request as it goes out: JSON for ``images/generations``, a form for the others.

    Raises:
        LegError: when a field would have two values.
    """
    fields = _fields(found, request)
    if found.endpoint == "images/generations":
        return Call(body=json.dumps(fields, allow_nan=False).encode(), content_type="application/json")
    texts: list[tuple[str, Any]] = [(name, _text(value)) for name, value in fields.items()]
    body, content_type = encode_multipart_formdata([*texts, *found.parts])
    return Call(body=body, content_type=content_type)


def _fields(found: Plan, request: Mapping[str, Any]) -> dict[str, Any]:
    """Field -> value, as plain data."""
    named = [(found.names[key], value) for key, value in request.items() if key in found.names and value is not None]
    if _has_size(found, request):
        named.append(("size", f"{request['width']}x{request['height']}"))
    names = [*found.constants, *(name for name, _ in named)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _refused(f"the field {twice[0]!r} would have two values, from `send`, `fields` or the request")
    return {**found.constants, **dict(named)}


def _constants(job: Job, endpoint: str) -> dict[str, Any]:
    """The fields that do not come from the request; ``send`` overrules them, and null leaves one out."""
    model = job.spec.get("served_model") or job.model_id
    constants: dict[str, Any] = {"model": model}
    if endpoint != "videos":
        constants |= {"n": job.output.count, "output_format": "png", "response_format": "b64_json"}
        if job.output.layers is not None and not any("layers" in item.request for item in job.items):
            constants["layers"] = job.output.layers
    return {key: value for key, value in {**constants, **job.spec.get("send", {})}.items() if value is not None}


def _parts(job: Job, endpoint: str) -> tuple[Part, ...]:
    """The inputs as files of a form, in their order.

    Raises:
        LegError: when the endpoint takes no such input, or the file is not the one that the case names.
    """
    found: list[Part] = []
    for media in job.inputs:
        if media.role not in _ROLES[endpoint]:
            raise _refused(f"{endpoint} takes no input of the role {media.role} ({media.path})")
        data = read_contained(Path(job.root), media.path)
        if sha256_bytes(data) != media.sha256:
            raise _refused(f"{media.path} is not the file that the case names: its sha256 differs")
        ending, kind = next(
            ((ending, kind) for place, magic, ending, kind in _CONTENT if data[place] == magic),
            ("bin", "application/octet-stream"),
        )
        found.append((_ROLES[endpoint][media.role], (f"{media.role}-{len(found)}.{ending}", data, kind)))
    counts = {name: sum(part == name for part, _ in found) for name in ("image", "input_reference", "mask")}
    if endpoint == "images/edits" and not counts["image"]:
        raise _refused("images/edits needs an image to edit; give the request inputs")
    if counts["input_reference"] > 1 or counts["mask"] > 1:
        raise _refused(f"{endpoint} takes one {'mask' if counts['mask'] > 1 else 'reference'}, there are more inputs")
    return tuple(found)


def _has_size(found: Plan, request: Mapping[str, Any]) -> bool:
    """Whether the size goes out as the field ``size``, and not in fields of its own."""
    return all(request.get(key) is not None and key not in found.names for key in _SIZE_KEYS)


def _text(value: Any) -> str:
    """A value as a field of a form."""
    return value if isinstance(value, str) else json.dumps(value, allow_nan=False, ensure_ascii=False)


def _refused(message: str, *, hint: str = "") -> LegError:
    return LegError(message, kind="crash", hint=hint)
