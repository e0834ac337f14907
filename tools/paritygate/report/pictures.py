"""Pictures for a report: reference, candidate and their amplified difference side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError
from paritygate.manifest.case import Case
from paritygate.media.images import decode_image, encode_png
from paritygate.media.levels import to_stored
from paritygate.media.paths import contained, read_contained
from paritygate.metrics.specs import SPECS
from paritygate.metrics.specs.spec import PICTURES
from paritygate.records.model import MeasurementResult, RunRecord, Status
from paritygate.records.store import write_bytes_atomic

#: Where pictures lie, relative to the run directory.
FOLDER = "pictures"
#: Small images are enlarged by a whole factor until their longer side reaches this many pixels.
ENLARGE_TO = 256
#: The difference is multiplied by the largest power of two that keeps it within range, up to this.
MAX_AMPLIFICATION = 128
#: At most this many pairs are shown.
MAX_PAIRS = 3

_GAP = 8
_UNSAFE = re.compile(r"[^A-Za-z0-9-]")
_Bytes = NDArray[np.uint8]
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture on disk. ``key`` is ``<item>/<index>``, of a clip with ``/<frame>``; ``path`` lies in the run."""

    key: str
    path: str
    measurements: tuple[str, ...]
    enlargement: int
    amplification: int
    largest_difference: int


def draw_worst_pairs(record: RunRecord, run_dir: Path, case: Case) -> tuple[tuple[Picture, ...], tuple[str, ...]]:
    """Draw the worst pair of each measurement (one picture for each distinct pair); of a clip, the worst frame.

    Returns:
        The pictures, and one sentence for each pair that could not be drawn.

    Raises:
        ArtifactError, OSError: when ``run_dir`` cannot be written.
    """
    if case.output.kind in ("audio", "tensors"):
        return (), ()
    worst = list(worst_keys(record).items())[:MAX_PAIRS]
    drawn = [_draw(record, run_dir, case, key=key, measurements=measurements) for key, measurements in worst]
    pictures = tuple(picture for picture in drawn if isinstance(picture, Picture))
    return pictures, tuple(reason for reason in drawn if isinstance(reason, str))


def worst_keys(record: RunRecord) -> dict[str, tuple[str, ...]]:
    """Place of a picture -> the measurements that are worst there; or the invalid items. Missed bounds first.

    Empty when a leg broke: its missing outputs are explained by the leg's own section.
    """
    if record.verdict.status is Status.ERROR:
        return {}
    missed = {bound.measurement for bound in record.verdict.bounds if not bound.satisfied}
    seen = [entry for entry in record.comparison.measurements if _is_seen(entry)]
    entries = sorted(seen, key=lambda entry: entry.id not in missed)
    # Where some pairs differ, equal pairs are nothing to look at.
    lossy = [entry for entry in entries if not _equal_at_worst(entry)]
    found: dict[str, tuple[str, ...]] = {}
    for entry in lossy or entries:
        if entry.worst_item:
            found[entry.worst_item] = (*found.get(entry.worst_item, ()), entry.id)
    for finding in record.comparison.invalid:
        if finding.item is not None:
            found.setdefault(f"{finding.item}/0", ())
    ranked = sorted(found.items(), key=lambda pair: (missed.isdisjoint(pair[1]), -len(pair[1])))
    return dict(ranked)


def _is_seen(entry: MeasurementResult) -> bool:
    """Whether a picture can show what was measured, not a sound; taken for granted of a metric of a newer version."""
    spec = SPECS.get(entry.metric)
    return spec is None or not set(PICTURES).isdisjoint(spec.kinds)


def _equal_at_worst(entry: MeasurementResult) -> bool:
    """Whether even the worst pair is equal; unknown for a metric of a newer version."""
    spec = SPECS.get(entry.metric)
    return spec is not None and entry.values.get(entry.worst_item) == spec.identical


def worst_pair_picture(
    reference: _Bytes, candidate: _Bytes, *, key: str, measurements: tuple[str, ...], run_dir: Path
) -> Picture:
    """Draw one pair of equal ``(height, width, channels)`` uint8 images and store it.

    Raises:
        MediaError: when the shapes differ; nothing is resized to fit.
        ArtifactError, OSError: when the file cannot be written.
    """
    if reference.shape != candidate.shape:
        raise MediaError(f"the reference is {reference.shape}, the candidate {candidate.shape}", kind="size")
    difference = np.abs(reference.astype(np.int16) - candidate.astype(np.int16))
    largest = int(difference.max())
    factor = amplification(largest)
    if difference.shape[2] == 4:
        # A picture of a difference has no transparency: the alpha channel counts like a colour.
        difference = difference.max(axis=2, keepdims=True)
    amplified = np.minimum(difference * factor, 255).astype(np.uint8)
    scale = max(1, ENLARGE_TO // max(reference.shape[:2]))
    canvas = _beside([_enlarged(to_rgb(image), scale) for image in (reference, candidate, amplified)])
    path = run_dir / FOLDER / f"worst-{_UNSAFE.sub('-', key)[:80]}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(path, encode_png(canvas))
    return Picture(
        key=key,
        path=f"{FOLDER}/{path.name}",
        measurements=measurements,
        enlargement=scale,
        amplification=factor,
        largest_difference=largest,
    )


def amplification(largest: int) -> int:
    """The largest power of two that keeps ``largest`` levels within 255; 1 when there is no difference."""
    factor = 1
    while largest and factor < MAX_AMPLIFICATION and largest * factor * 2 <= 255:
        factor *= 2
    return factor


def _draw(record: RunRecord, run_dir: Path, case: Case, *, key: str, measurements: tuple[str, ...]) -> Picture | str:
    try:
        reference, candidate = (_load(record, run_dir, case, leg, key) for leg in ("reference", "candidate"))
        return worst_pair_picture(reference, candidate, key=key, measurements=measurements, run_dir=run_dir)
    except MediaError as error:
        return f"no picture of {key}: {error.message}"


def _load(record: RunRecord, run_dir: Path, case: Case, leg_name: str, key: str) -> _Bytes:
    item_id, _, place = key.partition("/")
    index, _, frame = place.partition("/")
    leg = next((leg for leg in record.legs if leg.name == leg_name), None)
    item = next((item for item in leg.items if item.id == item_id), None) if leg else None
    if item is None:
        raise MediaError(f"the {leg_name} leg has no such output", kind="unreadable")
    if case.output.has_video:
        clip = _at([media for media in item.media if media.role == "video"], index, leg=leg_name)
        return _frame(contained(run_dir / leg_name, clip.path), frame or "0", leg=leg_name)
    image = _at(item.images, index, leg=leg_name)
    return decode_image(read_contained(run_dir / leg_name, image.path), mode=case.output.mode, name=image.path)


def _at(entries: Iterable[_T], index: str, *, leg: str) -> _T:
    """The entry of that index. A record may have been edited: the index is any text, and -1 would be the last one.

    Raises:
        MediaError: when there is none.
    """
    found = next((entry for position, entry in enumerate(entries) if str(position) == index), None)
    if found is None:
        raise MediaError(f"the {leg} leg has no such image", kind="unreadable")
    return found


def _frame(path: Path, index: str, *, leg: str) -> _Bytes:
    from paritygate.media.video import open_video  # noqa: PLC0415 - only for clips

    with open_video(path) as clip:
        return to_stored(_at(clip, index, leg=leg))


def to_rgb(image: _Bytes) -> _Bytes:
    """Grey or RGBA to RGB for display; RGBA lies on mid-grey, so that transparency shows."""
    if image.shape[2] == 4:
        alpha = image[..., 3:].astype(np.float64) / 255
        return np.rint(image[..., :3] * alpha + 128 * (1 - alpha)).astype(np.uint8)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def _enlarged(image: _Bytes, scale: int) -> _Bytes:
    return image.repeat(scale, axis=0).repeat(scale, axis=1)


def _beside(images: list[_Bytes]) -> _Bytes:
    gap: NDArray[Any] = np.full((images[0].shape[0], _GAP, 3), 255, np.uint8)
    return np.concatenate([images[0], gap, images[1], gap, images[2]], axis=1)
