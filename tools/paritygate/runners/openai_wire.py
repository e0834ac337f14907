"""An answer as it comes over a connection: bounded in time and bytes, whoever sends it and however it is framed."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from urllib3.response import BaseHTTPResponse
from urllib3.util.wait import wait_for_read

from paritygate.errors import LegError

_TICK_S = 0.2
_PIECE_BYTES = 1 << 16
#: Status line, headers and the marks between chunks, on top of the largest body.
_OVERHEAD_BYTES = 1 << 20


class Deadline:
    """The moment when something must be over; ``words`` says what set it, such as ``request_timeout_s: 1800``."""

    def __init__(self, seconds: float, words: str) -> None:
        self.words = words
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 when it is over."""
        return max(0.0, self._end - time.monotonic())

    def check(self, what: str) -> None:
        """Nothing, while there is time.

        Raises:
            LegError: when it is over; ``what`` is what was being waited for.
        """
        if not self.left_s:
            raise LegError(f"{what} was not answered in full within {self.words}", kind="timeout")


class Answer:
    """An answer of status 200 whose body is still to be read.

    ``media_type`` is its content type in lower case without parameters, empty when it states none.
    """

    def __init__(
        self, response: BaseHTTPResponse, *, what: str, broken: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.what = what
        self.media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._response = response
        self._broken = broken

    def read(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            LegError: when it is longer than ``limit`` bytes, ends early or does not end in time.
        """
        stream = io.BytesIO()
        self.copy(stream, limit)
        return stream.getvalue()

    def copy(self, stream: BinaryIO, limit: int) -> None:
        """Write the whole body to a stream; raises as ``read``."""
        stated = self._response.headers.get("content-length", "")
        if stated.isdecimal() and int(stated[:20]) > limit:
            raise LegError(f"{self.what} would answer with {stated[:20]} bytes, at most {limit} are read", kind="crash")
        left = limit
        while piece := self._piece():
            left -= len(piece)
            if left < 0:
                raise LegError(f"{self.what} answers with more than the {limit} bytes that are read", kind="crash")
            stream.write(piece)

    def _piece(self) -> bytes:
        with self._broken():
            return self._response.read(_PIECE_BYTES, decode_content=False)


def watched(
    what: str, *, deadline: Deadline, limit: int, alive: Callable[[float], None]
) -> type[http.client.HTTPResponse]:
    """A class of responses that read no more and no longer than they may.

    Args:
        what: the request, for messages.
        deadline: for headers and body.
        limit: bytes of body that may come.
        alive: called with 0 while nothing comes; raises when nothing will.
    """

    def check(is_idle: bool) -> None:
        deadline.check(what)
        if is_idle:
            alive(0.0)

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            # Below every parser, so that headers, marks of chunks and trailers are bounded like the body.
            raw = _Watched(sock, self.fp.detach(), check=check, limit=limit, what=what)
            self.fp = io.BufferedReader(raw)

    return Response


class _Watched(io.RawIOBase):
    """The bytes of a socket, up to a limit and some for headers, and only as long as ``check`` does not raise."""

    def __init__(self, sock: socket.socket, raw: Any, *, check: Callable[[bool], None], limit: int, what: str) -> None:
        super().__init__()
        self._sock, self._raw, self._check, self._limit, self._what = sock, raw, check, limit, what
        self._left = limit + _OVERHEAD_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        is_idle = False
        while True:
            self._check(is_idle)
            # TLS may hold bytes that the socket no longer shows.
            if getattr(self._sock, "pending", int)() or wait_for_read(self._sock, timeout=_TICK_S):
                break
            is_idle = True
        count = self._raw.readinto(buffer) or 0
        self._left -= count
        if self._left < 0:
            raise LegError(f"{self._what} answers with more than the {self._limit} bytes that are read", kind="crash")
        return int(count)

    def close(self) -> None:
        self._raw.close()
        super().close()
