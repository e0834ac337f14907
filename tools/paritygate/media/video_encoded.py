"""MP4, WebM, MKV and AVI, decoded in process by the FFmpeg libraries that PyAV brings.

The container is chosen by the first bytes and forced, so that no playlist can make FFmpeg open another file. Decoders
conceal damage by default; here every error, corrupt packet and corrupt frame ends the reading.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from paritygate.errors import MediaError
from paritygate.media.video_ends import missing_bytes
from paritygate.media.video_facts import Frame, Opened, VideoFacts, check_size, cut_off
from paritygate.media.video_timing import frame_rate

#: Decoder options: abort on any error, and check what checksums there are.
STRICT = {"err_detect": "crccheck+explode"}
_UPRIGHT = struct.pack("=9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
# Values of AVColorRange and AVColorSpace -> how YUV becomes RGB. What a file does not state, swscale assumes.
_RANGES = {0: "limited range", 1: "limited range", 2: "full range"}
_MATRICES = {0: "RGB", 1: "BT.709", 2: "BT.601", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 9: "BT.2020"}
_UNSTATED = {"range": 0, "matrix": 2}


@contextlib.contextmanager
def open_encoded(path: Path, *, container: str, threads: int) -> Iterator[Opened]:
    """The frames of the one video stream of a file, as uint8 RGB or RGBA.

    Args:
        path: a regular file.
        container: FFmpeg's name of the format that the file has.
        threads: threads of the decoder.

    Raises:
        MediaError: for anything but one sound stream of upright frames of one size.
    """
    import av  # noqa: PLC0415 (an extra)

    name = path.name
    with contextlib.ExitStack() as stack:
        try:
            # An open file and not a name: FFmpeg takes names as addresses.
            stream = stack.enter_context(path.open("rb"))
            missing = missing_bytes(stream, container=container)
            with open_container(stream, container) as source:
                fps, said = frame_rate(source, _only_stream(source, name=name)[0])
            source = stack.enter_context(open_container(stream, container))
        except (av.FFmpegError, OSError) as error:
            reason = error.strerror or error
            raise MediaError(f"{name}: truncated or damaged {container} file ({reason})", kind="unreadable") from error
        video, notes = _only_stream(source, name=name)
        check_size(video.codec_context.width, video.codec_context.height, name=name)
        video.codec_context.options = STRICT
        video.codec_context.thread_type = "AUTO"
        video.codec_context.thread_count = threads
        if hidden := _hidden(video, container=container):
            notes += (f"an edit list hides {hidden} of {video.frames} frames",)
        decoded = _decoded(source, video, hidden=hidden, missing=missing, name=name)
        frames = stack.enter_context(contextlib.closing(decoded))
        first = next(frames)  # never StopIteration: without frames it raises
        facts = _facts(first, source, video, fps=fps, notes=(*notes, *said), name=name)
        yield Opened(facts, _converted(first, frames, mode=facts.mode, name=name))


def open_container(stream: BinaryIO, container: str) -> Any:
    """An open file as FFmpeg reads it: a demuxer by name, and no address that FFmpeg could follow."""
    import av  # noqa: PLC0415 (an extra)

    stream.seek(0)
    return av.open(stream, mode="r", format=container, metadata_errors="replace", buffer_size=1 << 18)


def _only_stream(source: Any, *, name: str) -> tuple[Any, tuple[str, ...]]:
    pictures = [each for each in source.streams.video if "attached_pic" in str(each.disposition)]
    streams = [each for each in source.streams.video if each not in pictures]
    if len(streams) != 1:
        sound = "; it holds sound only, which is read as audio" if not streams and source.streams.audio else ""
        raise MediaError(f"{name}: holds {len(streams)} video streams, expected one{sound}", kind="format")
    if streams[0].codec_context is None:
        raise MediaError(f"{name}: no decoder for its video stream is at hand", kind="format")
    return streams[0], ("a cover picture is left out",) if pictures else ()


def _hidden(video: Any, *, container: str) -> int:
    """Frames that the file counts and an edit list does not show; only QuickTime files have such lists."""
    if container != "mov" or not video.frames:
        return 0
    return max(0, int(video.frames) - sum(not entry.is_discard for entry in video.index_entries))


def _decoded(source: Any, video: Any, *, hidden: int, missing: int, name: str) -> Generator[Any]:
    """Every frame as the decoder gives it; the end is only believed when nothing is missing."""
    import av  # noqa: PLC0415 (an extra)

    promised = video.frames - hidden if video.frames else None
    decoded = 0
    try:
        for packet in source.demux(video):
            if packet.is_corrupt:
                raise cut_off(name, decoded=decoded, promised=promised, reason="a packet is cut off")
            for frame in packet.decode():
                if frame.is_corrupt:
                    raise cut_off(name, decoded=decoded, promised=promised, reason="the next one is corrupt")
                decoded += 1
                yield frame
    except (av.FFmpegError, OSError) as error:
        raise cut_off(name, decoded=decoded, promised=promised, reason=str(error.strerror or error)) from error
    if missing or decoded < (promised or 0):
        reason = f"the file lacks {missing} bytes that its header states" if missing else "the file ends there"
        raise cut_off(name, decoded=decoded, promised=promised, reason=reason)
    if not decoded:
        raise MediaError(f"{name}: holds no frames", kind="unreadable")


def _facts(frame: Any, source: Any, video: Any, *, fps: float | None, notes: tuple[str, ...], name: str) -> VideoFacts:
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is not None and bytes(matrix) != _UPRIGHT:
        raise MediaError(
            f"{name}: asks players to rotate or mirror it (display matrix, {frame.rotation} degrees); "
            "store upright frames",
            kind="mode",
        )
    check_size(frame.width, frame.height, name=name)
    has_alpha = any(component.is_alpha for component in frame.format.components)
    if not has_alpha and "1" in (video.metadata.get("alpha_mode"), video.metadata.get("ALPHA_MODE")):
        raise MediaError(f"{name}: its alpha channel is stored apart and would be lost; store RGBA", kind="mode")
    mode = "RGBA" if has_alpha else "RGB"
    colour, assumed = _colour(frame)
    return VideoFacts(
        width=frame.width,
        height=frame.height,
        fps=fps,
        codec=video.codec_context.codec.canonical_name,
        pixel_format=frame.format.name,
        colour=colour,
        representation="encoded",
        data_range=255.0,
        mode=mode,
        metadata_frames=video.frames or None,
        has_audio=bool(source.streams.audio),
        notes=(
            f"{frame.format.name} ({colour}) converted to 8-bit {mode} by FFmpeg's swscale",
            *assumed,
            *_losses(frame, video),
            *notes,
        ),
    )


def _colour(frame: Any) -> tuple[str, tuple[str, ...]]:
    """How the stored values become RGB, and what of that had to be assumed."""
    if frame.format.is_rgb:
        return "RGB", ()
    found = {"range": int(frame.color_range), "matrix": int(frame.colorspace)}
    colour = f"{_RANGES.get(found['range'], 'unknown range')}, {_MATRICES.get(found['matrix'], 'unknown matrix')}"
    unstated = [part for part, value in found.items() if value == _UNSTATED[part]]
    if not unstated:
        return colour, ()
    return colour, (f"the file does not state its colour {' and '.join(unstated)}: {colour} is assumed",)


def _losses(frame: Any, video: Any) -> Iterator[str]:
    depth = max(component.bits for component in frame.format.components)
    if depth > 8:
        yield f"{depth} bits per value reduced to 8"
    if frame.interlaced_frame:
        yield "interlaced, not deinterlaced"
    if (aspect := video.sample_aspect_ratio) not in (None, 0, 1):
        yield f"pixels are not square ({aspect}), not scaled"


def _converted(first: Any, rest: Iterator[Any], *, mode: str, name: str) -> Iterator[Frame]:
    from av.video.reformatter import VideoReformatter  # noqa: PLC0415 (an extra)

    reformatter = VideoReformatter()  # one for all frames: its tables are costly
    expected = _layout(first)
    for index, frame in enumerate(itertools.chain([first], rest)):
        if _layout(frame) != expected:
            raise MediaError(
                f"{name}: frame {index} has the layout {_layout(frame)}, frame 0 has {expected} (width, height, pixel "
                "format, colour range, matrix)",
                kind="size",
            )
        pixels = reformatter.reformat(frame, format="rgba" if mode == "RGBA" else "rgb24", threads=1)
        yield np.asarray(pixels.to_ndarray())


def _layout(frame: Any) -> tuple[int, int, str, int, int]:
    return frame.width, frame.height, frame.format.name, int(frame.color_range), int(frame.colorspace)
