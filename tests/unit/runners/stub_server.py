"""A server of images and clips in few lines that misbehaves as it is told, over real sockets.

``python stub_server.py PORT WORD...`` runs it as a process. A word is a fault of ``FAULTS``, ``PROCESS_FAULTS`` or
``START_FAULTS``, or ``ignore:<field>``.
"""

import base64
import contextlib
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HANG = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def png(width: int, height: int, level: bytes, *, claims: tuple[int, int] | None = None) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + (level * (width * 3))[: width * 3] for _ in range(height))
    header = struct.pack(">IIBBBBB", *(claims or (width, height)), 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def form(content_type: str, body: bytes) -> list[tuple[str, str | None, str, bytes]]:
    """Name, file name, content type and content of every part, in order."""
    message: Message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message.get_payload()
    ]


class Stub(ThreadingHTTPServer):
    """``requests``: method, path, headers and body of everything that was asked, in order."""

    daemon_threads = True

    def __init__(self, port: int, words: tuple[str, ...], clips: dict[str, bytes] | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.words, self.clips = words, clips or {}
        self.requests: list[tuple[str, str, Message, bytes]] = []
        self.jobs: dict[str, int] = {}
        self.effective: bytes = b"{}"
        self.bytes: bytes = b""
        self.open = threading.Event()

    def handle_error(self, request, client_address) -> None:
        pass

    @property
    def generations(self) -> int:
        return sum(method == "POST" for method, *_ in self.requests)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def log_message(self, *_arguments) -> None:
        pass

    def answer(self, body: bytes, *, kind: str = "application/json", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in {"content_length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.server.requests.append(("GET", self.path, self.headers, b""))
        self.path = self.path.removeprefix("/below")
        words = self.server.words
        if self.path == "/health":
            return self.answer(b"{}", status=503 if "never-healthy" in words else 401 if "locked" in words else 200)
        if self.path == "/effective":
            return self.answer(self.server.effective)
        if self.path.partition("?")[0].endswith(".png"):
            kind = "text/html" if "lying-type" in words else "image/png"
            return self.answer(png(4, 4, b"\x07"), kind=kind)
        if self.path.startswith("/v1/videos/"):
            return self.videos()
        return self.answer(b'{"error": {"message": "no such place"}}', status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(("POST", self.path, self.headers, body))
        for word in self.server.words:
            name, _, number = word.partition("@")
            if name in FAULTS and self.server.generations > int(number or 0):
                return FAULTS[name](self)
        if self.headers["Content-Type"].startswith("multipart/"):
            parts = form(self.headers["Content-Type"], body)
            fields = {name: data.decode() for name, file, _, data in parts if file is None}
            fields["files"] = [hashlib.sha256(data).hexdigest() for _, file, _, data in parts if file is not None]
        else:
            fields = json.loads(body)
        if "strict" in self.server.words and str(fields.get("seed")) == "2":
            return self.answer(b'{"detail": "seed must be odd"}', status=422)
        for word in self.server.words:
            if word.startswith("ignore:"):
                fields.pop(word.removeprefix("ignore:"), None)
        if "random" in self.server.words:
            fields["noise"] = os.urandom(8).hex()
        seen = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).digest()
        if self.path == "/v1/videos":
            return self.create(fields)
        width, height = (int(side) for side in fields.get("size", "4x4").split("x"))
        count = int(fields.get("n", 1)) - ("fewer" in self.server.words)
        images = [png(width, height, bytes([index]) + seen) for index in range(count)]
        if "grows" in self.server.words:
            images[-1] = png(20, 20, seen)
        entries = [{"b64_json": base64.b64encode(image).decode()} for image in images]
        return self.answer(json.dumps({"created": 1, "data": entries}).encode())

    def create(self, fields: dict) -> None:
        name = "../../etc" if "bad-id" in self.server.words else f"video_{len(self.server.jobs)}-{fields.get('seed')}"
        self.server.jobs[name] = 0
        status = 202 if "accepts" in self.server.words else 200
        state = {"id": name, "object": "video", "status": "queued", "progress": 0}
        self.answer(json.dumps(state).encode(), status=status)

    def videos(self) -> None:
        words = self.server.words
        name = self.path.removeprefix("/v1/videos/").removesuffix("/content")
        if self.path.endswith("/content"):
            clip = self.server.clips.get(name.rpartition("-")[2], self.server.clips.get("", b"\0\0\0\x18ftypisom"))
            kind = next((word.removeprefix("kind:") for word in words if word.startswith("kind:")), "video/x-matroska")
            if "half" in words:
                self.answer(clip[: len(clip) // 2], kind=kind, content_length=str(len(clip)))
                self.close_connection = True
                return None
            return self.answer(clip, kind=kind)
        self.server.jobs[name] += 1
        status = "completed" if self.server.jobs[name] > 1 else "in_progress"
        if "stuck" in words:
            status = "in_progress"
        if "odd-status" in words:
            status = "dreaming"
        state = {"id": "video_other" if "other-id" in words else name, "status": status}
        if "failed" in words:
            state |= {"status": "failed", "error": {"code": "oops", "message": "the card caught\nfire"}}
        return self.answer(json.dumps(state).encode())

    def raw(self, data: bytes) -> None:
        self.close_connection = True
        self.wfile.write(data)

    def repeat(self, begin: bytes, more: bytes, pause: float = 0.0) -> None:
        """Send until the other side has had enough."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write(begin)
            while True:
                self.wfile.write(more)
                time.sleep(pause)

    def die(self) -> None:
        with contextlib.suppress(OSError):
            print("RuntimeError: the card fell off the bus", flush=True)
        os._exit(9)

    def leave_heir(self) -> None:
        """Die while another process keeps the connection open."""
        for number in (self.connection.fileno(), self.server.fileno()):
            os.set_inheritable(number, True)
        subprocess.Popen([sys.executable, "-c", HANG], close_fds=False, start_new_session=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def image(self, data: bytes) -> None:
        self.answer(json.dumps({"data": [{"b64_json": base64.b64encode(data).decode()}]}).encode())

    def url(self, url: str) -> None:
        port = self.server.server_address[1]
        self.answer(json.dumps({"data": [{"url": url.format(port=port)}]}).encode())


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
IMAGE = json.dumps({"data": [{"b64_json": base64.b64encode(png(4, 4, b"\x07")).decode()}]}).encode()
#: Good answers of every framing.
ANSWERS = (
    OK + b"Content-Length: %d\r\n\r\n" % len(IMAGE) + IMAGE,
    CHUNKED + b"%x\r\n" % len(IMAGE) + IMAGE + b"\r\n0\r\n\r\n",
    OK + b"\r\n" + IMAGE,
)
JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
WEBP = b"RIFF\x24\0\0\0WEBPVP8 "

#: Faults of an answer to a generation; ``<fault>@N`` begins after N good answers.
FAULTS = {
    "bad-chunk": lambda self: self.raw(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"),
    "bad-request": lambda self: self.answer(b'{"detail": [{"msg": "size is odd"}]}', status=422),
    "base64": lambda self: self.answer(b'{"data": [{"b64_json": "iVBOR w0KGgo="}]}'),
    "bytes": lambda self: self.raw(self.server.bytes),
    "claims-much": lambda self: self.raw(OK + b"Content-Length: 99999999999999\r\n\r\n{"),
    "closes": lambda self: self.raw(b""),
    "data-url": lambda self: self.url("data:image/png;base64,aaaa"),
    "deep": lambda self: self.answer(b'{"data": ' + b"[" * 200_000),
    "die": lambda self: self.die(),
    "drip": lambda self: self.repeat(OK + b"Content-Length: 100000\r\n\r\n", b" ", 0.05),
    "drip-headers": lambda self: self.repeat(OK, b"x", 0.05),
    "drip-status": lambda self: self.repeat(b"H", b"T", 0.05),
    "empty": lambda self: self.answer(b'{"data": []}'),
    "endless": lambda self: self.repeat(OK + b"\r\n", b" " * 65536),
    "endless-chunk": lambda self: self.repeat(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "endless-continue": lambda self: self.repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
    "endless-line": lambda self: self.repeat(CHUNKED, b"1" * 65536),
    "endless-trailer": lambda self: self.repeat(CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 9000),
    "error-500": lambda self: self.answer(b'{"error": {"message": "CUDA error\x1b[31m: busy"}}', status=500),
    "error-drips": lambda self: self.repeat(b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n", b"x", 0.05),
    "foreign-host": lambda self: self.url("http://images.example.org/a.png"),
    "foreign-port": lambda self: self.url("http://127.0.0.1:1/a.png"),
    "foreign-scheme": lambda self: self.url("https://127.0.0.1:{port}/a.png"),
    "foreign-user": lambda self: self.url("http://me:secret@127.0.0.1:{port}/a.png"),
    "gif": lambda self: self.image(b"GIF89a\x01\0\x01\0"),
    "gzip": lambda self: self.answer(zlib.compress(b"{}"), content_encoding="gzip"),
    "half-image": lambda self: self.image(png(4, 4, b"\x07")[:50]),
    "html": lambda self: self.answer(b"<html>hello</html>", kind="text/html"),
    "huge": lambda self: self.image(png(4, 4, b"\x07", claims=(200_000, 200_000))),
    "jpeg": lambda self: self.image(JPEG),
    "leaves-heir": lambda self: self.leave_heir(),
    "long": lambda self: self.answer(b'{"data": [{"b64_json": "aa"}]}' + b" " * 9999, content_length="20"),
    "long-header": lambda self: self.repeat(OK, b"x" * 65536),
    "many": lambda self: self.answer(json.dumps({"data": [{"b64_json": "aaaa"}] * 65}).encode()),
    "many-headers": lambda self: self.repeat(OK, b"x: y\r\n" * 1000),
    "negative-chunk": lambda self: self.repeat(CHUNKED + b"-1\r\n", b" " * 65536),
    "nested": lambda self: self.answer(b'{"data": {"b64_json": "aaaa"}}'),
    "no-content": lambda self: self.answer(b'{"data": [{"revised_prompt": "a"}]}'),
    "no-type": lambda self: self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "not-http": lambda self: self.raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "not-json": lambda self: self.answer(b"all is well"),
    "other-scheme": lambda self: self.url("//images.example.org/a.png"),
    "redirect": lambda self: self.answer(b"", status=307, location="http://images.example.org/v1/images/generations"),
    "short": lambda self: self.raw(OK + b'Content-Length: 5000\r\n\r\n{"data": ['),
    "silent": lambda self: self.server.open.wait(30),
    "tells-key": lambda self: self.answer(
        json.dumps({"error": {"message": f"bad key {self.headers['Authorization']}"}}).encode(), status=401
    ),
    "two-lengths": lambda self: self.raw(OK + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc"),
    "url": lambda self: self.url("http://localhost:{port}/files/a.png?token=1"),
    "url-relative": lambda self: self.url("/files/a.png"),
    "webp": lambda self: self.image(WEBP),
}


def start_faults(words: list[str]) -> None:
    if "says-and-exits" in words:
        print("INFO loading", flush=True)
        print("OSError: no file named model-00002-of-00003.safetensors in the folder", flush=True)
        sys.exit(3)
    if "exits" in words:
        sys.exit(0)
    if "says-bye" in words:
        signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), os._exit(0)))
    if "says-and-hangs" in words:
        print("ERROR: shard 2 of 3 is missing, waiting for it", flush=True)
        time.sleep(600)
    if "floods" in words:
        threading.Thread(target=flood, daemon=True).start()
    if "forks" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pids = [os.getpid()]
        for options in ({}, {"start_new_session": True}, {"start_new_session": True, "env": {}}):
            child = subprocess.Popen([sys.executable, "-c", HANG], **options)
            pids.append(child.pid)
        Path("pids").write_text(" ".join(map(str, pids)))
    if "closes-output" in words:
        os.close(1)
        os.close(2)


def flood() -> None:
    while True:
        os.write(1, b"A line of the log, over and over again. " * 25_000 + b"\n")


if __name__ == "__main__":
    start_faults(sys.argv[2:])
    with Stub(int(sys.argv[1]), tuple(sys.argv[2:])) as stub:
        stub.serve_forever()
