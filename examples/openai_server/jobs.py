"""One worker thread, and the clips that it makes while clients poll."""

from __future__ import annotations

import asyncio
import functools
import itertools
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from openai_server.engine import Engine, Task
from openai_server.media import mp4
from openai_server.refusal import Refusal

_Made = TypeVar("_Made")
#: Generations that may wait, and clips and pictures that are kept; the oldest go first.
MOST_WAITING = 32
MOST_KEPT = 64


class Worker:
    """Generates one request after the other, away from the event loop."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._pool = ThreadPoolExecutor(1, "generate", initializer=engine.use_threads)
        self._waiting = 0

    def submit(self, work: Callable[[], _Made]) -> Future[_Made]:
        """Queue a generation; called in the event loop.

        Raises:
            Refusal: when too many wait.
        """
        if self._waiting >= MOST_WAITING:
            raise Refusal("too many requests are waiting", status=429, code="rate_limit_exceeded")
        loop = asyncio.get_running_loop()
        self._waiting += 1
        future = self._pool.submit(work)
        future.add_done_callback(lambda _done: loop.call_soon_threadsafe(self._done))
        return future

    def close(self) -> None:
        """Give up what runs and waits. The thread ends at its next step, which may take minutes."""
        self.engine.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self) -> None:
        self._waiting -= 1


class Clip:
    """One job: ``status`` is queued, in_progress, completed or failed; ``content`` is the file once it is completed."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.id = f"video_{secrets.token_hex(12)}"
        self.created_at = int(time.time())
        self.fields = fields
        self.status, self.share, self.content = "queued", 0.0, b""

    @property
    def state(self) -> dict[str, Any]:
        """The JSON that tells a client how far it is."""
        error = {"code": "generation_failed", "message": "the clip could not be made; see the log of the server"}
        return {
            "id": self.id,
            "object": "video",
            "model": self.fields.get("model"),
            "created_at": self.created_at,
            "status": self.status,
            "progress": int(100 * self.share),
            "error": error if self.status == "failed" else None,
        }


class Clips:
    """The jobs of the server, by id."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._clips: dict[str, Clip] = {}

    def start(self, task: Task, fields: dict[str, Any]) -> dict[str, Any]:
        """Queue a clip: its state as it is then.

        Raises:
            Refusal: when too many wait.
        """
        clip = Clip(fields)
        state = clip.state
        future = self._worker.submit(functools.partial(_make, self._worker.engine, task, clip))
        future.add_done_callback(functools.partial(_settle, clip))
        self._clips[clip.id] = clip
        ended = [known.id for known in self._clips.values() if known.status in ("completed", "failed")]
        for old in itertools.islice(ended, max(0, len(self._clips) - MOST_KEPT)):
            del self._clips[old]
        return state

    def find(self, name: str) -> Clip:
        """The job of an id.

        Raises:
            Refusal: when there is none.
        """
        if name not in self._clips:
            raise Refusal("there is no such video", status=404, code="not_found")
        return self._clips[name]


def _make(engine: Engine, task: Task, clip: Clip) -> bytes:
    def on_progress(share: float) -> None:
        clip.share = share

    clip.status = "in_progress"
    return mp4(engine.generate(task, on_progress), fps=clip.fields["fps"])


def _settle(clip: Clip, done: Future[bytes]) -> None:
    if done.cancelled() or done.exception() is not None:
        clip.status = "failed"
        if not done.cancelled():
            print(f"error: {clip.id}: {done.exception()!r}", flush=True)
        return
    clip.content, clip.share = done.result(), 1.0
    clip.status = "completed"
