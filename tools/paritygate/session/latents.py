"""One float32 tensor of initial latents per run, drawn once, saved, hashed, and the same for every leg."""

from __future__ import annotations

import math
import os
from pathlib import Path

import msgspec

from paritygate.errors import ArtifactError, MediaError, PreflightError
from paritygate.manifest.case import Case, Item
from paritygate.manifest.suite import latent_shape
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps, loads
from paritygate.records.model import SHARED_LATENTS, Finding
from paritygate.records.store import write_bytes_atomic, write_text_atomic
from paritygate.runners.leg import Latents

#: How a tensor comes from an item's seed; recorded, so that another tool can draw the same.
GENERATOR = "numpy.random.Generator(PCG64(seed)).standard_normal(latent_shape, dtype=float32), one per item"
#: One tensor holds the whole suite, in memory too.
MAX_BYTES = 1 << 30


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """``shared/latents.json``: the digest of ``latents.npy`` when it was drawn, and how it was."""

    sha256: str
    generator: str


def shared_latents(case: Case, items: tuple[Item, ...], run_dir: Path) -> Latents | None:
    """The run's latents, drawn now unless another leg of this run has drawn them; None when legs seed themselves.

    Raises:
        PreflightError: when they would be larger than ``MAX_BYTES``.
        ArtifactError: when they cannot be written, or were written and cannot be read.
    """
    if case.initial_latents != "shared":
        return None
    path = run_dir / SHARED_LATENTS
    folder, note = path.parent, path.with_suffix(".json")
    if os.path.lexists(note):
        return Latents(path=path, sha256=_drawn(run_dir, note.relative_to(run_dir).as_posix()).sha256)
    data = draw(case, items)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"cannot create {folder}: {error.strerror or error}") from error
    write_bytes_atomic(path, data)
    latents = Latents(path=path, sha256=sha256_bytes(data))
    write_text_atomic(note, dumps(Drawn(sha256=latents.sha256, generator=GENERATOR)))
    return latents


def _drawn(run_dir: Path, name: str) -> Drawn:
    """What is noted of the latents that another leg of this run drew.

    Raises:
        ArtifactError: when it cannot be read.
    """
    try:
        return loads(read_contained(run_dir, name), Drawn, source=name)
    except MediaError as error:
        raise ArtifactError(f"{run_dir.name}: {error.message}", hint="use another --run-id") from error


def draw(case: Case, items: tuple[Item, ...]) -> bytes:
    """The ``.npy`` bytes of float32 ``(items, *latent_shape)``: each item's own noise, from its own seed.

    An item's latents do not depend on its neighbours, so a suite can grow without moving the pictures it had.

    Raises:
        PreflightError: when they would be larger than ``MAX_BYTES``.
    """
    shape = latent_shape(case)
    assert shape is not None, "a rule of the manifest demands latent_shape with shared latents"
    if (size := 4 * len(items) * math.prod(shape)) > MAX_BYTES:
        raise PreflightError(
            f"the shared latents of {case.id} would have {size >> 20} MiB, at most {MAX_BYTES >> 20} MiB are drawn: "
            f"{len(items)} items of the shape {list(shape)}",
            hint="correct request.latent_shape in the manifest, or make the suite smaller",
        )
    import io  # noqa: PLC0415 - beside NumPy, which loads only when a run draws

    import numpy as np  # noqa: PLC0415

    rows = [
        np.random.Generator(np.random.PCG64(int(item.request["seed"]))).standard_normal(shape, dtype=np.float32)
        for item in items
    ]
    buffer = io.BytesIO()
    np.save(buffer, np.stack(rows).astype("<f4"), allow_pickle=False)
    return buffer.getvalue()


def change(latents: Latents | None, *, when: str) -> Finding | None:
    """Why the run is invalid when the file is no longer the one that was drawn; None while it is."""
    if latents is None:
        return None
    try:
        # A leg could have put a pipe or a link there, or a file without an end.
        found = sha256_bytes(read_contained(latents.path.parents[1], SHARED_LATENTS))
    except MediaError as error:
        found = error.message
    if found == latents.sha256:
        return None
    return Finding(
        code="latents-changed",
        message=f"{SHARED_LATENTS} is not the file that was drawn ({when}): {found}, drawn {latents.sha256}",
    )


def forgery(case: Case, items: tuple[Item, ...], latents: Latents | None) -> Finding | None:
    """Why the run is invalid when the seeds do not give the latents that were noted as drawn; None when they do.

    The note lies where legs can write, so it is no proof of itself.
    """
    if latents is None or (expected := sha256_bytes(draw(case, items))) == latents.sha256:
        return None
    return Finding(
        code="latents-changed",
        message=f"{SHARED_LATENTS} is not what the seeds of the suite give: {latents.sha256}, expected {expected}",
    )
