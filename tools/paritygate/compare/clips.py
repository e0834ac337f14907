"""One pair of clips of a request: frames stream past the checks into the metrics, and none is kept."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.compare.checklist import counted
from paritygate.compare.measure import DATA_RANGES, Values, wanted_metrics
from paritygate.compare.pixels import degenerate
from paritygate.compare.place import Place, Refused, Side, verified_file
from paritygate.errors import MetricError
from paritygate.manifest.case import Measurement, Output
from paritygate.media.levels import to_stored
from paritygate.media.video import VideoFile, open_video
from paritygate.media.video_facts import VideoFacts
from paritygate.metrics import video
from paritygate.metrics.values import Value, refused
from paritygate.records.model import Finding, OutputMedia

_Frame = NDArray[Any]
#: Frame rates are equal when they differ by no more than this share: 24 is not 23.976, and 29.97 is 30000/1001.
FPS_TOLERANCE = 5e-4
#: Facts of encoded clips that both sides must share: written RGB is read back otherwise where one of them differs.
_STORED = ("codec", "colour", "pixel_format")


def compare_clips(
    place: Place, measurements: tuple[Measurement, ...], into: Values | None
) -> tuple[list[Finding], bool]:
    """Findings about one pair of clips, and whether all their frames are equal as they are measured.

    Args:
        place: which pair.
        measurements: what the case measures; those on frames and transitions count here.
        into: where the numbers go, keyed ``<item>/<index>/<frame>``; None to check only.
    """
    wanted = wanted_metrics(measurements, ("video",)) if into is not None else {}
    equal = True
    try:
        files = [_verified(side, place) for side in place.sides]
        for pixels, names in (wanted or {"stored": ()}).items():
            equal &= _one_pass(place, files, names, pixels=pixels, into=into)
    except Refused as refusal:
        return [place.finding(refusal)], False
    return [], equal


def _verified(side: Side, place: Place) -> tuple[Path, OutputMedia]:
    media = side.media("video", place.index)
    with side.named():
        return verified_file(side, media, place.output), media


def _one_pass(
    place: Place, files: list[tuple[Path, OutputMedia]], names: tuple[str, ...], *, pixels: str, into: Values | None
) -> bool:
    """Decode both clips once, in step; whether all frames are equal.

    Raises:
        Refused: for the first thing that makes a side incomparable. Nothing is kept in ``into`` then.
    """
    with contextlib.ExitStack() as stack:
        sides = []
        for side, (path, media) in zip(place.sides, files, strict=True):
            with side.named():
                clip = stack.enter_context(open_video(path))
                check_facts(clip, media, place.output)
            sides.append(_Watched(side, clip, place.output, pixels=pixels))
        _keep_stored(place, *(watched.clip.facts for watched in sides))
        pairs = _Pairs(video.pairs(*sides))
        lacking = " and the ".join(watched.side.leg for watched in sides if watched.lacks_floats)
        if lacking:
            found = _refused(names, f"no float pixels from the {lacking} leg")
            _drain(pairs)
        else:
            found = _measured(names, pairs, data_range=DATA_RANGES[pixels], mode=place.output.mode)
        for watched in sides:
            watched.check_end()
    if into is not None:
        for name, values in found.items():
            for frame, value in enumerate(values, start=video.first_frame(name)):
                into.add(f"{place.key}/{frame}", {name: value}, pixels=pixels)
    return pairs.equal


def _keep_stored(place: Place, reference: VideoFacts, candidate: VideoFacts) -> None:
    """Keep how two encoded clips are stored, for the checklist."""
    if place.output.compared_as == "encoded":
        for name in _STORED:
            values = (getattr(reference, name), getattr(candidate, name))
            place.stored.setdefault(f"output.{name}", []).append(values)


def _measured(names: tuple[str, ...], pairs: _Pairs, *, data_range: float, mode: str) -> dict[str, tuple[Value, ...]]:
    try:
        return video.measure(names, pairs, data_range=data_range, mode=mode)
    except MetricError as error:
        _drain(pairs)
        return _refused(names, error.message)


def _drain(pairs: _Pairs) -> None:
    """Read both clips to their ends, for the checks; what lengths they have is one of those."""
    with contextlib.suppress(MetricError):
        collections.deque(pairs, maxlen=0)


def _refused(names: tuple[str, ...], reason: str) -> dict[str, tuple[Value, ...]]:
    return dict.fromkeys(names, (refused(reason),))


def check_facts(clip: VideoFile, media: OutputMedia, output: Output) -> None:
    """Refuse a clip that is not of the declared structure; its frames are counted while they pass.

    Raises:
        Refused: naming what was found and what is declared.
    """
    facts = clip.facts
    stored_as = "raw" if facts.representation == "raw" else "encoded"
    if stored_as != media.representation:
        raise Refused("representation", f"{media.path} was recorded as {media.representation}, and it is {stored_as}")
    wanted = (output.width or facts.width, output.height or facts.height)
    if (facts.width, facts.height) != wanted:
        found = f"{facts.width}x{facts.height}, declared {wanted[0]}x{wanted[1]}"
        raise Refused("size", f"{media.path} is {found}; nothing is resized")
    if facts.mode != output.mode:
        raise Refused("mode", f"{media.path} holds {facts.mode} frames, the declared mode is {output.mode}")
    if facts.data_range not in DATA_RANGES.values():
        raise Refused("mode", f"{media.path} holds frames of more than 8 bits, which are no float pixels")
    fps = media.fps if stored_as == "raw" else facts.fps
    if output.fps is not None and (fps is None or abs(fps - output.fps) > FPS_TOLERANCE * output.fps):
        found = "states no frame rate" if fps is None else f"has {fps:g} frames a second"
        raise Refused("fps", f"{media.path} {found}, declared {output.fps:g}")


class _Watched:
    """The frames of one clip as they are measured, checked and counted on the way."""

    def __init__(self, side: Side, clip: VideoFile, output: Output, *, pixels: str) -> None:
        self.side, self.clip, self._output, self._pixels = side, clip, output, pixels
        self.lacks_floats = pixels == "float" and clip.facts.data_range != DATA_RANGES["float"]
        self._count = 0
        self._blank: str | None = None

    def __iter__(self) -> Iterator[_Frame]:
        with self.side.named():
            for frame in self.clip:
                stored = to_stored(frame) if self._pixels == "stored" or self._blank != "" else None
                if self._blank != "" and stored is not None:
                    self._blank = degenerate(stored)
                self._count += 1
                yield frame if self._pixels == "float" or stored is None else stored

    def check_end(self) -> None:
        """Refuse a clip of another length than declared, and one that shows nothing from its first frame to its last.

        Raises:
            Refused: saying which.
        """
        with self.side.named():
            if self._output.frames not in (None, self._count):
                found = f"holds {counted(self._count, 'frame')}, declared {self._output.frames}"
                raise Refused("frames", f"{found}; nothing is cut or repeated")
            if self._blank:
                raise Refused("degenerate", f"every frame is without a picture; the last one is {self._blank}")


class _Pairs:
    """Pairs of frames on their way to the metrics; ``equal`` until one differs."""

    def __init__(self, pairs: Iterable[tuple[_Frame, _Frame]]) -> None:
        self._pairs = pairs
        self.equal = True

    def __iter__(self) -> Iterator[tuple[_Frame, _Frame]]:
        for reference, candidate in self._pairs:
            self.equal = self.equal and np.array_equal(reference, candidate)
            yield reference, candidate
