"""Goldens over real HTTP: resumed, verified before they get a name, and never a byte more than listed."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paritygate.errors import GoldenError, InfrastructureError
from paritygate.goldens.cache import cached
from paritygate.goldens.fetch import Limits, download
from paritygate.goldens.store import Ref, read_golden

QUICK = Limits(connect_s=2, silence_s=1, patience_s=0.6, least_bytes_per_s=1e9, attempts=2, pause_s=0)
PATIENT = QUICK._replace(patience_s=10)
BIG = "outputs/000/0.tensors.npz"
HALF = 100

Answer = Callable[["Handler", bytes], None]


class Handler(BaseHTTPRequestHandler):
    """Serves a folder; ``server.odd`` answers what it has a key for: a path's ending -> answers, used one by one."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))
        path = Path(self.server.root) / self.path.lstrip("/").partition("?")[0]
        data = path.read_bytes() if path.is_file() else None
        for ending, answers in self.server.odd.items():
            if self.path.endswith(ending) and answers:
                (answers.pop(0) if len(answers) > 1 else answers[0])(self, data or b"")
                return
        plain(self, data)

    def log_message(self, *_words: object) -> None:
        pass


def send(handler: Handler, status: int, headers: dict[str, object], body: bytes = b"") -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, str(value))
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


def plain(handler: Handler, data: bytes | None) -> None:
    if data is None:
        send(handler, 404, {"Content-Length": 0})
        return
    wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
    start = int(wanted[1]) if wanted else 0
    headers = {"Content-Length": len(data) - start}
    if start:
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
    send(handler, 206 if start else 200, headers, data[start:])


def cut(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data)}, data[:HALF])
    handler.close_connection = True


def whole(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data)}, data)


def other_range(handler: Handler, data: bytes) -> None:
    send(handler, 206, {"Content-Length": len(data), "Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}"}, data)


def altered(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data)}, data[:-1] + b"\0")


def longer(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data) + 1}, data + b"\0")


def shorter(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data) - 1}, data[:-1])


def endless(handler: Handler, _data: bytes) -> None:
    send(handler, 200, {"Connection": "close"})
    try:
        for _ in range(100_000):
            handler.wfile.write(b"x" * 65536)
    except OSError:
        handler.close_connection = True


def packed(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data), "Content-Encoding": "gzip"}, data)


def drip(handler: Handler, data: bytes) -> None:
    send(handler, 200, {"Content-Length": len(data)})
    _slowly(handler, data)


def drip_headers(handler: Handler, _data: bytes) -> None:
    _slowly(handler, b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 1000)


def _slowly(handler: Handler, data: bytes) -> None:
    try:
        for byte in data:
            if handler.server.over.wait(0.05):
                break
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
    except OSError:
        pass
    handler.close_connection = True


def status(code: int) -> Answer:
    return lambda handler, _data: send(handler, code, {"Content-Length": 0})


def redirect(address: str) -> Answer:
    return lambda handler, _data: send(handler, 302, {"Content-Length": 0, "Location": address})


class Server:
    """The server of a test, the golden that it publishes, and the same project's reference to it."""

    def __init__(self, httpd: ThreadingHTTPServer, ref: Ref) -> None:
        self.httpd, self.ref = httpd, ref
        self.url = f"http://127.0.0.1:{httpd.server_address[1]}"

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        return self.httpd.asked

    def odd(self, ending: str, *answers: Answer) -> None:
        self.httpd.odd[ending] = list(answers)

    def get(self, limits: Limits = PATIENT) -> Path:
        return cached(self.ref, self.url, limits=limits).folder


@pytest.fixture
def server(tmp_path, monkeypatch, make) -> Iterator[Server]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    ref = make.golden(tmp_path / "published" / "demo" / "v1")
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.root, httpd.asked, httpd.odd, httpd.over = tmp_path / "published", [], {}, threading.Event()
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Server(httpd, ref)
    httpd.over.set()
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def cache() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "paritygate" / "goldens"


def kept() -> list[str]:
    """Names of verified goldens in the cache."""
    return [path.name for path in cache().iterdir() if re.fullmatch("[0-9a-f]{64}", path.name)]


def test_a_golden_is_fetched_once_and_then_read_without_a_request(server):
    folder = server.get()
    assert folder.name == server.ref.digest.removeprefix("sha256:")
    assert len(server.asked) == 3
    assert (cache().stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o700, 0o700)
    server.httpd.root = "/nowhere"
    assert server.get() == folder
    assert len(server.asked) == 3
    read_golden(folder, ref=server.ref)


def test_a_cut_download_goes_on_where_it_stopped(server):
    server.odd(BIG, cut, plain)
    read_golden(server.get(), ref=server.ref)
    assert [asked for path, asked in server.asked if path.endswith(BIG)] == [None, f"bytes={HALF}-"]


def test_a_cut_download_goes_on_in_a_later_process(server):
    server.odd(BIG, cut)
    with pytest.raises(InfrastructureError, match="broke off after 100 bytes"):
        server.get()
    assert kept() == []
    server.odd(BIG, plain)
    server.asked.clear()
    read_golden(server.get(), ref=server.ref)
    assert [asked for path, asked in server.asked if path.endswith(BIG)] == [f"bytes={HALF}-"]


def test_a_server_without_ranges_starts_again(server):
    server.odd(BIG, cut, whole)
    read_golden(server.get(), ref=server.ref)


def test_what_an_earlier_attempt_left_of_another_file_is_not_believed(server):
    server.odd(BIG, cut)
    with pytest.raises(InfrastructureError):
        server.get()
    (part,) = cache().glob(f"*.partial/{BIG}")
    part.write_bytes(b"\xff" * HALF)
    server.odd(BIG, plain)
    read_golden(server.get(), ref=server.ref)


@pytest.mark.parametrize(
    ("ending", "answers", "message"),
    [
        (BIG, (altered,), "its digest differs"),
        (BIG, (longer,), "has 201 bytes, the golden's list says 200"),
        (BIG, (shorter,), "has 199 bytes, the golden's list says 200"),
        (BIG, (endless,), "more than the 200 bytes"),
        (BIG, (packed,), "is sent as 'gzip'"),
        (BIG, (status(404),), "is not there: status 404"),
        (BIG, (cut, other_range), "answers with the range 'bytes 0-199/200', asked for were bytes 100-199"),
        (BIG, (redirect("http://localhost:1/x"),), "redirects to another host"),
        (BIG, (redirect("file:///etc/passwd"),), "redirects to another host"),
        (BIG, (redirect("?again"), redirect("?again")), "redirects more than"),
        ("golden.json", (altered,), "the manifest says sha256:"),
        ("golden.json", (endless,), "more than the 8388608 bytes"),
        ("golden.json", (status(403),), "answers with status 403"),
    ],
)
def test_a_server_that_gives_anything_else_is_refused_and_nothing_is_kept(server, ending, answers, message):
    server.odd(ending, *answers)
    if "again" in message or "redirects more" in message:
        server.odd("again", *answers)
    with pytest.raises(GoldenError, match=re.escape(message)):
        server.get()
    assert kept() == []


@pytest.mark.parametrize(
    ("ending", "answer", "message"),
    [
        (BIG, drip, "took more than"),
        (BIG, drip_headers, "took more than"),
        ("golden.json", drip, "took more than"),
        (BIG, status(503), "status 503"),
    ],
)
def test_a_slow_or_busy_server_is_infrastructure_after_a_bounded_time(server, ending, answer, message):
    server.odd(ending, answer)
    with pytest.raises(InfrastructureError, match=message):
        server.get(QUICK)
    assert kept() == []


def test_a_server_that_is_not_there_is_infrastructure(server):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(InfrastructureError, match="refused"):
        cached(server.ref, f"http://127.0.0.1:{port}", limits=QUICK)


def test_a_certificate_that_is_not_trusted_is_refused_without_another_try(tmp_path, monkeypatch):
    def untrusted(*_words, **_more):
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_message = "self-signed certificate"
        raise error

    monkeypatch.setattr(http.client.HTTPSConnection, "connect", untrusted)
    with pytest.raises(GoldenError, match="is not trusted: self-signed certificate"):
        download("https://localhost/x", tmp_path / "file", size=1)


def test_a_redirect_on_the_same_host_is_followed(server):
    server.odd(BIG, redirect("0.tensors.npz?moved"))
    read_golden(server.get(), ref=server.ref)


@pytest.mark.parametrize("url", ["ftp://host/x", "http://host:99999/x", "http:///x"])
def test_an_address_that_is_none_is_refused(url, tmp_path):
    with pytest.raises(GoldenError, match="is no http or https address"):
        download(url, tmp_path / "file", size=1)


def test_a_copy_that_was_altered_is_fetched_again_and_never_passes(server):
    folder = server.get()
    (folder / BIG).write_bytes(bytes(200))
    server.asked.clear()
    read_golden(server.get(), ref=server.ref)
    assert len(server.asked) == 3
    (folder / BIG).write_bytes(bytes(200))
    server.httpd.root = "/nowhere"
    with pytest.raises(GoldenError, match="status 404"):
        server.get()
    assert kept() == []


def test_a_cache_that_others_can_write_is_not_used(server):
    server.get()
    cache().chmod(0o777)
    with pytest.raises(GoldenError, match="others can change the cache"):
        server.get()


def test_a_cache_that_cannot_be_made_is_named(server, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(GoldenError, match="cannot make the cache"):
        server.get()


@pytest.mark.parametrize("held", [True, False])
def test_a_cache_that_cannot_be_written_serves_what_it_holds(server, monkeypatch, held):
    if held:
        server.get()
        server.httpd.root = "/nowhere"

    opened = os.open

    def refuse(path: str | Path, *words: Any, **more: Any) -> int:
        if str(path).endswith(".lock"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *words, **more)

    monkeypatch.setattr(os, "open", refuse)
    if held:
        read_golden(cached(server.ref, server.url, limits=QUICK).folder)
    else:
        with pytest.raises(GoldenError, match="cannot write to the cache"):
            server.get()


def test_a_golden_that_does_not_fit_is_not_begun(server, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(GoldenError, match="which are not free"):
        server.get()
    assert len(server.asked) == 1


def test_what_lies_in_an_unfinished_download_and_is_not_listed_keeps_it_from_its_name_once(server):
    server.odd(BIG, cut)
    with pytest.raises(InfrastructureError):
        server.get()
    (partial,) = cache().glob("*.partial")
    (partial / "stray").write_bytes(b"")
    server.odd(BIG, plain)
    with pytest.raises(GoldenError, match="stray is there and not in the list"):
        server.get()
    assert kept() == []
    read_golden(server.get(), ref=server.ref)


def test_a_published_list_that_lies_is_refused_before_a_file_is_made(server, make, tmp_path):
    folder = tmp_path / "published" / "demo" / "v1"
    data = json.loads((folder / "golden.json").read_text())
    data["files"]["../../escaped"] = data["files"][BIG]
    ref = make.rewrite(folder, data)
    with pytest.raises(GoldenError, match="is not a plain relative path"):
        cached(ref, server.url, limits=PATIENT)
    assert [path for path, _ in server.asked] == ["/demo/v1/golden.json"]


def test_threads_and_processes_that_fetch_at_once_get_one_whole_golden(server):
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: server.get(), range(4)))
    assert len(set(folders)) == 1
    assert len(server.asked) == 3
    shutil.rmtree(folders[0])
    words = (
        "from paritygate.goldens.cache import cached; from paritygate.goldens.store import Ref; "
        f"print(cached(Ref{tuple(server.ref)}, {server.url!r}).folder)"
    )
    processes = [subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=20)[0].strip() for process in processes] == [str(folders[0])] * 2
    assert len(server.asked) == 6


def test_a_case_reads_a_published_golden(plain, server):
    publish(plain, server)
    code, found = plain.json("golden", "list")
    assert (code, found["goldens"][0]["place"]) == (0, "url")
    code, found = plain.json("golden", "verify")
    assert (code, found["ok"]) == (0, True)
    assert plain.json("golden", "list")[1]["goldens"][0]["place"] == "cache"
    server.httpd.root = "/nowhere"
    assert plain.json("golden", "verify")[0] == 0


def publish(plain, server) -> None:
    """Let the project know the server, and a case name what is published there."""
    config = plain.root / "paritygate.yaml"
    config.write_text(f"{config.read_text()}goldens_url: {server.url}\n")
    named = f'{{name: demo, version: 1, digest: "{server.ref.digest}"}}'
    plain.write(name="frozen", reference=f"{{runner: golden, golden: {named}}}", claim="golden-regression")


def test_a_server_that_is_away_does_not_hide_what_was_altered(plain, server, make, monkeypatch):
    publish(plain, server)
    monkeypatch.setattr("paritygate.goldens.cache.download", away)
    code, _, err = plain.call("golden", "verify")
    assert (code, "is away" in err) == (75, True)
    make.golden(plain.root / "goldens/other/v1", name="other")
    (plain.root / "goldens/other/v1" / BIG).write_bytes(b"x")
    code, found = plain.json("golden", "verify")
    assert code == 1
    assert [entry["name"] for entry in found["goldens"] if entry["problem"]] == ["demo", "other"]


def away(*_words: object, **_more: object) -> None:
    raise InfrastructureError("the server is away")


def test_a_version_that_is_published_is_not_promoted_again_under_its_number(demo, server):
    publish(demo, server)
    demo.commit()
    _, created = demo.json("golden", "create", "demo")
    code, _, err = demo.call("golden", "promote", created["draft"], "--reason", "r")
    assert (code, "demo has version 1 already" in err) == (2, True)
    code, result = demo.json("golden", "promote", created["draft"], "--reason", "r", "--oracle", "o")
    assert (code, result["folder"], result["before"]["digest"]) == (0, "goldens/demo/v2", server.ref.digest)
