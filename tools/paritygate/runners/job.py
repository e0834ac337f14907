"""The job that a leg's worker process reads, and what it reports to: nothing about how it is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from paritygate.manifest.case import InputMedia, Item, Output
from paritygate.records.model import OutputItem

#: What a leg and everything that it starts print, below the leg's folder.
LOG_NAME = "log.txt"
#: Where a command puts its outputs, below the leg's folder. They move to ``outputs/`` when they have been read.
DELIVERY_FOLDER = "delivery"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One leg's work. Paths are absolute strings.

    ``latents`` is a ``.npy`` of float32 ``(items, channels, height, width)`` in suite order, the same file for
    every leg, or None when each leg draws its own from the seed of the item. ``device`` is where the case runs
    (``cpu``, ``cuda``), for a leg whose ``spec`` does not say. ``python`` is the leg's interpreter, for runners whose
    worker does not run in it. ``golden`` is the local folder of the promoted golden that the leg reads, found and
    verified by preflight.
    """

    case: str
    leg: str
    runner: str
    root: str
    folder: str
    directory: str
    adapter: str | None
    spec: dict[str, Any]
    feature: str | None
    model_id: str
    model_revision: str
    model_dir: str | None
    output: Output
    inputs: tuple[InputMedia, ...]
    items: tuple[Item, ...]
    latents: str | None
    device: str
    task: str = ""
    python: str = ""
    golden: str | None = None

    @property
    def latents_path(self) -> Path | None:
        """``latents`` as a path."""
        return Path(self.latents) if self.latents else None


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """``outputs.json``: what a leg has stored so far; ``complete`` once the runner has returned."""

    complete: bool
    items: tuple[OutputItem, ...]


class Writer(Protocol):
    """What a runner or adapter reports to.

    Outputs are on disk when a call returns; the lists of outputs and settings follow within a second, and at the end
    of the leg, whatever that is.
    """

    def image(self, item_id: str, pixels: Any, *, index: int = 0) -> None:
        """Store one image.

        Args:
            item_id: the suite item that it answers.
            pixels: ``(height, width, channels)``: float32 in [0, 1], or uint8. Floats are also kept unrounded.
            index: position within the item when ``output.count`` or layers exceed one.
        """

    def video(self, item_id: str, frames: Any, *, fps: float | None = None, index: int = 0) -> None:
        """Store one clip.

        Args:
            item_id: the suite item that it answers.
            frames: ``(frames, height, width, channels)`` float32 in [0, 1], or uint8; or the path of an encoded file,
                with its sound where the case compares both.
            fps: frames a second of an array; a file states its own.
            index: position within the item when ``output.count`` exceeds one.
        """

    def audio(self, item_id: str, samples: Any, *, sample_rate_hz: int | None = None, index: int = 0) -> None:
        """Store one sound.

        Args:
            item_id: the suite item that it answers.
            samples: ``(samples, channels)`` float32 at full scale 1; or the path of a WAV or FLAC file.
            sample_rate_hz: of an array; a file states its own.
            index: as for ``video``.
        """

    def tensors(self, item_id: str, tensors: Any, *, index: int = 0) -> None:
        """Store tensors by name.

        Args:
            item_id: the suite item that they answer.
            tensors: name -> NumPy or torch tensor, in the dtype that it has; or the path of a file of tensors.
            index: as for ``video``.
        """

    def token_ids(self, item_id: str, rows: list[list[int]]) -> None:
        """The token ids that reached the text encoder, one row per prompt (unconditional first)."""

    def initial_latents(self, item_id: str, latents: Any) -> None:
        """Digest the float32 latents ``(channels, height, width)`` that entered the first step."""

    def initial_latents_digest(self, item_id: str, digest: str) -> None:
        """The digest of those latents, from whoever sampled from them: ``sha256:`` of little-endian float32 bytes."""

    def schedule(self, *, timesteps: list[int | float], sigmas: list[float] | None) -> None:
        """Timesteps and noise levels as the sampler used them, first step first."""

    def setting(self, name: str, value: str | int | float | bool | None) -> None:
        """One effective setting under a dotted name; names below ``config.`` join the exact layer.

        A number is finite; spell others as the text ``inf``, ``-inf`` or ``nan``.
        """

    def feature(self, name: str, **counters: int | float | str | bool) -> None:
        """Counters that show that an acceleration feature really ran."""

    def environment(self, name: str, value: Any) -> None:
        """A version or path worth keeping; never compared."""

    def effect(self, field: str, *, exercised: bool, detail: str) -> None:
        """Whether another value of a request key changed the output, and by how much."""

    def pending(self, *stages: str) -> None:
        """Stages that this leg could have shown and does not yet."""
