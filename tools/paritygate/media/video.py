"""Clips, file -> frames: decoded in process, one frame at a time, as they are stored or refused.

MP4, WebM, MKV and AVI need the extra ``video``; GIF, APNG, animated WebP, folders of frames and raw ``.npy`` arrays
do not. What a file is, is read from its first bytes, not from its name.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from paritygate.errors import MediaError
from paritygate.media.video_animation import open_animation
from paritygate.media.video_encoded import open_encoded
from paritygate.media.video_facts import Frame, Opened, VideoFacts
from paritygate.media.video_stills import open_folder, open_raw

__all__ = ["VideoFacts", "VideoFile", "open_video"]

_Opener = Callable[..., AbstractContextManager[Opened]]
_QUICKTIME = functools.partial(open_encoded, container="mov")
# Where in the first bytes -> what stands there -> who opens it.
_OPENERS: tuple[tuple[slice, bytes, _Opener], ...] = (
    (slice(0, 6), b"\x93NUMPY", open_raw),
    (slice(0, 4), b"GIF8", functools.partial(open_animation, container="gif")),
    (slice(0, 8), b"\x89PNG\r\n\x1a\n", functools.partial(open_animation, container="apng")),
    (slice(8, 12), b"WEBP", functools.partial(open_animation, container="webp")),
    (slice(8, 12), b"AVI ", functools.partial(open_encoded, container="avi")),
    (slice(0, 4), b"\x1aE\xdf\xa3", functools.partial(open_encoded, container="matroska")),
    *((slice(4, 8), kind, _QUICKTIME) for kind in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")),
)
_READ = "MP4, WebM, MKV, AVI, GIF, APNG, animated WebP, .npy and folders of frames"


class VideoFile:
    """An open clip. Its frames, ``(height, width, channels)``, are read once, in order, while they are iterated."""

    def __init__(self, opened: Opened, *, name: str) -> None:
        self.facts = opened.facts
        self.name = name
        self._frames: Iterator[Frame] | None = opened.frames

    def __iter__(self) -> Iterator[Frame]:
        """The frames.

        Raises:
            MediaError: while iterating, when the clip does not decode to its end; and at a second pass, which would
                see no frames.
        """
        frames, self._frames = self._frames, None
        if frames is None:
            raise MediaError(f"{self.name}: its frames have been read; open it again", kind="unreadable")
        return frames


@contextlib.contextmanager
def open_video(path: Path, *, threads: int = 1) -> Iterator[VideoFile]:
    """Open a clip; the frames are decoded while they are iterated, and none is kept.

    Frames are never resized, rotated, dropped or repeated. Stored YUV becomes 8-bit RGB, which the facts say.

    Args:
        path: a file, or a folder of numbered images.
        threads: threads of the decoder.

    Yields:
        The open clip, whose first frame is known to decode.

    Raises:
        MediaError: on opening or while iterating, one clear reason whatever is wrong; a clip that ends before its
            end is refused with the number of frames that were decoded.
        ModuleNotFoundError: when the format needs PyAV (extra ``video``) and it is not installed.
    """
    with _opener(path)(path, threads=threads) as opened:
        yield VideoFile(opened, name=path.name)


def _opener(path: Path) -> _Opener:
    try:
        if path.is_dir():
            return open_folder
        if not path.is_file():
            raise MediaError(f"{path.name} is no regular file and no folder", kind="path")
        with path.open("rb") as stream:
            head = stream.read(16)
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error
    for place, magic, opener in _OPENERS:
        if head[place] == magic:
            return opener
    content = "its content is no known video format" if head else "the file is empty"
    raise MediaError(f"{path.name}: {content}; read are {_READ}", kind="format" if head else "unreadable")
