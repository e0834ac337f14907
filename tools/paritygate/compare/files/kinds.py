"""What a file is compared as: by its content where that can be told, else by its name, or as the user declares."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from paritygate.errors import MediaError
from paritygate.media.tensors import SUFFIXES
from paritygate.metrics.specs import Kind

#: Ending of a name -> what such files are compared as.
KIND_OF: Mapping[str, Kind] = MappingProxyType(
    {
        **dict.fromkeys((".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"), "image"),
        **dict.fromkeys((".apng", ".avi", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".webm"), "video"),
        **dict.fromkeys((".flac", ".wav"), "audio"),
        **dict.fromkeys(SUFFIXES, "tensor"),
    }
)
#: Where in the first bytes -> what stands there -> what it is compared as. PNG and WebP may be animated; see below.
_MAGIC: tuple[tuple[slice, bytes, Kind], ...] = (
    (slice(0, 8), b"\x89PNG\r\n\x1a\n", "image"),
    (slice(0, 3), b"\xff\xd8\xff", "image"),
    (slice(0, 4), b"II*\0", "image"),
    (slice(0, 4), b"MM\0*", "image"),
    (slice(8, 12), b"WEBP", "image"),
    (slice(0, 4), b"GIF8", "video"),
    (slice(0, 4), b"\x1aE\xdf\xa3", "video"),
    (slice(4, 8), b"ftyp", "video"),
    (slice(8, 12), b"AVI ", "video"),
    (slice(8, 12), b"WAVE", "audio"),
    (slice(0, 4), b"fLaC", "audio"),
    (slice(0, 6), b"\x93NUMPY", "tensor"),
)
_HEAD_BYTES = 4096
#: Bit of the flags in a VP8X chunk that says a WebP is animated.
_WEBP_ANIMATED = 0x02


def kind_of(path: Path, *, declared: Kind | None = None) -> Kind:
    """What a file, or a folder of frames, is compared as.

    Args:
        path: links to files are followed.
        declared: what the user says; the reader of that kind then judges the content.

    Raises:
        MediaError: for what is no regular file, cannot be read or is empty, for an unknown ending, and for content that
            is of another kind than the ending says.
    """
    if declared == "video" and path.is_dir():
        return declared
    head = _head(path)
    if declared is not None:
        return declared
    named = KIND_OF.get(path.suffix.lower())
    found = _kind_by_content(head)
    if named is None:
        known = " ".join(sorted(KIND_OF))
        raise MediaError(f"{path.name}: no known ending; known are {known}", kind="format")
    # Still and animated pictures share their endings.
    if found is not None and found != named and {found, named} != {"image", "video"}:
        raise MediaError(f"{path.name}: named like {named}, and its content is {found}", kind="format")
    return found or named


def _head(path: Path) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe waits for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise MediaError(f"{path.name} is not a regular file", kind="path")
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error
    if not head:
        raise MediaError(f"{path.name}: the file is empty", kind="unreadable")
    return head


def _kind_by_content(head: bytes) -> Kind | None:
    for where, magic, kind in _MAGIC:
        if head[where] == magic:
            return "video" if kind == "image" and _is_animated(head) else kind
    return None


def _is_animated(head: bytes) -> bool:
    if head.startswith(b"\x89PNG"):
        # The animation chunk comes before the pixels.
        end = head.find(b"IDAT")
        return b"acTL" in head[: end if end >= 0 else len(head)]
    return head[8:16] == b"WEBPVP8X" and bool(head[20] & _WEBP_ANIMATED) if len(head) > 20 else False
