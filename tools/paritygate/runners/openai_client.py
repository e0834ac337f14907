"""HTTP to a server that may be broken or hostile: one request a connection, bounded in time and bytes.

A request that was sent is never sent twice: only setting up the connection is tried again. Redirects are errors, and
proxies of the environment are not used.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NameResolutionError
from urllib3.response import BaseHTTPResponse

from paritygate.errors import InfrastructureError, LegError, printable
from paritygate.runners.failures import is_public
from paritygate.runners.openai_wire import Answer, Deadline, watched

_CONNECT_ATTEMPTS = 3
_CONNECT_PAUSE_S = 0.2
_TICK_S = 0.2
#: A process that has just died shows a moment later than its connections.
_PATIENCE_S = 2.0
_ERROR_BYTES = 1 << 16
_SAID_CHARACTERS = 300
#: Fewer characters of a key than this give nothing away, and end many a word.
_BEGUN_CHARACTERS = 4
#: Status -> what most often mends it.
_HINTS = MappingProxyType(
    {
        401: "name the environment variable that holds the server's key: api_key_env",
        403: "name the environment variable that holds the server's key: api_key_env",
        404: "check endpoint and url, and what the server calls the model: served_model",
    }
)
_KEPT_IN_TARGET = "/%?&=+:@!$'()*,;~-._"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PORTS = {"http": 80, "https": 443}
#: Done, created, accepted: a job that is made may be answered with any of them.
_DONE = (200, 201, 202)
_UNAVAILABLE = frozenset({429, *range(500, 600)})


class StatusError(LegError):
    """The server answered with another status than 200."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message, kind="crash", hint=_HINTS.get(status, ""))
        self.status = status


class Client:
    """Speaks to one server at a base URL.

    Args:
        base: scheme, host, port and perhaps a path that stands before every path.
        key: what the server is to be shown as a bearer token, or None.
        alive: called with seconds that it may wait; raises when the server's process has ended.
    """

    def __init__(self, base: str, *, key: str | None, alive: Callable[[float], None]) -> None:
        parts = urllib.parse.urlsplit(base)
        self._origin = _origin(parts)
        self._scheme, self._host, self._port = parts.scheme, parts.hostname or "", self._origin[2]
        self._prefix = parts.path.rstrip("/")
        self._key = key
        self._alive = alive

    def clean(self, text: object) -> str:
        """Words of the server as a message may show them: one line, bounded, inert, without the key."""
        shown = str(text)[: 1 << 16]
        shown = printable(_blanked(shown, self._key) if self._key else shown)
        return shown if len(shown) <= _SAID_CHARACTERS else f"{shown[: _SAID_CHARACTERS - 1]}…"

    def target(self, url: str) -> str:
        """The path of an address in an answer, absolute or relative to this server, as ``ask`` takes it.

        Raises:
            LegError: when it is on another scheme, host or port.
        """
        base = f"{self._scheme}://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}/"
        try:
            parts = urllib.parse.urlsplit(urllib.parse.urljoin(base, url))
            same = _origin(parts) == self._origin and parts.username is None
        except ValueError:
            same = False
        if not same:
            raise LegError(f"the answer points to {self.clean(url)!r}; only {base} itself is asked", kind="crash")
        return urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))

    @contextlib.contextmanager
    def ask(  # noqa: D417 - the other arguments are as HTTP has them
        self,
        method: str,
        path: str,
        *,
        deadline: Deadline,
        limit: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        attempts: int = _CONNECT_ATTEMPTS,
        is_whole_path: bool = False,
    ) -> Iterator[Answer]:
        """Send one request, and give its answer once its headers are there and say 200, or 201 and 202 to a POST.

        Args:
            deadline: for everything, the body of the answer too.
            limit: bytes of body that may be read.
            attempts: how often to set up the connection.
            is_whole_path: whether ``path`` came from an answer, so that the base URL's own path is in it.

        Raises:
            StatusError: for another status.
            LegError: for a redirect, an answer that is not HTTP, too long, broken or late.
            InfrastructureError: for a host name that does not resolve, and 429 or 5xx of a public host.
        """
        path = path if is_whole_path else self._prefix + path
        what = f"{method} {self.clean(path)}"
        target = urllib.parse.quote(path, safe=_KEPT_IN_TARGET)

        def broken() -> contextlib.AbstractContextManager[None]:
            return self._in_words(what, deadline, patience_s=_PATIENCE_S)

        with self._in_words(what, deadline, patience_s=_PATIENCE_S if attempts > 1 else 0.0):
            connection = self._connect(deadline, attempts)
        try:
            with broken():
                connection.timeout = deadline.left_s or _TICK_S
                connection.response_class = watched(what, deadline=deadline, limit=limit, alive=self._alive)
                response = self._sent(connection, method, target, body=body, headers=headers or {})
            # One that ends with its connection owns the socket.
            with contextlib.closing(response):
                self._check(what, response, accepted=_DONE if method == "POST" else _DONE[:1])
                yield Answer(response, what=what, broken=broken)
        finally:
            connection.close()

    def _sent(
        self, connection: HTTPConnection, method: str, target: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> BaseHTTPResponse:
        """The beginning of the answer to one request."""
        own = {"Connection": "close"}
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        # A server that refuses a large body early has answered already.
        with contextlib.suppress(BrokenPipeError):
            connection.request(
                method,
                target,
                body=body,
                headers={**own, **headers, **key},
                preload_content=False,
                decode_content=False,
            )
        return connection.getresponse()

    def _connect(self, deadline: Deadline, attempts: int) -> HTTPConnection:
        kind = HTTPSConnection if self._scheme == "https" else HTTPConnection
        for attempt in range(attempts):
            connection = kind(self._host, self._port, timeout=deadline.left_s or _TICK_S)
            try:
                connection.connect()
            except (HTTPError, OSError) as error:
                connection.close()
                if attempt + 1 == attempts or not deadline.left_s or isinstance(error, ssl.SSLError):
                    raise
                time.sleep(_CONNECT_PAUSE_S)
            else:
                return connection
        raise AssertionError("there is at least one attempt")

    @contextlib.contextmanager
    def _in_words(self, what: str, deadline: Deadline, *, patience_s: float) -> Iterator[None]:
        """Turn whatever a broken connection raises into one error that says who is at fault."""
        try:
            yield
        except NameResolutionError as error:
            raise InfrastructureError(f"{what}: the host {printable(self._host)} has no address") from error
        except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
            deadline.check(what)
            self._alive(patience_s)
            # Without its cause: a traceback would show words of the server, and the key among them, as they came.
            raise LegError(f"{what}: {self.clean(_reason(error))}", kind="crash") from None

    def _check(self, what: str, response: BaseHTTPResponse, *, accepted: tuple[int, ...]) -> None:
        if 300 <= response.status < 400:
            place = self.clean(response.headers.get("location", "nowhere"))
            raise LegError(
                f"{what} redirects to {place!r} (HTTP {response.status}); redirects are not followed",
                kind="crash",
                hint="give the address itself",
            )
        if response.status not in accepted:
            message = f"{what} was answered with HTTP {response.status}{self._said(response)}"
            if response.status in _UNAVAILABLE and is_public(self._host):
                raise InfrastructureError(message)
            raise StatusError(message, status=response.status)
        if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
            raise LegError(f"{what} answers in the encoding {self.clean(encoding)!r}; none was asked for", kind="crash")

    def _said(self, response: BaseHTTPResponse) -> str:
        """What an error says: the message of its JSON, or its text."""
        try:
            data = response.read1(_ERROR_BYTES, decode_content=False)
        except (HTTPError, http.client.HTTPException, OSError, ValueError, LegError):
            return ""
        try:
            content = json.loads(data, strict=False)
        except (ValueError, RecursionError):
            content = data.decode("utf-8", "replace")
        text = self.clean(error_text(content))
        return f": {text}" if text else ""


def _blanked(text: str, key: str) -> str:
    """The text without a key, and without the beginning of one where it was cut off."""
    text = text.replace(key, "***")
    begun = range(len(key) - 1, _BEGUN_CHARACTERS - 1, -1)
    return next((text[:-length] for length in begun if text.endswith(key[:length])), text)


def error_text(content: Any) -> str:
    """The message in an error as OpenAI's servers spell it, and as others do."""
    for _ in range(3):
        if not isinstance(content, Mapping):
            break
        inner = next((content[key] for key in ("error", "detail", "message") if content.get(key)), None)
        if inner is None:
            break
        content = inner
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _reason(error: BaseException) -> str:
    # urllib3 wraps the errors of http.client, and shows them twice.
    inner = next((cause for cause in error.args if isinstance(cause, BaseException)), error)
    text = re.sub(r"<?\w+Connection\([^)]*\)>?|<urllib3[^>]*>", "", str(inner)).strip(" :")
    name = type(inner).__name__
    return f"no whole answer came ({text if text.startswith(name) else f'{name}: {text}'})"


def _origin(parts: urllib.parse.SplitResult) -> tuple[str, str, int]:
    """What must agree for two addresses to be of one server; this machine has several names."""
    host = (parts.hostname or "").lower()
    port = parts.port if parts.port is not None else _PORTS.get(parts.scheme, 0)
    return parts.scheme, "localhost" if host in _LOOPBACK else host, port
