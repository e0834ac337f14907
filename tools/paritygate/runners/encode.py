"""Frames and sound -> one encoded file, as ``encode`` of a leg says it.

One thread and no time stamps of the machine: the same frames give the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from paritygate.media.levels import to_stored
from paritygate.runners.diffusers_names import near, refused

#: ``encode.container`` -> FFmpeg's name of the format.
_FORMATS = MappingProxyType({"mkv": "matroska", "mp4": "mp4", "webm": "webm"})
#: Channels of a frame -> the pixel format that it has before encoding.
_PIXELS = MappingProxyType({1: "gray", 3: "rgb24", 4: "rgba"})
#: Channels of a sound -> FFmpeg's name of their layout.
_LAYOUTS = MappingProxyType({1: "mono", 2: "stereo"})
#: Values of AVColorSpace and AVColorRange.
_BT601, _LIMITED, _FULL = 6, 1, 2
#: Pieces that a sound is handed over in.
_SAMPLES = 1 << 16


def encode_clip(
    target: Path,
    frames: NDArray[Any],
    spec: Mapping[str, Any],
    *,
    fps: float,
    samples: NDArray[np.float32] | None = None,
    sample_rate_hz: int | None = None,
) -> None:
    """Write one clip.

    YUV is written with the matrix of BT.601, and says so: a file that states nothing is read so, or as BT.709.

    Args:
        target: the file to write; its ending is the caller's.
        frames: ``(frames, height, width, 1 | 3 | 4)`` uint8, or float32 in [0, 1], which is rounded to 8 bits as
            everywhere in this project.
        spec: ``encode`` of the leg: container, codec, pixel_format, options and audio_codec.
        fps: frames a second.
        samples: ``(samples, channels)`` float32 at full scale 1, or None for a silent file.
        sample_rate_hz: of ``samples``.

    Raises:
        LegError: for an encoder, a pixel format, an option, a size or a sound that cannot be written, naming what
            can.
    """
    kind = _video_codec(spec)
    height, width = frames.shape[1:3]
    _check_size(str(spec["pixel_format"]), width, height)
    try:
        with av.open(str(target), "w", format=_FORMATS[spec["container"]], options={"fflags": "+bitexact"}) as file:
            video = _video_stream(file, spec, size=(width, height), fps=fps)
            sound = None if samples is None else _sound_stream(file, spec, samples, sample_rate_hz)
            for frame in frames:
                _write(file, video, _picture(frame, spec["pixel_format"]))
            _write(file, video, None)
            if sound is not None and samples is not None:
                _write_sound(file, sound, samples)
    except (av.FFmpegError, ValueError) as error:
        what = f"{kind.name} in {spec['container']} with {spec['pixel_format']}, {width}x{height} at {fps:g} fps"
        raise refused(f"encode: {what} cannot be written: {error}") from error


def _video_codec(spec: Mapping[str, Any]) -> Any:
    """The encoder, when it exists and takes the pixel format."""
    codec = _codec(str(spec["codec"]), "video", key="codec")
    taken = [known.name for known in codec.video_formats or ()]
    wanted = str(spec["pixel_format"])
    if taken and wanted not in taken:
        message = f"encode.pixel_format: {codec.name} takes no {wanted!r}{near(wanted, taken)}"
        raise refused(f"{message}; it takes: {', '.join(taken)}")
    return codec


def _codec(name: str, kind: str, *, key: str) -> Any:
    try:
        found = av.Codec(name, "w")
    except av.codec.codec.UnknownCodecError as error:
        raise refused(f"encode.{key}: FFmpeg has no encoder {name!r}{near(name, _encoders(kind))}") from error
    if found.type != kind:
        raise refused(f"encode.{key}: {name!r} encodes {found.type}, expected an encoder of {kind}")
    return found


def _encoders(kind: str) -> Iterator[str]:
    for name in sorted(av.codecs_available):
        with contextlib.suppress(av.codec.codec.UnknownCodecError):  # some only decode
            if av.Codec(name, "w").type == kind:
                yield name


def _check_size(pixel_format: str, width: int, height: int) -> None:
    """Refuse sizes that the pixel format cannot hold: encoders would drop a row or a column, or fail obscurely."""
    shape = av.VideoFormat(pixel_format, width, height)
    for axis, size, shared in (
        ("width", width, 8 // shape.chroma_width(8)),
        ("height", height, 8 // shape.chroma_height(8)),
    ):
        if size % shared:
            message = f"encode.pixel_format: {pixel_format} keeps one colour for {shared} pixels of {axis}"
            raise refused(
                f"{message}, and the clip has {size}", hint=f"ask for another {axis}, or for a format such as yuv444p"
            )


def _video_stream(file: Any, spec: Mapping[str, Any], *, size: tuple[int, int], fps: float) -> Any:
    stream = file.add_stream(str(spec["codec"]), rate=Fraction(fps).limit_denominator(1001))
    stream.width, stream.height = size
    stream.pix_fmt = str(spec["pixel_format"])
    context = stream.codec_context
    context.thread_count = 1  # the bytes that x264 writes depend on it
    context.options = {key: str(value) for key, value in (spec.get("options") or {}).items()}
    if not context.format.is_rgb:
        context.colorspace, context.color_range = _BT601, _range(stream.pix_fmt)
    context.open()
    # What the encoder did not take is left: FFmpeg passes over a misspelt option in silence.
    if left := sorted(context.options):
        raise refused(f"encode.options: {spec['codec']} has no option {', '.join(map(repr, left))}")
    return stream


def _range(pixel_format: str) -> int:
    return _FULL if pixel_format.startswith("yuvj") else _LIMITED


def _picture(frame: NDArray[Any], pixel_format: str) -> Any:
    pixels = np.ascontiguousarray(to_stored(frame))
    channels = pixels.shape[-1]
    picture = av.VideoFrame.from_ndarray(pixels[..., 0] if channels == 1 else pixels, format=_PIXELS[channels])
    if av.VideoFormat(pixel_format, 2, 2).is_rgb:
        return picture.reformat(format=pixel_format)
    return picture.reformat(format=pixel_format, dst_colorspace=_BT601, dst_color_range=_range(pixel_format), threads=1)


def _sound_stream(file: Any, spec: Mapping[str, Any], samples: NDArray[np.float32], rate: int | None) -> Any:
    if not spec.get("audio_codec"):
        raise refused("encode.audio_codec is missing: the output has sound", hint="add one, such as aac or flac")
    codec = _codec(str(spec["audio_codec"]), "audio", key="audio_codec")
    if codec.audio_rates and rate not in codec.audio_rates:
        rates = ", ".join(str(known) for known in sorted(codec.audio_rates))
        raise refused(f"encode.audio_codec: {codec.name} takes no {rate} Hz; it takes: {rates}")
    channels = samples.shape[1]
    if channels not in _LAYOUTS:
        raise refused(f"encode: the sound has {channels} channels; written are 1 and 2")
    return file.add_stream(codec.name, rate=rate, layout=_LAYOUTS[channels])


def _write_sound(file: Any, stream: Any, samples: NDArray[np.float32]) -> None:
    for start in range(0, len(samples), _SAMPLES):
        piece = np.ascontiguousarray(samples[start : start + _SAMPLES].T)
        sound = av.AudioFrame.from_ndarray(piece, format="fltp", layout=_LAYOUTS[samples.shape[1]])
        sound.sample_rate, sound.pts, sound.time_base = stream.rate, start, Fraction(1, stream.rate)
        _write(file, stream, sound)
    _write(file, stream, None)


def _write(file: Any, stream: Any, frame: Any) -> None:
    for packet in stream.encode(frame):
        file.mux(packet)
