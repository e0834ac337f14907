"""Servers that answer anything but what was asked: one clear error each, in bounded time, after one request."""

import base64
import io
import json
import random
import re
import socket
import time
from pathlib import Path

import psutil
import pytest
import urllib3.util.connection
from PIL import Image

from paritygate.errors import InfrastructureError, LegError
from paritygate.manifest.case import Item, Output
from paritygate.runners.failures import classify
from paritygate.runners.openai_answers import images
from paritygate.runners.openai_client import Client
from paritygate.runners.openai_requests import call, plan
from paritygate.runners.openai_wire import Deadline
from paritygate.runners.python import load_file

leg = load_file(Path(__file__).with_name("openai_leg.py"))
CLIP = Output(kind="video", width=16, height=16, frames=3, fps=8, representation="encoded")

#: Fault -> what the error says of it.
REFUSED = {
    "bad-chunk": "no whole answer came",
    "bad-request": r"HTTP 422: \[\{\"msg\": \"size is odd\"\}\]",
    "base64": "image 0 for 000: b64_json is not base64",
    "claims-much": r"would answer with 99999999999999 bytes, at most \d+ are read",
    "closes": "no whole answer came .*without response",
    "data-url": "the answer points to 'data:image/png;base64,aaaa'",
    "deep": "unusable JSON",
    "empty": "0 images, expected 1",
    "endless": r"more than the \d+ bytes that are read",
    "endless-chunk": r"more than the \d+ bytes that are read",
    "endless-continue": r"more than the \d+ bytes that are read",
    "endless-line": "no whole answer came .*65536 bytes",
    "endless-trailer": r"more than the \d+ bytes that are read",
    "error-500": "was answered with HTTP 500: CUDA error: busy$",
    "error-drips": "was answered with HTTP 500",
    "foreign-host": "points to 'http://images.example.org/a.png'; only http://127.0.0.1:",
    "foreign-port": "points to 'http://127.0.0.1:1/a.png'",
    "foreign-scheme": "points to 'https://127.0.0.1:",
    "foreign-user": "points to 'http://me:secret@127.0.0.1",
    "gif": "a lossless PNG is required, its content is GIF",
    "gzip": "answers in the encoding 'gzip'",
    "half-image": "truncated or damaged PNG",
    "html": "answers with 'text/html'; expected application/json",
    "huge": r"claims 40000000000 pixels; at most \d+ are read",
    "jpeg": "image 0 for 000: a lossless PNG is required, its content is JPEG",
    "long": "unusable JSON",
    "long-header": "no whole answer came .*65536 bytes when reading header line",
    "many": "65 images, expected 1",
    "many-headers": "no whole answer came .*100 headers",
    "negative-chunk": r"more than the \d+ bytes that are read",
    "nested": "unusable JSON",
    "no-content": "image 0 for 000 has neither b64_json nor url",
    "no-type": "answers with 'no content type'",
    "not-http": "no whole answer came .*SSH-2.0",
    "not-json": "unusable JSON .*all is well",
    "other-scheme": "points to '//images.example.org/a.png'",
    "redirect": r"redirects to 'http://images.example.org/v1/images/generations' \(HTTP 307\)",
    "short": r"no whole answer came .*4990 more expected",
    "two-lengths": "no whole answer came .*Content-Length",
    "webp": "its content is WebP",
}
LATE = ("drip", "drip-headers", "drip-status", "silent")


@pytest.fixture(autouse=True)
def _small_and_quick(monkeypatch):
    monkeypatch.setattr("paritygate.runners.openai_answers._LEAST_BYTES", 1 << 20)
    monkeypatch.setattr("paritygate.runners.openai_answers._POLL_S", (0.01, 0.02))


def test_every_fault_of_the_stub_has_its_error():
    apart = {"bytes", "die", "leaves-heir", "tells-key", "url", "url-relative", *LATE}
    assert set(leg.stub.FAULTS) == set(REFUSED) | apart


@pytest.mark.parametrize("fault", REFUSED)
def test_an_answer_that_is_none_is_one_clear_error_and_never_asked_for_again(tmp_path, fault):
    started, before = time.monotonic(), psutil.Process().memory_info().rss
    with leg.serving(fault) as server:
        job = leg.make_job(tmp_path / "leg", url=f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(LegError, match=REFUSED[fault]) as caught:
            leg.run(job)
        assert server.generations == 1
    assert caught.value.kind == "crash"
    assert re.fullmatch(r"[ -~…]{1,900}", caught.value.message)
    assert time.monotonic() - started < 5
    assert psutil.Process().memory_info().rss - before < 256 << 20
    assert not list((tmp_path / "leg").glob("download-*"))


def test_images_that_are_small_files_and_large_in_memory_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr("paritygate.runners.openai_answers.MAX_PIXELS", 40)
    output = Output(kind="images", width=4, height=4, count=3)
    with pytest.raises(
        LegError, match="image 2 for 000 claims 400 pixels; at most 64 are read, with the images before"
    ):
        leg.ask(tmp_path, "grows", output=output)


def test_jpeg_is_refused_with_what_to_do_about_it(tmp_path):
    with pytest.raises(LegError) as caught:
        leg.ask(tmp_path, "jpeg")
    assert "send: {output_format: png}" in caught.value.hint


def test_an_animation_is_refused_and_not_asked_to_be_png_which_it_is(tmp_path):
    stream = io.BytesIO()
    frames = [Image.new("RGB", (4, 4), (level, 0, 0)) for level in (1, 2)]
    frames[0].save(stream, "PNG", save_all=True, append_images=frames[1:])
    with leg.serving("bytes") as server:
        entry = {"b64_json": base64.b64encode(stream.getvalue()).decode()}
        server.bytes = leg.stub.OK + b"\r\n" + json.dumps({"data": [entry]}).encode()
        job = leg.make_job(tmp_path / "leg", url=f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(LegError, match="image 0 for 000: an animated PNG with 2 frames") as caught:
            leg.run(job)
    assert not caught.value.hint


@pytest.mark.parametrize("fault", LATE)
def test_an_answer_that_comes_in_drops_is_late_however_many_drops_there_are(tmp_path, fault):
    started = time.monotonic()
    with pytest.raises(LegError, match=r"not answered in full within request_timeout_s: 0\.2") as caught:
        leg.ask(tmp_path, fault, request_timeout_s=0.2)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < 5


def test_a_png_that_is_sent_as_something_else_is_refused(tmp_path):
    with pytest.raises(LegError, match=r"image 0 for 000: a PNG is sent as 'text/html'"):
        leg.ask(tmp_path, "url", "lying-type")


def test_the_first_good_answers_are_kept_when_a_later_one_is_bad(tmp_path):
    items = tuple(Item(id=f"00{index}", request=leg.REQUEST) for index in range(3))
    with pytest.raises(LegError, match="image 0 for 002: a lossless PNG"):
        leg.ask(tmp_path, "jpeg@2", items=items, probe=[])
    assert len(list((tmp_path / "leg").rglob("*.png"))) == 2


VIDEO = {"endpoint": "videos", "output": CLIP, "request": {**leg.REQUEST, "width": 16, "height": 16}, "probe": []}
MKV, MP4, WEBM = b"\x1aE\xdf\xa3matroska", b"\0\0\0\x18ftypisom", b"\x1aE\xdf\xa3 webm"


@pytest.mark.parametrize(
    ("words", "clip", "expected"),
    [
        (("bad-id",), MKV, r"answers with the id '../../etc', which is not one of a job"),
        (("other-id",), MKV, r"answers with the id 'video_other'"),
        (("failed",), MKV, r"the job video_0-1 for 000 failed: the card caught fire$"),
        (("odd-status",), MKV, r"has the status 'dreaming'; known are .*completed"),
        (("half",), MKV, r"no whole answer came .*6 more expected"),
        (("kind:text/html",), MKV, r"answers with 'text/html'; expected one of application/octet-stream"),
        (("kind:video/mp4",), MKV, r"claims video/mp4, and the body is mkv"),
        (("kind:video/webm",), MKV, r"claims video/webm, and the body is mkv"),
        (("kind:application/octet-stream",), b"GIF89a", r"and the body begins like no clip"),
        ((), b"", r"claims video/x-matroska, and the body is empty"),
        ((), b"\x1aE\xdf\xa3" + bytes(2 << 20), r"would answer with \d+ bytes, at most \d+ are read"),
        (("empty",), MKV, "unusable JSON"),
    ],
)
def test_a_clip_that_is_none_is_one_clear_error(tmp_path, words, clip, expected):
    with pytest.raises(LegError, match=expected):
        leg.ask(tmp_path, *words, clips={"": clip}, **VIDEO)
    assert not list((tmp_path / "leg").rglob("*.part"))
    assert not list((tmp_path / "leg").glob("download-*"))


@pytest.mark.parametrize(
    ("kind", "clip", "ending"),
    [
        ("video/mp4; codecs=avc1", MP4, ".mp4"),
        ("VIDEO/WEBM", WEBM, ".webm"),
        ("video/x-matroska", MKV, ".mkv"),
        ("application/octet-stream", MP4, ".mp4"),
    ],
)
def test_a_clip_is_named_by_what_it_is(tmp_path, kind, clip, ending):
    _, writer = leg.ask(tmp_path, f"kind:{kind}", clips={"": clip}, **VIDEO)
    assert [path.name for path in (writer.directory / "outputs" / "000").iterdir()] == [f"0.video{ending}"]


def test_a_job_that_never_ends_is_late(tmp_path):
    with pytest.raises(LegError, match=r"video_0-1.* within request_timeout_s: 0\.2") as caught:
        leg.ask(tmp_path, "stuck", clips={"": MKV}, **VIDEO, request_timeout_s=0.2)
    assert caught.value.kind == "timeout"


def test_a_server_whose_health_is_elsewhere_is_a_timeout_that_shows_where_it_was_looked_for(tmp_path):
    words = r"startup_timeout_s: 0\.2; last: GET /health was answered with HTTP 503"
    with pytest.raises(LegError, match=words) as caught:
        leg.ask(tmp_path, "never-healthy", startup_timeout_s=0.2)
    assert (caught.value.kind, "health" in caught.value.hint) == ("timeout", True)
    with leg.serving() as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/api"
        with pytest.raises(LegError, match=r"last: GET /api/health was answered with HTTP 404"):
            leg.run(leg.make_job(tmp_path / "below", url=url, startup_timeout_s=0.2))


def test_a_server_that_wants_another_key_is_not_waited_for(tmp_path):
    with pytest.raises(LegError, match=r"GET /health was answered with HTTP 401") as caught:
        leg.ask(tmp_path, "locked", startup_timeout_s=60)
    assert "api_key_env" in caught.value.hint


@pytest.fixture
def named(monkeypatch):
    """Gives every host name the address of this machine, except those that end in ``.invalid``."""
    real = socket.getaddrinfo

    def find(host, *arguments, **options):
        if str(host).endswith(".invalid"):
            raise socket.gaierror(-2, "Name or service not known")
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)


@pytest.mark.parametrize(
    ("host", "fault", "kind"),
    [
        ("api.example.org", "error-500", "infrastructure"),
        ("api.example.org", "bad-request", "crash"),
        ("gpu7.internal", "error-500", "crash"),
        ("127.0.0.1", "error-500", "crash"),
    ],
)
def test_a_public_host_that_is_unavailable_is_infrastructure_and_a_server_of_ours_is_not(
    tmp_path, named, host, fault, kind
):
    with leg.serving(fault) as server:
        job = leg.make_job(tmp_path / "leg", url=f"http://{host}:{server.server_address[1]}")
        with pytest.raises((LegError, InfrastructureError)) as caught:
            leg.run(job)
    assert classify(caught.value).kind == kind


def test_a_host_without_an_address_is_infrastructure(tmp_path, named):
    with pytest.raises(InfrastructureError, match=r"the host api.invalid has no address"):
        leg.run(leg.make_job(tmp_path / "leg", url="http://api.invalid:80", startup_timeout_s=0.2))


def test_setting_up_a_connection_is_tried_again(tmp_path, monkeypatch):
    refusals = iter([True, True])
    real = urllib3.util.connection.create_connection

    def connect(*arguments, **options):
        if next(refusals, False):
            raise ConnectionRefusedError(111, "Connection refused")
        return real(*arguments, **options)

    with leg.serving() as server:
        job = leg.make_job(tmp_path / "leg", url=f"http://127.0.0.1:{server.server_address[1]}", probe=[])
        monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
        leg.run(job)
        assert server.generations == 1


def test_a_server_that_does_not_even_read_is_late():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", key=None, alive=lambda _wait_s: None)
        deadline = Deadline(0.3, "request_timeout_s: 0.3")
        sent = client.ask("POST", "/a", deadline=deadline, limit=1, body=bytes(32 << 20))
        with pytest.raises(LegError, match="POST /a was not answered in full") as caught, sent:
            pass
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("answer", leg.stub.ANSWERS)
def test_a_body_is_read_to_its_last_byte_and_not_one_more_than_allowed(answer):
    whole = len(leg.stub.IMAGE)
    with leg.serving("bytes") as server:
        server.bytes = answer
        client = Client(f"http://127.0.0.1:{server.server_address[1]}", key=None, alive=lambda _wait_s: None)
        with client.ask("POST", "/", deadline=Deadline(5, "5"), limit=whole, body=b"{}") as told:
            assert told.read(whole) == leg.stub.IMAGE
        refused = pytest.raises(LegError, match=rf"at most {whole - 1} are read|than the {whole - 1} bytes")
        with refused, client.ask("POST", "/", deadline=Deadline(5, "5"), limit=whole, body=b"{}") as told:
            told.read(whole - 1)


def mutated(rng: random.Random, data: bytes) -> bytes:
    data = bytearray(data)
    for _ in range(rng.randrange(5)):
        place = rng.randrange(min(len(data), 150))
        odd = rng.choice(
            [b"\r\n", b"\0", b"-1", b"99999999999999999999", b"\xff\xfe", b": ", b"[[[[", rng.randbytes(3)]
        )
        data[place : place + rng.choice([0, 0, 1, 9])] = odd
    return bytes(data)


def test_whatever_the_bytes_of_an_answer_are_it_is_read_or_refused(tmp_path, monkeypatch):
    rng = random.Random(4)
    job = leg.make_job(tmp_path / "leg")
    found = plan(job)
    outcomes = set()
    with leg.serving("bytes") as server:
        client = Client(f"http://127.0.0.1:{server.server_address[1]}", key=None, alive=lambda _wait_s: None)
        for turn in range(300):
            server.bytes = mutated(rng, leg.stub.ANSWERS[turn % len(leg.stub.ANSWERS)])
            try:
                images(client, found, call(found, leg.REQUEST), request_id="000", deadline=Deadline(1, "one second"))
                outcomes.add("read")
            except LegError as error:
                outcomes.add(error.kind)
    assert outcomes == {"read", "crash"}


@pytest.mark.parametrize(
    ("base", "url", "expected"),
    [
        ("http://127.0.0.1:8000/api", "http://127.0.0.1:8000/f/a.png?x=1", "/f/a.png?x=1"),
        ("http://127.0.0.1:8000", "http://localhost:8000/a.png", "/a.png"),
        ("http://[::1]:8000", "http://[::1]:8000/a.png", "/a.png"),
        ("https://a.example.org", "https://A.example.org:443/a.png", "/a.png"),
        ("http://a.example.org", "a.png", "/a.png"),
        ("http://a.example.org", "http://a.example.org.evil.org/a.png", None),
        ("http://a.example.org", "http://a.example.org@evil.org/a.png", None),
        ("http://a.example.org", "http://a.example.org:99999999/a.png", None),
        ("http://a.example.org", "http://[a.png", None),
        ("http://a.example.org", "file:///etc/passwd", None),
        ("http://a.example.org", "\\\\evil.org/a.png", "/%5C%5Cevil.org/a.png"),
    ],
)
def test_only_addresses_of_the_same_server_are_asked(base, url, expected):
    client = Client(base, key=None, alive=lambda _wait_s: None)
    if expected is None:
        with pytest.raises(LegError, match="the answer points to"):
            client.target(url)
    else:
        assert client.target(url).replace("\\", "%5C") == expected
