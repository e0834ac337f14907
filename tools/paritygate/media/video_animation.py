"""GIF, APNG and animated WebP, composed by Pillow (disposal, blending and partial frames as the formats say).

Pillow takes a file that ends too early for a shorter clip. The blocks of the file are walked first, so that the end is
known to be there, and the frames that it promises are counted against those that are composed.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from paritygate.errors import MediaError
from paritygate.media.images import DECODING_ERRORS
from paritygate.media.video_facts import Frame, Opened, VideoFacts, check_size, cut_off


@dataclass(frozen=True)
class _Layout:
    """What the blocks of a file say: pixels of the canvas, number of frames, bits of each value."""

    width: int
    height: int
    frames: int
    depth: int = 8


class _BrokenError(Exception):
    """The blocks contradict each other, or the file ends before they do."""


@contextlib.contextmanager
def open_animation(path: Path, *, container: str, threads: int) -> Iterator[Opened]:
    """The composed frames of an animation, as uint8 RGB, or RGBA when any pixel of any frame is not opaque.

    Args:
        path: a regular file.
        container: a key of ``_FORMATS``.
        threads: not used, composing is sequential.

    Raises:
        MediaError: for a still picture, and for anything that does not decode to its end.
    """
    del threads
    name = path.name
    try:
        with path.open("rb") as stream:
            layout = _FORMATS[container].walk(stream)
    except OSError as error:
        raise MediaError(f"{name}: {error.strerror or error}", kind="unreadable") from error
    except (_BrokenError, struct.error) as error:
        raise MediaError(
            f"{name}: truncated or damaged {container} file (its blocks do not lead to its end)", kind="unreadable"
        ) from error
    if layout.depth > 8:
        raise MediaError(f"{name}: Pillow would cut its {layout.depth} bits per value to 8", kind="mode")
    if not layout.frames:
        raise MediaError(f"{name}: a still picture, expected an animation", kind="format")
    check_size(layout.width, layout.height, name=name)
    # Opacity and durations are only known when all frames were composed once.
    opaque, durations, stored = True, [], ""
    for image, pixels in _composed(path, container=container, promised=layout.frames):
        opaque = opaque and bool((pixels[..., 3] == 255).all())
        durations.append(float(image.info.get("duration", 0)))
        stored = stored or image.mode
    mode = "RGB" if opaque else "RGBA"
    facts = VideoFacts(
        width=layout.width,
        height=layout.height,
        fps=1000 * len(durations) / sum(durations) if sum(durations) > 0 else None,
        codec=container,
        pixel_format=stored,
        colour="RGB",
        representation="encoded",
        data_range=255.0,
        mode=mode,
        metadata_frames=layout.frames,
        notes=(f"composed and converted to 8-bit {mode} by Pillow", _duration_note(durations)),
    )
    frames = _composed(path, container=container, promised=layout.frames)
    with contextlib.closing(frames):
        yield Opened(facts, (np.ascontiguousarray(pixels[..., : len(mode)]) for _, pixels in frames))


def _duration_note(durations: list[float]) -> str:
    low, high = min(durations), max(durations)
    if low != high:
        return f"variable frame rate: frames last from {low:g} to {high:g} ms"
    return f"each frame lasts {low:g} ms" if low else "the file does not state how long frames last"


def _composed(path: Path, *, container: str, promised: int) -> Generator[tuple[Any, Frame]]:
    """Each frame as Pillow's image and as RGBA pixels, as many as promised."""
    index, name = 0, path.name
    try:
        with Image.open(path, formats=[_FORMATS[container].pillow]) as image:
            # The picture that viewers without APNG show is none of the frames.
            skipped = 1 if image.info.get("default_image") else 0
            for index in range(promised):
                image.seek(index + skipped)
                yield image, np.asarray(image.convert("RGBA"))
            if getattr(image, "n_frames", 1) - skipped != promised:
                raise MediaError(
                    f"{name}: Pillow finds {image.n_frames - skipped} frames, the file has {promised}",
                    kind="unreadable",
                )
    except DECODING_ERRORS as error:
        raise cut_off(name, decoded=index, promised=promised, reason=str(error)) from error


def _take(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise _BrokenError
    return data


def _walk_gif(stream: BinaryIO) -> _Layout:
    width, height, flags = struct.unpack("<6xHHB2x", _take(stream, 13))
    _skip_colours(stream, flags)
    frames = 0
    while (kind := _take(stream, 1)) != b";":
        if kind == b",":
            frames += 1
            _skip_colours(stream, _take(stream, 9)[8])
            _take(stream, 1)  # bits of the smallest code
        elif kind == b"!":
            _take(stream, 1)  # label
        else:
            raise _BrokenError
        while size := _take(stream, 1)[0]:
            _take(stream, size)
    return _Layout(width, height, frames)


def _skip_colours(stream: BinaryIO, flags: int) -> None:
    if flags & 0x80:
        _take(stream, 3 << ((flags & 7) + 1))


def _walk_apng(stream: BinaryIO) -> _Layout:
    _take(stream, 8)
    width, height, depth, frames = 0, 0, 0, 0
    while True:
        length, kind = struct.unpack(">I4s", _take(stream, 8))
        if kind == b"IHDR":
            width, height, depth = struct.unpack(">IIB", _take(stream, 9))
            length -= 9
        elif kind == b"acTL":
            if frames:
                raise _BrokenError  # counts twice
            frames = struct.unpack(">I", _take(stream, 4))[0]
            length -= 4
            if not 0 < frames < 1 << 31:
                raise _BrokenError
        _skip(stream, length + 4)  # and the checksum
        if kind == b"IEND":
            return _Layout(width, height, frames, depth)


def _walk_webp(stream: BinaryIO) -> _Layout:
    end = struct.unpack("<4xI4x", _take(stream, 12))[0] + 8
    size, frames = (0, 0), 0
    while stream.tell() < end:
        kind, length = struct.unpack("<4sI", _take(stream, 8))
        if kind == b"VP8X":
            canvas = _take(stream, 10)
            size = 1 + int.from_bytes(canvas[4:7], "little"), 1 + int.from_bytes(canvas[7:10], "little")
            length -= 10
        frames += kind == b"ANMF"
        _skip(stream, length + length % 2)
    return _Layout(*size, frames)


def _skip(stream: BinaryIO, length: int) -> None:
    end = stream.seek(length, os.SEEK_CUR) if length >= 0 else 0
    if length < 0 or end > os.fstat(stream.fileno()).st_size:
        raise _BrokenError


@dataclass(frozen=True)
class _Format:
    pillow: str
    walk: Callable[[BinaryIO], _Layout]


_FORMATS = {
    "apng": _Format("PNG", _walk_apng),
    "gif": _Format("GIF", _walk_gif),
    "webp": _Format("WEBP", _walk_webp),
}
