"""One pair of images or clips: opened, held to one structure, measured on every pixel of every frame."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from paritygate.compare.dispatch import measure_images
from paritygate.compare.files.declared import Declared, laid_on, read_raw
from paritygate.compare.files.pairing import Pair
from paritygate.compare.files.result import Part, Side
from paritygate.compare.files.sides import check_same, describe, named, series, without_picture
from paritygate.compare.place import Refused
from paritygate.errors import MetricError
from paritygate.media.tensors import SUFFIXES
from paritygate.media.video import open_video
from paritygate.metrics import image, video

_Pixels = NDArray[Any]
#: Video codecs that keep every value.
_LOSSLESS_CODECS = frozenset({"apng", "ffv1", "gif", "huffyuv", "npy", "png", "rawvideo", "utvideo"})


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One open side: its facts, its frames (an image has one), and how its pixels are to be read."""

    side: Side
    frames: Iterator[_Pixels]
    mode: str
    data_range: float


@contextlib.contextmanager
def opened(path: Path, declared: Declared, *, kind: str) -> Iterator[Opened]:
    """Open an image, a clip or a folder of frames; pixels come as they are measured.

    Raises:
        MediaError: when it cannot be read, also while iterating.
    """
    if kind == "image" or declared.layout is not None:
        yield _still(path, declared) if kind == "image" else _raw(path, declared, has_frames=True)
        return
    with open_video(path) as clip:
        facts = clip.facts
        mode = _mode(facts.mode, declared)
        structure = {
            "width": facts.width,
            "height": facts.height,
            "mode": mode,
            "data_range": facts.data_range,
            "fps": facts.fps,
        }
        if declared.kind != "video":
            structure["sound"] = facts.has_audio
        stored = " ".join(filter(None, (facts.representation, facts.codec, facts.pixel_format, facts.colour)))
        is_lossy = facts.representation == "encoded" and facts.codec not in _LOSSLESS_CODECS
        notes = (*facts.notes, *_composite_note(facts.mode, declared))
        if declared.kind == "video" and facts.has_audio:
            notes = (*notes, "its sound was not compared")
        side = describe(path, structure, representation=stored, is_lossy=is_lossy, notes=notes)
        frames = (_laid(frame, facts.mode, declared, data_range=facts.data_range) for frame in clip)
        yield Opened(side=side, frames=frames, mode=mode, data_range=facts.data_range)


def compare_pictures(pair: Pair, declared: Declared) -> tuple[Part, list[str]]:
    """One pair of images or clips, measured, and notes on it.

    Raises:
        Refused: when a side cannot be read or shows nothing, and when the two are not of one structure.
    """
    with contextlib.ExitStack() as stack:
        sides = []
        for name, path in (("reference", pair.reference), ("candidate", pair.candidate)):
            with named(name):
                sides.append(stack.enter_context(opened(path, declared, kind=pair.kind)))
        reference, candidate = sides
        notes = check_same(reference.side, candidate.side, declared)
        stream = _Stream(pair, reference, candidate, declared)
        defaults = image.default_names if pair.kind == "image" else video.default_names
        names = declared.names(defaults(reference.mode), kind=pair.kind)
        try:
            found = _measured(names, stream, pair, declared)
        except MetricError as error:
            raise Refused("not-measured", error.message) from error
        stream.check_end()
    described = [side.side for side in sides]
    if pair.kind == "video":
        described = [_with_frames(side, stream.count) for side in described]
    return Part(
        name=pair.name,
        kind=pair.kind,
        keys="frame" if pair.kind == "video" else "",
        reference=described[0],
        candidate=described[1],
        is_identical=stream.equal,
        series=tuple(series(name, values) for name, values in found.items()),
    ), notes


def _measured(names: tuple[str, ...], stream: _Stream, pair: Pair, declared: Declared) -> dict[str, dict[str, Any]]:
    mode, data_range = stream.reference.mode, stream.reference.data_range
    if pair.kind == "image":
        (both,) = stream
        found = measure_images(names, *both, data_range=data_range, mode=mode)
        return {name: {"": value} for name, value in found.items()}
    clips = video.measure(names, stream, data_range=data_range, mode=mode, threads=declared.threads)
    return {
        name: {str(index): value for index, value in enumerate(values, start=video.first_frame(name))}
        for name, values in clips.items()
    }


class _Stream:
    """Pairs of frames on their way to the metrics: counted, compared for equality, and looked at for a picture."""

    def __init__(self, pair: Pair, reference: Opened, candidate: Opened, declared: Declared) -> None:
        self.reference, self.candidate = reference, candidate
        self.equal, self.count = True, 0
        self._pair, self._declared = pair, declared
        self._blank: dict[str, str] = {"reference": "no frame", "candidate": "no frame"}

    def __iter__(self) -> Iterator[tuple[_Pixels, _Pixels]]:
        sides = (self._named("reference", self.reference), self._named("candidate", self.candidate))
        for reference, candidate in video.pairs(*sides):
            self.count += 1
            self._declared.watch(self._pair.name, self.count, 0)
            # A metric would give up on NaN without saying how the sides compare; equality is asked first.
            self.equal = self.equal and bool(np.array_equal(reference, candidate))
            yield reference, candidate

    def _named(self, name: str, side: Opened) -> Iterator[_Pixels]:
        with named(name):
            for pixels in side.frames:
                if self._blank[name]:
                    self._blank[name] = without_picture(pixels, data_range=side.data_range)
                yield pixels

    def check_end(self) -> None:
        """Refuse a side that shows nothing from its first frame to its last.

        Raises:
            Refused: saying what it is instead.
        """
        for name, reason in self._blank.items():
            if reason:
                what = "it is" if self.count == 1 else f"each of its {self.count} frames shows nothing; the last one is"
                raise Refused("degenerate", f"the {name}: {what} {reason}")


def _still(path: Path, declared: Declared) -> Opened:
    if path.suffix.lower() in SUFFIXES:
        return _raw(path, declared, has_frames=False)
    from paritygate.media.image_files import read_image  # noqa: PLC0415 - arrays need no image library

    found = read_image(path)
    height, width, _ = found.pixels.shape
    mode = _mode(found.mode, declared)
    structure = {"width": width, "height": height, "mode": mode, "data_range": float(found.data_range)}
    side = describe(
        path,
        structure,
        representation="lossless pixels" if found.lossless else f"lossy {found.format}",
        is_lossy=not found.lossless,
        notes=(*found.notes, *_composite_note(found.mode, declared)),
    )
    pixels = _laid(found.pixels, found.mode, declared, data_range=found.data_range)
    return Opened(side=side, frames=iter([pixels]), mode=mode, data_range=found.data_range)


def _raw(path: Path, declared: Declared, *, has_frames: bool) -> Opened:
    raw = read_raw(path, declared, has_frames=has_frames)
    _, height, width, _ = raw.frames.shape
    mode = _mode(raw.mode, declared)
    structure = {
        "width": width,
        "height": height,
        "mode": mode,
        "data_range": raw.data_range,
    }
    note = f"layout {declared.layout}, values in [0, {raw.data_range:g}], as declared"
    notes = (note, *_composite_note(raw.mode, declared))
    side = describe(path, structure, representation="raw", notes=notes)
    frames = (_laid(np.ascontiguousarray(frame), raw.mode, declared, data_range=raw.data_range) for frame in raw.frames)
    return Opened(side=side, frames=frames, mode=mode, data_range=raw.data_range)


def _mode(mode: str, declared: Declared) -> str:
    return mode.removesuffix("A") if declared.composite else mode


def _laid(pixels: _Pixels, mode: str, declared: Declared, *, data_range: float) -> _Pixels:
    if declared.composite is None:
        return pixels
    return laid_on(pixels, mode, colour=declared.composite, data_range=data_range)[0]


def _composite_note(mode: str, declared: Declared) -> tuple[str, ...]:
    has_alpha = declared.composite is not None and mode in ("LA", "RGBA")
    return (f"its alpha was laid on {declared.composite}, as declared",) if has_alpha else ()


def _with_frames(side: Side, count: int) -> Side:
    return msgspec.structs.replace(side, structure={"frames": count, **side.structure})
