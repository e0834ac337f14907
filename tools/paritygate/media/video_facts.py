"""What is stated of a clip, whatever kind of file it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from paritygate.errors import MediaError
from paritygate.media.images import MAX_PIXELS

#: One frame: ``(height, width, channels)``.
Frame = NDArray[Any]
#: channels of a frame -> its mode.
MODE_OF_CHANNELS = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, kw_only=True)
class VideoFacts:
    """The declared structure of a clip, the same for each of its frames.

    ``width`` and ``height`` in pixels; ``fps``, the mean frame rate, None where nothing states one (folders, raw
    arrays). ``codec`` and ``pixel_format`` are those of the stored frames, ``colour`` their range and matrix; the
    arrays that are read have ``data_range`` (255, 65535 or 1.0) and ``mode`` (L, LA, RGB or RGBA).
    ``representation``: ``encoded`` for a video file, ``frames`` for a folder of images, ``raw`` for an array.
    ``metadata_frames`` is what the file claims, None when it claims nothing: the number of frames is what reading
    them yields. ``notes`` tell what was done to the stored frames, for people.
    """

    width: int
    height: int
    fps: float | None
    codec: str
    pixel_format: str
    colour: str = ""
    representation: Literal["encoded", "frames", "raw"]
    data_range: float
    mode: str
    metadata_frames: int | None
    has_audio: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opened:
    """An open clip: its facts, and its frames as they are decoded."""

    facts: VideoFacts
    frames: Iterator[Frame]


def check_size(width: int, height: int, *, name: str) -> None:
    """Refuse a frame from its header, before anything is decoded.

    Raises:
        MediaError: ``kind="size"``.
    """
    if not 0 < width * height <= MAX_PIXELS:
        raise MediaError(f"{name}: claims {width}x{height} pixels, at most {MAX_PIXELS} are read", kind="size")


def cut_off(name: str, *, decoded: int, promised: int | None, reason: str) -> MediaError:
    """The error for a clip that stops before its end, with both counts where there are two."""
    counts = f"{decoded} {'frame was' if decoded == 1 else 'frames were'} decoded"
    if promised is not None:
        counts += f", its metadata promises {promised}"
    return MediaError(f"{name}: truncated or damaged: {counts} ({reason})", kind="unreadable")
