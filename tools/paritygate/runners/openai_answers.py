"""What a server answers -> pixels or a clip, or one refusal: lossless, whole, and from the server itself."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from paritygate.errors import ArtifactError, LegError, MediaError
from paritygate.manifest.case import Output
from paritygate.media.images import MAX_PIXELS, MODES, decode_image
from paritygate.runners.openai_client import Client, error_text
from paritygate.runners.openai_requests import Call, Plan
from paritygate.runners.openai_wire import Answer, Deadline

_T = TypeVar("_T")
Pixels = NDArray[np.uint8]

_LEAST_BYTES = 16 << 20
_MOST_BYTES = 1 << 30
_MOST_VIDEO_BYTES = 4 << 30
_STATE_BYTES = 1 << 20
#: An answer has no more images than this, or than was asked for.
_MOST_IMAGES = 64
_POLL_S = (0.1, 2.0)
_BUSY = ("in_progress", "pending", "processing", "queued", "running")
_ENDED = ("cancelled", "expired", "failed")
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PNG = b"\x89PNG\r\n\x1a\n"
_ANY = "application/octet-stream"
_IMAGE_TYPES = (_ANY, "image/png")
#: Content type of a clip -> endings of what it may be.
_VIDEO_TYPES: Mapping[str, tuple[str, ...]] = {
    _ANY: (".mkv", ".mp4", ".webm"),
    "video/mp4": (".mp4",),
    "video/webm": (".webm",),
    "video/x-matroska": (".mkv",),
}


class _Image(msgspec.Struct):
    b64_json: str | None = None
    url: str | None = None


class _Images(msgspec.Struct):
    data: list[_Image]


class _State(msgspec.Struct):
    id: str
    status: str
    error: Any = None


def images(client: Client, found: Plan, call: Call, *, request_id: str, deadline: Deadline) -> list[Pixels]:
    """Ask for images: one ``(height, width, channels)`` uint8 array each, as many as the server gives.

    Raises:
        LegError: when the answer is not lossless images.
        StatusError: when the server refuses.
    """
    limit = _image_bytes(found.output)
    headers = _headers(request_id, call.content_type)
    with client.ask("POST", found.path, deadline=deadline, limit=limit, headers=headers, body=call.body) as answer:
        listed = _json(client, answer, _Images, limit).data
    expected = found.output.count * (found.output.layers or 1)
    if not listed or len(listed) > max(expected, _MOST_IMAGES):
        raise _refused(f"the answer for {request_id} has {len(listed)} images, expected {expected}")
    arrays = []
    left = max(MAX_PIXELS, 2 * _pixels(found.output) * expected)
    for index, entry in enumerate(listed):
        name = f"image {index} for {request_id}"
        data = _content(client, entry, name=name, request_id=request_id, deadline=deadline, limit=limit)
        arrays.append(_decoded(data, mode=found.output.mode, most=left, name=name))
        left -= arrays[-1].shape[0] * arrays[-1].shape[1]
    return arrays


def video(client: Client, found: Plan, call: Call, *, request_id: str, deadline: Deadline, folder: Path) -> Path:
    """Ask for a clip, wait until it is done, and download it into ``folder``: the path of the file.

    Raises:
        LegError: when the job fails, or what comes is not a clip.
        StatusError: when the server refuses.
    """
    headers = _headers(request_id, call.content_type)
    with client.ask("POST", found.path, deadline=deadline, limit=_STATE_BYTES, headers=headers, body=call.body) as made:
        state = _state(client, made)
    pause, longest = _POLL_S
    path = f"{found.path}/{state.id}"
    while state.status in _BUSY:
        time.sleep(min(pause, deadline.left_s))
        pause = min(pause * 1.5, longest)
        deadline.check(f"the job {state.id} for {request_id} (status {state.status})")
        with client.ask("GET", path, deadline=deadline, limit=_STATE_BYTES, headers=_headers(request_id)) as told:
            state = _state(client, told, expected=state.id)
    if state.status in _ENDED:
        reason = client.clean(error_text(state.error)) if state.error else "without a reason"
        raise _refused(f"the job {state.id} for {request_id} {state.status}: {reason}")
    if state.status != "completed":
        known = ", ".join((*_BUSY, "completed", *_ENDED))
        raise _refused(f"the job {state.id} has the status {client.clean(state.status)!r}; known are {known}")
    limit = _video_bytes(found.output)
    with client.ask("GET", f"{path}/content", deadline=deadline, limit=limit, headers=_headers(request_id)) as content:
        return _downloaded(client, content, folder / f"{request_id}.part", limit=limit)


def _downloaded(client: Client, answer: Answer, target: Path, *, limit: int) -> Path:
    """The body as a file whose ending says what it is."""
    if answer.media_type not in _VIDEO_TYPES:
        raise _refused(
            f"{answer.what} answers with {client.clean(answer.media_type or 'no content type')!r}; "
            f"expected one of {', '.join(_VIDEO_TYPES)}"
        )
    try:
        with target.open("wb") as stream:
            answer.copy(stream, limit)
        with target.open("rb") as stream:
            head = stream.read(256)
        ending = _ending(head)
        if ending not in _VIDEO_TYPES[answer.media_type]:
            found = f"is {ending[1:]}" if ending else "begins like no clip" if head else "is empty"
            raise _refused(f"{answer.what} claims {answer.media_type}, and the body {found}")
        return target.rename(target.with_suffix(ending))
    except OSError as error:
        raise ArtifactError(f"cannot write {target}: {error.strerror or error}", hint="free space") from error


def _ending(head: bytes) -> str:
    if head[4:8] == b"ftyp":
        return ".mp4"
    if head[:4] == b"\x1aE\xdf\xa3":
        return ".webm" if b"webm" in head else ".mkv"
    return ""


def _content(client: Client, entry: _Image, *, name: str, request_id: str, deadline: Deadline, limit: int) -> bytes:
    """The bytes of one image, whether they are in the answer or at an address of the server."""
    if entry.b64_json is not None:
        try:
            return base64.b64decode(entry.b64_json.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError) as error:
            raise _refused(f"{name}: b64_json is not base64 ({client.clean(error)})") from error
    if entry.url is None:
        raise _refused(f"{name} has neither b64_json nor url")
    target = client.target(entry.url)
    with client.ask(
        "GET", target, deadline=deadline, limit=limit, headers=_headers(request_id), is_whole_path=True
    ) as answer:
        data = answer.read(limit)
        # What was asked for is named by its first bytes; the type only has to be no lie about them.
        if data.startswith(_PNG) and answer.media_type not in _IMAGE_TYPES:
            raise _refused(f"{name}: a PNG is sent as {client.clean(answer.media_type or 'no content type')!r}")
        return data


def _decoded(data: bytes, *, mode: str, most: int, name: str) -> Pixels:
    """The pixels of a PNG, of whatever plain mode: another one than declared is for the comparison to tell."""
    claimed = int.from_bytes(data[16:20], "big") * int.from_bytes(data[20:24], "big") if data.startswith(_PNG) else 0
    if claimed > most:
        raise _refused(f"{name} claims {claimed} pixels; at most {most} are read, with the images before it")
    own = next((known for known, (colour, _) in MODES.items() if data[24:26] == bytes((8, colour))), mode)
    try:
        return decode_image(data, mode=own, name=f"{name}.png")
    except MediaError as error:
        is_other = error.kind == "format" and not data.startswith(_PNG)
        hint = "have the server answer in PNG: send: {output_format: png}" if is_other else ""
        raise _refused(error.message.replace(f"{name}.png", name), hint=hint) from error


def _state(client: Client, answer: Answer, *, expected: str = "") -> _State:
    state = _json(client, answer, _State, _STATE_BYTES)
    # The id becomes part of an address.
    if not _JOB_ID.fullmatch(state.id) or (expected and state.id != expected):
        raise _refused(f"{answer.what} answers with the id {client.clean(state.id)!r}, which is not one of a job")
    return state


def _json(client: Client, answer: Answer, kind: type[_T], limit: int) -> _T:
    """The body as JSON of a known shape."""
    if answer.media_type != "application/json" and not answer.media_type.endswith("+json"):
        found = client.clean(answer.media_type or "no content type")
        raise _refused(f"{answer.what} answers with {found!r}; expected application/json")
    data = answer.read(limit)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        begin = client.clean(data[:200].decode("utf-8", "replace"))
        raise _refused(f"{answer.what} answers with unusable JSON ({client.clean(error)}): {begin}") from error


def _headers(request_id: str, content_type: str = "") -> dict[str, str]:
    return {"X-Request-Id": request_id, **({"Content-Type": content_type} if content_type else {})}


def _image_bytes(output: Output) -> int:
    """The largest answer: images larger than declared still fit, since their size is for the comparison to tell."""
    raw = 4 * _pixels(output) * output.count * (output.layers or 1)
    return min(_LEAST_BYTES + 4 * raw, _MOST_BYTES)


def _video_bytes(output: Output) -> int:
    raw = 4 * _pixels(output) * (output.frames or 1024)
    return min(_LEAST_BYTES + 2 * raw, _MOST_VIDEO_BYTES)


def _pixels(output: Output) -> int:
    """Pixels of one image or frame, as declared, or as many as are common."""
    return (output.width or 2048) * (output.height or 2048)


def _refused(message: str, *, hint: str = "") -> LegError:
    return LegError(message, kind="crash", hint=hint)
