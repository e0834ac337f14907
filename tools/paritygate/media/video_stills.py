"""Clips that are many still pictures: folders of frames, and raw arrays of frames."""

from __future__ import annotations

import contextlib
import math
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from paritygate.errors import MediaError
from paritygate.media.npy import MAX_HEADER_BYTES, Header, read_header
from paritygate.media.video_facts import MODE_OF_CHANNELS, Frame, Opened, VideoFacts, check_size, cut_off

_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>[0-9]+)(?P<suffix>\.[A-Za-z0-9]+)")
_MAX_DIGITS = 18
_SHOWN = 5
# dtype in the header of a raw array -> the range its values are declared to have.
_RAW_RANGES = {"|u1": 255.0, "<f4": 1.0}


@contextlib.contextmanager
def open_folder(path: Path, *, threads: int) -> Iterator[Opened]:
    """The frames of a folder, ``<prefix><number><suffix>`` with consecutive numbers, in the order of the numbers.

    Raises:
        MediaError: for gaps, other files, links, and frames of another size, mode or depth than the first.
    """
    from paritygate.media.image_files import read_image  # noqa: PLC0415 (several formats)

    del threads  # one file after the other
    names = _in_order(path)
    first = read_image(path / names[0])
    height, width, _ = first.pixels.shape
    notes = [f"{path.name}/{names[0]} to {names[-1]}", *first.notes]
    if not first.lossless:
        notes.append(f"{first.format} is lossy")
    facts = VideoFacts(
        width=width,
        height=height,
        fps=None,
        codec=first.format,
        pixel_format=f"{first.mode} {first.pixels.dtype.name}",
        representation="frames",
        data_range=first.data_range,
        mode=first.mode,
        metadata_frames=len(names),
        notes=tuple(notes),
    )

    expected = (first.mode, first.data_range, first.pixels.shape)

    def frames() -> Iterator[Frame]:
        yield first.pixels
        for name in names[1:]:
            image = read_image(path / name)
            found = (image.mode, image.data_range, image.pixels.shape)
            if found != expected:
                raise MediaError(f"{path.name}/{name} is {found}, {names[0]} is {expected}", kind="size")
            yield image.pixels

    yield Opened(facts, frames())


def _in_order(folder: Path) -> list[str]:
    """The names of all frames, ordered by number."""
    try:
        entries = sorted(folder.iterdir())
        other = [entry.name for entry in entries if not stat.S_ISREG(entry.lstat().st_mode)]
    except OSError as error:
        raise MediaError(f"{folder.name}: {error.strerror or error}", kind="unreadable") from error
    matches = {entry.name: _NUMBERED.fullmatch(entry.name) for entry in entries if entry.name not in other}
    other += [name for name, match in matches.items() if match is None or len(match["number"]) > _MAX_DIGITS]
    if other:
        raise MediaError(f"{folder.name}: holds what is no numbered frame: {_some(other)}", kind="format")
    if not matches:
        raise MediaError(f"{folder.name}: holds no frames", kind="unreadable")
    patterns = sorted({f"{match['prefix']}<number>{match['suffix']}" for match in matches.values() if match})
    if len(patterns) > 1:
        raise MediaError(f"{folder.name}: frames are named in {len(patterns)} ways: {_some(patterns)}", kind="format")
    numbered = sorted((int(match["number"]), name) for name, match in matches.items() if match)
    numbers = [number for number, _ in numbered]
    start = numbers[0]
    for position, (number, name) in enumerate(numbered):
        if number < start + position:
            raise MediaError(f"{folder.name}: frame {number} is there twice, once as {name}", kind="format")
        if number > start + position:
            end, missing = numbers[-1], numbers[-1] - start + 1 - len(set(numbers))
            raise MediaError(
                f"{folder.name}: frame {start + position} is missing, {missing} in all between {start} and {end}",
                kind="unreadable",
            )
    return [name for _, name in numbered]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


@contextlib.contextmanager
def open_raw(path: Path, *, threads: int) -> Iterator[Opened]:
    """The frames of a ``.npy`` array ``(frames, height, width, channels)``, uint8 or float32 in [0, 1].

    Raises:
        MediaError: for other arrays, for more or fewer bytes than the header promises, and for floats outside
            [0, 1] or not finite.
    """
    del threads  # reading is all there is to do
    name = path.name
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(path.open("rb"))
            header = read_header(stream.read(MAX_HEADER_BYTES), name=name)
            held = stream.seek(0, 2) - header.start
            stream.seek(header.start)
        except OSError as error:
            raise MediaError(f"{name}: {error.strerror or error}", kind="unreadable") from error
        facts, dtype = _raw_facts(header, name=name)
        if held != dtype.itemsize * math.prod(header.shape):
            raise MediaError(f"{name}: holds {held} bytes for shape {header.shape!s:.80}", kind="unreadable")
        yield Opened(facts, _raw_frames(stream, header.shape, dtype, data_range=facts.data_range, name=name))


def _raw_facts(header: Header, *, name: str) -> tuple[VideoFacts, np.dtype[np.generic]]:
    if header.descr not in _RAW_RANGES or header.fortran_order:
        order = " in Fortran order" if header.fortran_order else ""
        raise MediaError(
            f"{name}: dtype {header.descr!r:.40}{order}, expected uint8 or little-endian float32 in C order",
            kind="format",
        )
    shape = header.shape
    if len(shape) != 4 or min(shape) < 1 or shape[3] not in MODE_OF_CHANNELS:
        raise MediaError(f"{name}: shape {shape!s:.80}, expected (frames, height, width, 1 to 4 channels)", kind="size")
    frames, height, width, channels = shape
    check_size(width, height, name=name)
    dtype: np.dtype[np.generic] = np.dtype(str(header.descr))
    facts = VideoFacts(
        width=width,
        height=height,
        fps=None,
        codec="npy",
        pixel_format=dtype.name,
        representation="raw",
        data_range=_RAW_RANGES[str(header.descr)],
        mode=MODE_OF_CHANNELS[channels],
        metadata_frames=frames,
    )
    return facts, dtype


def _raw_frames(
    stream: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[np.generic], *, data_range: float, name: str
) -> Iterator[Frame]:
    frames, *one = shape
    size = dtype.itemsize * math.prod(one)
    for index in range(frames):
        try:
            data = stream.read(size)
        except OSError as error:
            raise cut_off(name, decoded=index, promised=frames, reason=str(error)) from error
        if len(data) != size:
            raise cut_off(name, decoded=index, promised=frames, reason="the file has become shorter")
        pixels: Frame = np.frombuffer(data, dtype=dtype).reshape(one)
        # Written so that NaN is outside too.
        if dtype.kind == "f" and not (pixels.min() >= 0 and pixels.max() <= data_range):
            raise MediaError(
                f"{name}: frame {index} spans [{pixels.min():g}, {pixels.max():g}], outside the range [0, 1]",
                kind="range" if np.isfinite(pixels).all() else "non-finite",
            )
        yield pixels
