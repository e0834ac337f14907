"""The worker's ``Writer``: outputs on disk when a call returns, their list and the settings soon after."""

from __future__ import annotations

import contextlib
import io
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from paritygate.errors import ArtifactError, printable
from paritygate.media.images import encode_png
from paritygate.media.levels import to_stored
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps
from paritygate.records.model import (
    EFFECTIVE_NAME,
    OUTPUTS_FOLDER,
    OUTPUTS_NAME,
    Effect,
    Effective,
    OutputFile,
    OutputItem,
    OutputMedia,
    Real,
)
from paritygate.records.redact import redact, redact_data
from paritygate.records.store import write_bytes_atomic, write_text_atomic
from paritygate.runners.job import Job, Outputs
from paritygate.runners.media_files import checked_pixels, store_audio, store_tensors, store_video

_T = TypeVar("_T")

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Both lists are written whole, so writing them on every call would cost the square of the suite.
_SAVE_INTERVAL_S = 1.0


class LegWriter:
    """Stores what a runner reports, as ``job.Writer`` says.

    Unknown item ids and superfluous indexes are stored like any other output: that they are not what was asked
    is for the comparison to say. What cannot be stored without changing its meaning is refused. The lists
    ``outputs.json`` and ``effective.json`` are written at most once a second and when the leg ends, so that a leg
    killed outright loses no more than its last second of them.
    """

    def __init__(self, job: Job) -> None:
        self.directory = Path(job.directory)
        self._order = {item.id: number for number, item in enumerate(job.items)}
        self._files: dict[str, dict[int, OutputFile]] = {}
        self._media: dict[str, dict[str, dict[int, OutputMedia]]] = {"video": {}, "audio": {}, "tensors": {}}
        self._effective = Effective(
            settings={}, token_ids={}, initial_latents={}, features={}, environment={}, effects={}
        )
        self._complete = False
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._save()

    def image(self, item_id: str, pixels: Any, *, index: int = 0) -> None:
        """Store one image: a lossless PNG, and float pixels also unrounded.

        Args:
            item_id: the suite item that it answers.
            pixels: ``(height, width, 1 | 3 | 4)``: float32 in [0, 1], or uint8. Values that are not finite are
                kept in the float file, so that the comparison can name them.
            index: position within the item.

        Raises:
            ValueError: for another dtype, shape or range, an unusable id, or an image stored twice.
            ArtifactError: when the files cannot be written.
        """
        name = self._stem(item_id, index, self._files, what="image")
        array = checked_pixels(pixels)
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        float_path = float_sha256 = None
        if array.dtype == np.float32:
            float_path, float_sha256 = f"{name}.npy", self._store(f"{name}.npy", npy_bytes(array))
        path, sha256 = f"{name}.png", self._store(f"{name}.png", encode_png(to_stored(array)))
        file = OutputFile(path=path, sha256=sha256, float_path=float_path, float_sha256=float_sha256)
        with self._change():
            self._files.setdefault(item_id, {})[index] = file

    def video(self, item_id: str, frames: Any, *, fps: float | None = None, index: int = 0) -> None:
        """Store one clip: an array of frames at ``fps``, unrounded, or an encoded file as it is.

        Raises:
            ValueError: as ``store_video``, for an unusable id, or a clip stored twice.
            ArtifactError: when the file cannot be written.
        """
        stem = self._stem(item_id, index, self._media["video"], what="video")
        self._add(item_id, index, store_video(self.directory, stem, frames, fps=fps))

    def audio(self, item_id: str, samples: Any, *, sample_rate_hz: int | None = None, index: int = 0) -> None:
        """Store one sound: an array of samples at ``sample_rate_hz``, or a WAV or FLAC file as it is.

        Raises:
            ValueError: as ``store_audio``, for an unusable id, or a sound stored twice.
            ArtifactError: when the file cannot be written.
        """
        stem = self._stem(item_id, index, self._media["audio"], what="audio")
        self._add(item_id, index, store_audio(self.directory, stem, samples, sample_rate_hz=sample_rate_hz))

    def tensors(self, item_id: str, tensors: Any, *, index: int = 0) -> None:
        """Store tensors by name, in their own dtypes, or a file of them.

        Raises:
            ValueError: as ``store_tensors``, for an unusable id, or tensors stored twice.
            ArtifactError: when the file cannot be written.
        """
        stem = self._stem(item_id, index, self._media["tensors"], what="tensors")
        self._add(item_id, index, store_tensors(self.directory, stem, tensors))

    def token_ids(self, item_id: str, rows: list[list[int]]) -> None:
        """The token ids that reached the text encoder, one row per prompt (unconditional first)."""
        plain = [[int(token) for token in row] for row in rows]
        with self._change():
            self._effective.token_ids[item_id] = plain

    def initial_latents(self, item_id: str, latents: Any) -> None:
        """Digest the float32 latents of one item, without a batch axis, that entered the first step.

        Raises:
            ValueError: for another dtype; converting is the caller's decision.
        """
        digest = latents_digest(np.asarray(latents))
        with self._change():
            self._effective.initial_latents[item_id] = digest

    def initial_latents_digest(self, item_id: str, digest: str) -> None:
        """``latents_digest`` as the engine that sampled from them computed it; another text is a ``ValueError``."""
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{printable(digest[:80])!r} is no digest; expected sha256: and 64 hexadecimal digits")
        with self._change():
            self._effective.initial_latents[item_id] = digest

    def schedule(self, *, timesteps: list[int | float], sigmas: list[float] | None) -> None:
        """Timesteps and noise levels as the sampler used them, first step first; no timesteps are not shown ones.

        Raises:
            ValueError: when they differ from what an earlier item used: one run has one schedule.
        """
        steps = [_number(step) for step in timesteps]
        levels = None if sigmas is None else [Real(sigma) for sigma in sigmas]
        before = self._effective
        if before.timesteps is not None and (before.timesteps, before.sigmas) != (steps, levels):
            raise ValueError(f"the schedule changed between items, from {before.timesteps} to {steps}")
        with self._change():
            self._effective = msgspec.structs.replace(before, timesteps=steps or None, sigmas=levels)

    def setting(self, name: str, value: str | int | float | bool | None) -> None:
        """One effective setting under a dotted name.

        Raises:
            ValueError: for a value that is not a JSON scalar, and for infinity and NaN: spell those ``"inf"``,
                ``"-inf"`` and ``"nan"``.
        """
        plain = _scalar(name, value)
        with self._change():
            self._effective.settings[name] = redact(plain) if isinstance(plain, str) else plain

    def feature(self, name: str, **counters: int | float | str | bool) -> None:
        """Counters that show that an acceleration feature really ran; later calls replace equal names."""
        scalars = {key: _scalar(f"{name}.{key}", value) for key, value in counters.items()}
        with self._change():
            self._effective.features.setdefault(name, {}).update(
                {key: value for key, value in scalars.items() if value is not None}
            )

    def environment(self, name: str, value: Any) -> None:
        """A version or path worth keeping; never compared."""
        plain = redact_data(value)
        dumps(plain)  # here, where the caller's line shows, and not when the file is written
        with self._change():
            self._effective.environment[name] = plain

    def effect(self, field: str, *, exercised: bool, detail: str) -> None:
        """Whether another value of a request key changed the output; ``detail`` says by how much."""
        with self._change():
            self._effective.effects[field] = Effect(exercised=exercised, detail=redact(detail))

    def pending(self, *stages: str) -> None:
        """Stages that could have been shown and are not there yet."""
        with self._change():
            listed = tuple(dict.fromkeys((*self._effective.pending, *stages)))
            self._effective = msgspec.structs.replace(self._effective, pending=listed)

    def finish(self, *, complete: bool) -> None:
        """Write both lists; ``complete`` says that the runner has returned, without it the leg counts as broken.

        Raises:
            ArtifactError: when they cannot be written.
        """
        with self._lock:
            self._complete = complete
            self._save()

    def _stem(self, item_id: str, index: int, stored: Mapping[str, Mapping[int, object]], *, what: str) -> str:
        """The path of an output without its ending, when it can be one and is not there yet."""
        if not _SAFE_ID.fullmatch(item_id):
            raise ValueError(f"{item_id!r} is no item id; use the ids of job.items")
        if index in stored.get(item_id, {}):
            raise ValueError(f"{what} {index} of item {item_id} was stored before; an output is written once")
        return f"{OUTPUTS_FOLDER}/{item_id}/{index}"

    def _add(self, item_id: str, index: int, media: OutputMedia) -> None:
        with self._change():
            self._media[media.role].setdefault(item_id, {})[index] = media

    def _store(self, name: str, data: bytes) -> str:
        write_bytes_atomic(self.directory / name, data, durable=False)
        return sha256_bytes(data)

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """Change what is listed; it is saved now, or later when the last time was less than a second ago."""
        with self._lock:
            yield
            wait = self._saved + _SAVE_INTERVAL_S - time.monotonic()
            if wait <= 0:
                self._save()
            elif self._timer is None:
                self._timer = threading.Timer(wait, self._save_late)
                self._timer.daemon = True
                self._timer.start()

    def _save_late(self) -> None:
        # A full disk is reported by the next call, or by ``finish``.
        with self._lock, contextlib.suppress(ArtifactError):
            if self._timer is not None:
                self._save()

    def _save(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Suite order first, whatever the order of the calls; unknown items last.
        known = set(self._files).union(*self._media.values())
        ids = sorted(known, key=lambda item: (self._order.get(item, len(self._order)), item))
        items = tuple(
            OutputItem(
                id=item,
                images=_by_index(self._files.get(item, {})),
                media=tuple(media for stored in self._media.values() for media in _by_index(stored.get(item, {}))),
            )
            for item in ids
        )
        text = dumps(Outputs(complete=self._complete, items=items))
        write_text_atomic(self.directory / OUTPUTS_NAME, text, durable=False)
        write_text_atomic(self.directory / EFFECTIVE_NAME, dumps(self._effective), durable=False)
        self._saved = time.monotonic()


def _by_index(stored: Mapping[int, _T]) -> tuple[_T, ...]:
    return tuple(stored[index] for index in sorted(stored))


def npy_bytes(array: NDArray[Any]) -> bytes:
    """The ``.npy`` file of an array in little-endian C order."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")), allow_pickle=False)
    return buffer.getvalue()


def latents_digest(latents: NDArray[Any]) -> str:
    """The sha256 of latents as little-endian float32 bytes in C order.

    Raises:
        ValueError: for another dtype, and for latents that are not finite: equal digests of NaN would prove nothing.
    """
    if latents.dtype != np.float32:
        raise ValueError(f"initial latents are {latents.dtype}; expected float32 (convert explicitly)")
    if not np.isfinite(latents).all():
        raise ValueError("initial latents are not finite; no comparison could begin from them")
    return sha256_bytes(np.ascontiguousarray(latents, dtype="<f4").tobytes())


def _number(value: Any) -> int | float:
    number = float(value)
    return int(number) if number.is_integer() else number


def _scalar(name: str, value: Any) -> str | int | float | bool | None:
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, (str, int, float, bool)):
        raise ValueError(f"{name} is {type(value).__name__}; a setting is text, a number, a truth value or None")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"{name} is {plain}; a setting is finite, spell this one as the text '{plain}'")
    return plain
