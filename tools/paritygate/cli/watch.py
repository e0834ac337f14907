"""Progress for whoever waits: a bar on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from paritygate.session.progress import Progress, Watcher

_BAR_CHARACTERS = 24
#: Back to the start of the line and clear it: what stood there may have been longer.
_CLEAR = "\r\x1b[K"
#: Without a terminal, a leg says how far it is this often: a silent log looks like a hang.
_PLAIN_INTERVAL_S = 15.0


def watcher(stream: TextIO) -> Watcher:
    """A bar when the stream is a terminal, else lines."""
    return _Bar(stream) if stream.isatty() else _Lines(stream)


def settle(stream: TextIO) -> None:
    """Clear an unfinished bar before other text is printed."""
    if stream.isatty():
        click.echo(_CLEAR, file=stream, nl=False)


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, progress: Progress) -> None:
        share = progress.done / progress.total if progress.total else 0.0
        filled = round(share * _BAR_CHARACTERS)
        bar = f" [{'#' * filled}{'.' * (_BAR_CHARACTERS - filled)}]" if progress.total else ""
        count = f" {progress.done}/{progress.total}" if progress.total else ""
        is_done = progress.total > 0 and progress.done >= progress.total
        text = f"{_CLEAR}{progress.case}: {progress.stage}{bar}{count}"
        click.echo(text, file=self._stream, nl=is_done)


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._said = 0.0

    def __call__(self, progress: Progress) -> None:
        stage = f"{progress.case} {progress.stage}"
        is_done = progress.total > 0 and progress.done >= progress.total
        if stage != self._stage or is_done or time.monotonic() - self._said >= _PLAIN_INTERVAL_S:
            click.echo(str(progress), file=self._stream)
            self._stage, self._said = stage, time.monotonic()
