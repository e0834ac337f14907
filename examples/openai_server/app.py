"""The routes. The event loop only reads, checks and answers; the worker generates."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import re
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openai_server.engine import Engine, Stopped, Task
from openai_server.fields import EDITS, GENERATIONS, VIDEOS, from_form, from_json
from openai_server.jobs import MOST_KEPT, Clips, Worker
from openai_server.media import picture, png
from openai_server.refusal import Refusal

_JSON_BYTES = 1 << 20
_FORM_BYTES = 32 << 20
_FIELD_BYTES = 1 << 16
_REQUEST_ID = re.compile(r"[!-~]{1,200}")
_FPS = 16.0


def build(engine: Engine, *, name: str) -> Starlette:
    """The application.

    Args:
        engine: a loaded pipeline.
        name: what requests call it.
    """
    worker = Worker(engine)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        worker.close()

    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/v1/models", _models),
            Route("/v1/effective", _effective),
            Route("/v1/files/{name}.png", _file, name="file"),
            Route("/v1/images/generations", _generations, methods=["POST"]),
            Route("/v1/images/edits", _edits, methods=["POST"]),
            Route("/v1/videos", _start_video, methods=["POST"]),
            Route("/v1/videos/{name}", _video),
            Route("/v1/videos/{name}/content", _video_content),
        ],
        exception_handlers={
            Refusal: _refused,
            HTTPException: _refused,
            ClientDisconnect: _refused,
            Stopped: _stopped,
            500: _crashed,
        },
        lifespan=lifespan,
    )
    app.state.name, app.state.worker, app.state.clips, app.state.files = name, worker, Clips(worker), {}
    return app


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _models(request: Request) -> Response:
    model = {"id": request.app.state.name, "object": "model", "created": 0, "owned_by": "local"}
    return JSONResponse({"object": "list", "data": [model]})


async def _effective(request: Request) -> Response:
    return JSONResponse(request.app.state.worker.engine.reports.told())


async def _generations(request: Request) -> Response:
    _check_content(request, "application/json")
    body = b"".join([piece async for piece in _bounded(request, _JSON_BYTES)])
    fields = from_json(body, GENERATIONS)
    return await _answer_images(request, fields, _task(request, fields, kind="image"))


async def _edits(request: Request) -> Response:
    async with _form(request) as form:
        if "mask" in form:
            raise Refusal("masks are not supported by this pipeline", param="mask")
        images = [part for name in ("image", "image[]") for part in form.getlist(name)]
        if len(images) != 1 or not isinstance(images[0], UploadFile):
            raise Refusal(f"expected one file as image, got {len(images)} parts of that name", param="image")
        fields = from_form(_texts(form, files=("image", "image[]")), EDITS)
        task = _task(request, fields, kind="image", image=picture(await images[0].read()))
    return await _answer_images(request, fields, task)


async def _start_video(request: Request) -> Response:
    async with _form(request) as form:
        fields = {"fps": _FPS, **from_form(_texts(form, files=()), VIDEOS)}
    return JSONResponse(request.app.state.clips.start(_task(request, fields, kind="video"), fields))


async def _video(request: Request) -> Response:
    return JSONResponse(request.app.state.clips.find(request.path_params["name"]).state)


async def _video_content(request: Request) -> Response:
    clip = request.app.state.clips.find(request.path_params["name"])
    if clip.status != "completed":
        raise Refusal(f"the video is {clip.status}", status=409, code="not_ready")
    return Response(clip.content, media_type="video/mp4")


async def _file(request: Request) -> Response:
    data = request.app.state.files.get(request.path_params["name"])
    if data is None:
        raise Refusal("there is no such file", status=404, code="not_found")
    return Response(data, media_type="image/png")


def _task(request: Request, fields: dict[str, Any], *, kind: str, **more: Any) -> Task:
    """The task of a request, for the model that is served and the kind that it makes."""
    engine, name = request.app.state.worker.engine, request.app.state.name
    if fields.get("model", name) != name:
        message = f"the model {fields['model']!r} is not served; {name!r} is"
        raise Refusal(message, status=404, param="model", code="model_not_found")
    if engine.kind != kind:
        raise Refusal(f"{name} makes {engine.kind}s, not {kind}s", param="model")
    request_id = request.headers.get("x-request-id")
    if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
        raise Refusal("X-Request-Id is not 1 to 200 visible characters")
    return engine.task(fields, request_id=request_id, **more)


async def _answer_images(request: Request, fields: dict[str, Any], task: Task) -> Response:
    pictures = [png(each) for each in await _generated(request, task)]
    if fields.get("response_format") == "url":
        data = [{"url": _keep(request, each)} for each in pictures]
    else:
        data = [{"b64_json": base64.b64encode(each).decode()} for each in pictures]
    return JSONResponse({"created": int(time.time()), "data": data, "output_format": "png"})


async def _generated(request: Request, task: Task) -> Any:
    """What a task gives. When its client goes away, the worker is free for others again."""
    worker = request.app.state.worker
    made = asyncio.wrap_future(worker.submit(functools.partial(worker.engine.generate, task)))
    # The body has been read, so that nothing else can come.
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((made, gone), return_when=asyncio.FIRST_COMPLETED)
        if not made.done():
            raise ClientDisconnect
        return made.result()
    finally:
        gone.cancel()
        made.cancel()
        task.given_up.set()


def _keep(request: Request, data: bytes) -> str:
    """Keep a picture for a while, and say where it is."""
    files, name = request.app.state.files, secrets.token_hex(16)
    files[name] = data
    while len(files) > MOST_KEPT:
        del files[next(iter(files))]
    return str(request.url_for("file", name=name))


@contextlib.asynccontextmanager
async def _form(request: Request) -> AsyncIterator[FormData]:
    """The parts of a multipart body; uploads are closed afterwards."""
    _check_content(request, "multipart/form-data")
    limits: dict[str, Any] = {"max_files": 8, "max_fields": 64, "max_part_size": _FIELD_BYTES}
    try:
        form = await MultiPartParser(request.headers, _bounded(request, _FORM_BYTES), **limits).parse()
    except MultiPartException as error:
        raise Refusal(f"the form cannot be read: {error.message}") from error
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(form.close)
        yield form


def _texts(form: FormData, *, files: tuple[str, ...]) -> dict[str, str]:
    """The parts that are text, each once; ``files`` are the names of parts that are read elsewhere."""
    found: dict[str, str] = {}
    for name, value in form.multi_items():
        if name in files:
            continue
        if not isinstance(value, str):
            raise Refusal(f"{name[:80]} is a file, which is not supported here", param=name[:80])
        if name in found:
            raise Refusal(f"{name[:80]} is there more than once", param=name[:80])
        found[name] = value
    return found


def _check_content(request: Request, wanted: str) -> None:
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != wanted:
        raise Refusal(f"the body is {found[:80] or 'of no stated type'}, expected {wanted}", status=415)


async def _bounded(request: Request, limit: int) -> AsyncIterator[bytes]:
    left = limit
    async for piece in request.stream():
        left -= len(piece)
        if left < 0:
            raise Refusal(f"the body has more than {limit} bytes", status=413)
        yield piece


async def _refused(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = Refusal(str(error.detail), status=error.status_code)
    elif not isinstance(error, Refusal):
        error = Refusal("the request was cut off")
    return JSONResponse(error.body, status_code=error.status)


async def _stopped(_request: Request, _error: Exception) -> Response:
    return JSONResponse(Refusal("the server is ending", status=503).body, status_code=503)


async def _crashed(_request: Request, _error: Exception) -> Response:
    refusal = Refusal("the generation failed; the log of the server says why", status=500)
    return JSONResponse(refusal.body, status_code=500)
