"""Files over HTTP, no byte more than announced: resumed when a connection breaks, refused when anything is odd."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paritygate import __version__
from paritygate.errors import GoldenError, InfrastructureError

_CHUNK_BYTES = 1 << 16
_MAX_REDIRECTS = 5
_MOVED = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({408, 425, 429, *range(500, 600)})
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_PORTS = {"http": 80, "https": 443}
_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"paritygate/{__version__}"}


class Limits(NamedTuple):
    """How long a host may take. A file may take ``patience_s`` and its size at ``least_bytes_per_s``."""

    connect_s: float = 15.0
    silence_s: float = 30.0
    patience_s: float = 60.0
    least_bytes_per_s: float = 100_000.0
    attempts: int = 4
    pause_s: float = 0.5

    def deadline_s(self, size: int) -> float:
        """Seconds that a file of ``size`` bytes may take."""
        return self.patience_s + size / self.least_bytes_per_s


def download(url: str, target: Path, *, size: int, exact: bool = True, limits: Limits | None = None) -> None:
    """Fetch a file into ``target``, going on where an earlier attempt stopped.

    Redirects are followed on the same host only. Proxies of the environment are not used.

    Args:
        url: ``http`` or ``https``.
        target: the file, complete or not; it is named here only once somebody has verified it.
        size: how many bytes it has.
        exact: whether it may not have fewer.
        limits: how long it may take.

    Raises:
        GoldenError: when the server has no such file, answers oddly, or gives more than ``size`` bytes.
        InfrastructureError: when the server cannot be reached, is busy, breaks off again and again, or is too slow.
    """
    limits = limits or Limits()
    ends_s = time.monotonic() + limits.deadline_s(size)
    for attempt in range(1, limits.attempts + 1):
        broken = _try(url, target, size=size, exact=exact, ends_s=ends_s, limits=limits)
        if broken is None:
            return
        slow = time.monotonic() >= ends_s
        if slow or attempt == limits.attempts:
            reason = f"it took more than {limits.deadline_s(size):.0f} s" if slow else _reason(broken)
            raise InfrastructureError(
                f"{url} could not be fetched: {reason}",
                hint="see that goldens_url can be reached; what was fetched is kept, and the next try goes on",
            ) from broken
        time.sleep(limits.pause_s)


def _try(url: str, target: Path, *, size: int, exact: bool, ends_s: float, limits: Limits) -> Exception | None:
    """Why an attempt broke off; None when the file is complete."""
    try:
        _once(url, target, size=size, exact=exact, ends_s=ends_s, limits=limits)
    except ssl.SSLCertVerificationError as error:
        raise GoldenError(
            f"the certificate of {url} is not trusted: {error.verify_message}",
            hint="mend the server, or name its authority in SSL_CERT_FILE",
        ) from error
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        return error
    return None


def _once(url: str, target: Path, *, size: int, exact: bool, ends_s: float, limits: Limits) -> None:
    """One request, for what is lacking of the file.

    Raises:
        OSError: when the connection broke, or the server cannot go on: try again.
    """
    have = target.stat().st_size if exact and target.exists() else -1
    if have == size:
        return
    with _answer(url, resume=have if 0 < have < size else 0, size=size, ends_s=ends_s, limits=limits) as (
        start,
        stream,
    ):
        at = start
        if exact and stream.length is not None and stream.length != size - at:
            raise GoldenError(f"{url} has {at + stream.length} bytes, the golden's list says {size}")
        with target.open("r+b" if at else "wb") as file:
            file.truncate(at)
            file.seek(at)
            while chunk := stream.read1(_CHUNK_BYTES):
                at += len(chunk)
                if at > size:
                    raise GoldenError(f"{url} gives more than the {size} bytes that it may have; the rest was not read")
                file.write(chunk)
                if time.monotonic() > ends_s:
                    raise TimeoutError("too slow")
        if stream.length or (exact and at != size):
            raise ConnectionError(f"the connection broke off after {at} bytes")


@contextlib.contextmanager
def _answer(
    url: str, *, resume: int, size: int, ends_s: float, limits: Limits
) -> Iterator[tuple[int, http.client.HTTPResponse]]:
    """Where the body of the answer begins in the file, and the answer, after redirects on the same host."""
    here = url
    for _ in range(_MAX_REDIRECTS):
        with _request(here, resume=resume, ends_s=ends_s, limits=limits) as response:
            if response.status not in _MOVED:
                yield _start(url, response, resume=resume, size=size), response
                return
            there = urllib.parse.urljoin(here, response.headers.get("Location") or "")
        if _origin(there) != _origin(here):
            raise GoldenError(
                f"{url} redirects to another host, {there!r:.200}; that is not followed",
                hint="when that is right, write its address as goldens_url",
            )
        here = there
    raise GoldenError(f"{url} redirects more than {_MAX_REDIRECTS} times")


def _start(url: str, response: http.client.HTTPResponse, *, resume: int, size: int) -> int:
    """Where the body of an answer begins.

    Raises:
        GoldenError: for any status but 200 and the 206 that was asked for.
        ConnectionError: for a busy server, and to start again where the server cannot go on.
    """
    status = response.status
    if status == http.client.OK:
        coding = response.headers.get("Content-Encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):
            raise GoldenError(f"{url} is sent as {coding!r:.40}, which was not asked for")
        return 0
    if status == http.client.PARTIAL_CONTENT and resume:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if found and (int(found[1]), int(found[2])) == (resume, size - 1) and found[3] in ("*", str(size)):
            return resume
        raise GoldenError(
            f"{url} answers with the range {response.headers.get('Content-Range', '')!r:.80}, "
            f"asked for were bytes {resume}-{size - 1}"
        )
    if status in _BUSY:
        raise ConnectionError(f"status {status}")
    raise GoldenError(
        f"{url} is not there: status {status}" if status in (404, 410) else f"{url} answers with status {status}",
        hint="publish the golden there, or correct goldens_url",
    )


@contextlib.contextmanager
def _request(url: str, *, resume: int, ends_s: float, limits: Limits) -> Iterator[http.client.HTTPResponse]:
    """A GET request that is over at ``ends_s``, however slowly its headers and its body drip."""
    scheme, host, port = _origin(url)
    if scheme not in _PORTS or not host:
        raise GoldenError(f"{url!r:.200} is no http or https address", hint="correct goldens_url")
    timeout_s = min(limits.connect_s, max(0.01, ends_s - time.monotonic()))
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
        if scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout_s)
    )
    held: list[socket.socket] = []
    timer = threading.Timer(max(0.01, ends_s - time.monotonic()), _cut, (connection, held))
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        # The connection lets go of its socket when an answer ends with it, and the answer reads on.
        held.append(connection.sock)
        connection.sock.settimeout(limits.silence_s)
        parts = urllib.parse.urlsplit(url)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        connection.request("GET", path, headers={**_HEADERS, **({"Range": f"bytes={resume}-"} if resume else {})})
        with connection.getresponse() as response:
            yield response
    finally:
        timer.cancel()
        connection.close()


def _cut(connection: http.client.HTTPConnection, held: list[socket.socket]) -> None:
    """End a connection under a read that waits; closing it would leave the read waiting."""
    for sock in [*held, connection.sock]:
        if sock is not None:
            with contextlib.suppress(OSError):
                # The method of the plain socket: that of a TLS socket would take its state away under the read.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port; empty for what is no address."""
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
