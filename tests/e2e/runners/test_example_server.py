"""The example server by itself: what it refuses, what it tells, and how it ends. Real processes, real sockets."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image
from urllib3.filepost import encode_multipart_formdata

from paritygate.media.video import open_video

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "tests/e2e/accuracy"
SOURCE = CASES / "tiny_digits/it2i_server/source.png"
PICTURE = {"prompt": "a red three on a white background", "size": "32x32", "seed": 1, "num_inference_steps": 2}
CLIP = {"prompt": "a red ball", "size": "64x64", "num_frames": 5, "num_inference_steps": 2, "seed": 1}


class Server:
    """One running server; requests are answered with status, content type and body."""

    def __init__(self, model: Path, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "openai_server",
            "--model",
            str(model),
            "--name",
            "tiny",
            "--port",
            str(self.port),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples"), "OMP_NUM_THREADS": "1"}
        with log.open("wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        self.log = log

    def wait(self) -> None:
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text()
            try:
                assert self.ask("GET", "/health")[0] == 200
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError("not ready")

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers.get_content_type(), answer.read()
        finally:
            connection.close()

    def images(self, request_id: str | None = None, **fields: Any) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": "application/json"} | ({"X-Request-Id": request_id} if request_id else {})
        status, _, body = self.ask("POST", "/v1/images/generations", json.dumps({**PICTURE, **fields}), headers)
        return status, json.loads(body)

    def form(self, path: str, parts: list[Any]) -> tuple[int, dict[str, Any]]:
        body, kind = encode_multipart_formdata(parts)
        status, _, body = self.ask("POST", path, body, {"Content-Type": kind})
        return status, json.loads(body)

    def edit(self, *parts: Any) -> tuple[int, dict[str, Any]]:
        fields = [(name, str(value)) for name, value in PICTURE.items()]
        return self.form("/v1/images/edits", [*fields, *parts])

    def clip(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        return self.form("/v1/videos", [(name, str(value)) for name, value in {**CLIP, **fields}.items()])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def serve(model: str, folder: Path) -> Iterator[Server]:
    server = Server(CASES / model / "model", folder / "log.txt")
    try:
        server.wait()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def painter(tmp_path_factory) -> Iterator[Server]:
    yield from serve("tiny_digits", tmp_path_factory.mktemp("painter"))


@pytest.fixture(scope="module")
def filmer(tmp_path_factory) -> Iterator[Server]:
    yield from serve("tiny_video", tmp_path_factory.mktemp("filmer"))


def pixels(answer: dict[str, Any], index: int = 0) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(answer["data"][index]["b64_json"]))))


def test_the_server_knows_nothing_of_paritygate() -> None:
    sources = [path.read_text() for path in (ROOT / "examples/openai_server").glob("*.py")]
    assert sources
    assert not any(re.search(r"^\s*(from|import) paritygate", source, re.MULTILINE) for source in sources)


@pytest.mark.parametrize(
    ("fields", "param", "status"),
    [
        ({"cfg": 3}, "cfg", 400),
        ({"guidance": None, "quality": "hd"}, "quality", 400),
        ({"strength": 0.5}, "strength", 400),
        ({"prompt": 3}, "prompt", 400),
        ({"prompt": None}, "prompt", 400),
        ({"n": True}, "n", 400),
        ({"n": 9}, "n", 400),
        ({"seed": 1.5}, "seed", 400),
        ({"seed": -1}, "seed", 400),
        ({"guidance_scale": "3"}, "guidance_scale", 400),
        ({"guidance_scale": 10**400}, "guidance_scale", 400),
        ({"guidance_scale": float("nan")}, "guidance_scale", 400),
        ({"num_inference_steps": 0}, "num_inference_steps", 400),
        ({"output_format": "jpeg"}, "output_format", 400),
        ({"response_format": "path"}, "response_format", 400),
        ({"size": "auto"}, "size", 400),
        ({"size": "33x32"}, "size", 400),
        ({"size": "8192x8192"}, "size", 400),
        ({"model": "large"}, "model", 404),
    ],
)
def test_what_the_pipeline_would_ignore_or_change_is_refused_by_name(painter, fields, param, status) -> None:
    found, answer = painter.images(**fields)
    assert (found, answer["error"]["param"]) == (status, param)
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/images/generations", b"{", {"Content-Type": "application/json"}, 400),
        ("/v1/images/generations", b"[" * 100_000, {"Content-Type": "application/json"}, 400),
        ("/v1/images/generations", b"[1]", {"Content-Type": "application/json"}, 400),
        ("/v1/images/generations", b'{"prompt": "\\ud800"}', {"Content-Type": "application/json"}, 400),
        ("/v1/images/generations", b'{"prompt": "a", "prompt": "b"}', {"Content-Type": "application/json"}, 400),
        ("/v1/images/generations", b" " * (1 << 21), {"Content-Type": "application/json"}, 413),
        ("/v1/images/generations", b"prompt=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("/v1/images/edits", b"x", {"Content-Type": "multipart/form-data"}, 400),
        ("/v1/images/edits", b"x", {"Content-Type": "multipart/form-data; boundary=y"}, 400),
        ("/v1/nothing", b"", {}, 404),
        ("/health", b"", {}, 405),
    ],
)
def test_a_body_that_is_none_is_refused_in_the_words_of_the_interface(painter, path, body, headers, status) -> None:
    found, kind, answer = painter.ask("POST", path, body, headers)
    assert (found, kind) == (status, "application/json")
    assert json.loads(answer)["error"]["message"]


def test_a_request_id_that_cannot_be_a_key_is_refused(painter) -> None:
    assert painter.images("x" * 201)[0] == 400
    assert painter.images("two words")[0] == 400


def png(mode: str, size: tuple[int, int]) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, size).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ([], "image"),
        ([("image", "text")], "image"),
        ([("image", ("a.png", b"\x89PNG\r\n\x1a\nrest", "image/png"))], "image"),
        ([("image", ("a.png", png("RGBA", (32, 32)), "image/png"))], "image"),
        ([("image", ("a.png", png("I;16", (32, 32)), "image/png"))], "image"),
        ([("image", ("a.png", png("1", (4096, 4096)), "image/png"))], "image"),
        ([("image", ("a.png", png("RGB", (64, 32)), "image/png"))], "size"),
        ([("image", ("a.png", png("RGB", (30, 30)), "image/png"))], "size"),
        ([("image", ("a.png", SOURCE.read_bytes(), "image/png"))] * 2, "image"),
        ([("image", ("a.png", SOURCE.read_bytes(), "image/png")), ("mask", ("m.png", b"", "image/png"))], "mask"),
        ([("image", ("a.png", SOURCE.read_bytes(), "image/png")), ("strength", "much")], "strength"),
        ([("image", ("a.png", SOURCE.read_bytes(), "image/png")), ("strength", "0.01")], "strength"),
        ([("image", ("a.png", SOURCE.read_bytes(), "image/png")), ("seed", "2")], "seed"),
    ],
)
def test_an_edit_takes_one_whole_picture_and_known_fields(painter, parts, param) -> None:
    status, answer = painter.edit(*parts)
    assert (status, answer["error"]["param"]) == (400, param)


def test_an_edit_depends_on_its_picture_and_its_strength(painter) -> None:
    source = ("image", ("a.png", SOURCE.read_bytes(), "image/png"))
    usual = pixels(painter.edit(source, ("strength", "1"))[1])
    assert np.array_equal(usual, pixels(painter.edit(source, ("strength", "1"))[1]))
    other = ("image", ("a.png", png("RGB", (32, 32)), "image/png"))
    assert not np.array_equal(usual, pixels(painter.edit(other, ("strength", "1"))[1]))
    assert not np.array_equal(usual, pixels(painter.edit(source, ("strength", "0.5"))[1]))


def test_a_picture_depends_on_its_request_alone_and_comes_by_url_as_well(painter) -> None:
    first = painter.images()[1]
    other = painter.images(seed=2)[1]
    again = painter.images(response_format="url")[1]["data"][0]["url"]
    status, kind, body = painter.ask("GET", again.partition(f":{painter.port}")[2])
    assert (status, kind, body) == (200, "image/png", base64.b64decode(first["data"][0]["b64_json"]))
    assert not np.array_equal(pixels(first), pixels(other))


def test_several_pictures_of_a_request_are_different_ones(painter) -> None:
    answer = painter.images(n=2)[1]
    assert not np.array_equal(pixels(answer, 0), pixels(answer, 1))


def test_the_first_use_of_a_request_id_is_what_is_told(painter) -> None:
    before = json.loads(painter.ask("GET", "/v1/effective")[2])["token_ids"]
    painter.images()
    painter.images("one", negative_prompt="a blue two")
    told = json.loads(painter.ask("GET", "/v1/effective")[2])
    painter.images("one", prompt="a blue seven", seed=5, num_inference_steps=3, guidance_scale=1)
    assert json.loads(painter.ask("GET", "/v1/effective")[2]) == told
    assert told["token_ids"].keys() - before.keys() == {"one"} == told["initial_latents"].keys()
    assert len(told["token_ids"]["one"]) == 2
    assert len(told["timesteps"]) == 2
    assert told["settings"]["config.negative_prompt"] == "a blue two"


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"num_frames": 6}, "num_frames"), ({"size": "60x64"}, "size"), ({"fps": 0}, "fps"), ({"n": 1}, "n")],
)
def test_a_clip_that_the_pipeline_would_round_is_refused_by_name(filmer, fields, param) -> None:
    status, answer = filmer.clip(**fields)
    assert (status, answer["error"]["param"]) == (400, param)


def test_each_model_answers_at_its_own_endpoints(painter, filmer) -> None:
    assert painter.clip()[0] == filmer.images()[0] == 400
    assert filmer.ask("GET", "/v1/videos/video_0")[0] == filmer.ask("GET", "/v1/videos/video_0/content")[0] == 404


def test_a_clip_is_made_while_the_server_answers_others(filmer, tmp_path) -> None:
    _, job = filmer.clip(num_inference_steps=60)
    assert job["status"] == "queued"
    assert filmer.ask("GET", f"/v1/videos/{job['id']}/content")[0] == 409
    shares = []
    while (state := json.loads(filmer.ask("GET", f"/v1/videos/{job['id']}")[2]))["status"] != "completed":
        assert state["status"] in ("queued", "in_progress"), state
        began = time.monotonic()
        assert filmer.ask("GET", "/health")[0] == 200
        assert time.monotonic() - began < 1
        shares.append(state["progress"])
        time.sleep(0.02)
    assert state["progress"] == 100
    assert len(set(shares)) > 2
    assert shares == sorted(shares)
    status, kind, body = filmer.ask("GET", f"/v1/videos/{job['id']}/content")
    assert (status, kind) == (200, "video/mp4")
    (tmp_path / "clip.mp4").write_bytes(body)
    with open_video(tmp_path / "clip.mp4") as clip:
        assert (clip.facts.fps, clip.facts.pixel_format) == (16.0, "gbrp")
        assert [np.asarray(frame).shape for frame in clip] == [(64, 64, 3)] * 5


def test_a_folder_that_is_no_pipeline_ends_the_server_with_one_line(tmp_path) -> None:
    server = Server(tmp_path, tmp_path / "log.txt")
    try:
        assert server.process.wait(60) == 2
        assert server.log.read_text().splitlines()[-1].endswith(f"cannot load {tmp_path}: it has no model_index.json")
    finally:
        server.close()


def test_a_picture_whose_client_is_gone_keeps_no_other_client_waiting(painter) -> None:
    body = json.dumps({**PICTURE, "size": "256x256", "num_inference_steps": 900})
    for _ in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", painter.port, timeout=60)
        connection.request("POST", "/v1/images/generations", body, {"Content-Type": "application/json"})
        time.sleep(0.1)
        connection.close()
    began = time.monotonic()
    assert painter.images()[0] == 200
    assert time.monotonic() - began < 5


def test_a_signal_ends_a_server_amid_a_step_that_takes_longer_than_anybody_waits(painter) -> None:
    """The last test of its server."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", painter.port, timeout=60)) as connection:
        body = json.dumps({**PICTURE, "size": "2048x2048", "num_inference_steps": 900})
        connection.request("POST", "/v1/images/generations", body, {"Content-Type": "application/json"})
        time.sleep(0.5)
        painter.process.send_signal(signal.SIGTERM)
        painter.process.wait(10)


def test_a_signal_ends_a_server_that_is_generating(filmer) -> None:
    """The last test of its server."""
    for _ in range(4):
        assert filmer.clip(num_inference_steps=1000)[0] == 200
    filmer.process.send_signal(signal.SIGTERM)
    filmer.process.wait(10)
    assert not psutil.pid_exists(filmer.process.pid)
    with pytest.raises(OSError, match="refused"):
        filmer.ask("GET", "/health")
