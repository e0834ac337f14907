"""Sounds, file -> samples, as they are stored: never resampled, mixed, cut or normalised.

WAV and FLAC need the extra ``audio``; the sound of MP4, MOV, WebM, MKV and AVI needs ``video``. What a file is, is read
from its first bytes, not from its name.
"""

from __future__ import annotations

import functools
import hashlib
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MediaError
from paritygate.media.video_encoded import STRICT, open_container
from paritygate.media.video_ends import missing_bytes

#: Samples of all channels that are read at most: 1 GiB as float64, more than an hour and a half of stereo.
MAX_SAMPLES = 1 << 27
#: Of any sound that is heard; a spectrum of a higher rate would need windows of any size.
MAX_RATE_HZ = 1 << 20
#: RIFF chunks of one file.
_MAX_CHUNKS = 1000
# Codings of WAV: integers, floats, and either with more said of it.
_UNCOMPRESSED = (1, 3, 0xFFFE)
# Samples of each channel that are checked at once.
_PIECE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Audio:
    """One sound.

    ``samples``: ``(samples, channels)`` float64 with full scale 1; integers were divided by the magnitude of their
    lowest value, which is exact. ``sample_format``: how the samples are stored, whatever lossless file holds them.
    Values are not judged here: floats may be beyond full scale or not finite.
    """

    samples: NDArray[np.float64]
    sample_rate_hz: int
    sample_format: str
    notes: tuple[str, ...] = ()

    @property
    def channels(self) -> int:
        """How many."""
        return int(self.samples.shape[1])


def read_audio(path: Path) -> Audio:
    """The whole sound of a file.

    Raises:
        MediaError: one clear reason, whatever is wrong with the file; one that ends before its own header says is
            refused.
        ModuleNotFoundError: when the format needs an extra that is not installed.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise MediaError(f"{path.name} is not a regular file", kind="path")
        with path.open("rb") as stream:
            head = stream.read(12)
            for place, magic, read in _READERS:
                if head[place] == magic:
                    return read(stream, name=path.name)
    except OSError as error:
        raise MediaError(f"{path.name}: {error.strerror or error}", kind="unreadable") from error
    if not head:
        raise MediaError(f"{path.name}: the file is empty", kind="unreadable")
    raise MediaError(f"{path.name}: no sound of a known format; read are {_READ}", kind="format")


def _wav(stream: BinaryIO, *, name: str) -> Audio:
    stream.seek(0, 2)
    size = stream.tell()
    stream.seek(0)
    if (variant := stream.read(4)) != b"RIFF":
        raise MediaError(f"{name}: a WAV of the kind {variant!r}, expected RIFF", kind="format")
    stated = int.from_bytes(stream.read(4), "little") + 8
    if stated > size:
        raise MediaError(f"{name}: truncated WAV ({size} bytes, its header states {stated})", kind="unreadable")
    place, block = 12, 1
    for _ in range(_MAX_CHUNKS):
        stream.seek(place)
        chunk = stream.read(8 + 16)
        if len(chunk) < 8:
            break
        length = int.from_bytes(chunk[4:8], "little")
        if chunk[:4] == b"fmt ":
            block = _block_bytes(chunk[8:], name=name)
        if chunk[:4] == b"data" and length % block:
            raise MediaError(f"{name}: truncated WAV (it ends within a sample)", kind="unreadable")
        if place + 8 + length > size:
            raise MediaError(f"{name}: truncated WAV (its {chunk[:4]!r} part is cut off)", kind="unreadable")
        place += 8 + length + length % 2
    else:
        raise MediaError(f"{name}: a WAV of more than the {_MAX_CHUNKS} parts that are read", kind="size")
    return _whole_file(stream, name=name)


def _block_bytes(layout: bytes, *, name: str) -> int:
    """Bytes of one sample of all channels; a decoder that is told two sizes believes one of them."""
    coding, channels, block, bits = (int.from_bytes(layout[at : at + 2], "little") for at in (0, 2, 12, 14))
    if coding in _UNCOMPRESSED and block != channels * -(-bits // 8):
        message = f"{channels} channels of {bits} bits in blocks of {block} bytes"
        raise MediaError(f"{name}: damaged WAV (it states {message})", kind="unreadable")
    return block or 1


def _flac(stream: BinaryIO, *, name: str) -> Audio:
    sound = _whole_file(stream, name=name)
    stream.seek(0)
    # The decoder checks each frame, not that the frames are all there: the first block, of 34 bytes, holds the MD5 of
    # all samples, or zeros from a writer that did not know it.
    head = stream.read(42)
    bits, stated = (int.from_bytes(head[20:22], "big") >> 4 & 31) + 1, head[26:]
    if any(stated) and _md5(sound.samples, bits=bits) != stated:
        raise MediaError(f"{name}: damaged FLAC (its samples are not those of its checksum)", kind="unreadable")
    return sound


def _md5(samples: NDArray[np.float64], *, bits: int) -> bytes:
    """Checksum of the samples as little-endian integers of whole bytes, in turn of the channels."""
    width = -(-bits // 8)
    digest = hashlib.md5(usedforsecurity=False)
    for start in range(0, len(samples), _PIECE):
        whole = (samples[start : start + _PIECE] * 2.0 ** (bits - 1)).astype("<i4")
        digest.update(whole[..., None].view(np.uint8)[..., :width].tobytes())
    return digest.digest()


def _whole_file(stream: BinaryIO, *, name: str) -> Audio:
    import soundfile  # noqa: PLC0415 (an extra)

    stream.seek(0)
    try:
        with soundfile.SoundFile(stream) as sound:
            _check_size(sound.frames, sound.channels, name=name)
            samples = sound.read(dtype="float64", always_2d=True)
            rate, kind, frames = int(sound.samplerate), str(sound.subtype), sound.frames
    except (soundfile.SoundFileError, RuntimeError, ValueError, TypeError) as error:
        # The whole text would hold the address of the open file.
        reason = " ".join(str(getattr(error, "error_string", error)).split())
        raise MediaError(f"{name}: truncated or damaged sound ({reason:.120})", kind="unreadable") from error
    if len(samples) != frames:
        raise MediaError(f"{name}: truncated; {len(samples)} of {frames} samples decode", kind="unreadable")
    _check_rate(rate, name=name)
    return Audio(samples=samples, sample_rate_hz=rate, sample_format=kind)


def _check_size(frames: int, channels: int, *, name: str) -> None:
    if frames < 1 or channels < 1:
        raise MediaError(f"{name}: holds no samples", kind="size")
    if frames * channels > MAX_SAMPLES:
        raise MediaError(
            f"{name}: claims {frames} samples of {channels} channels, at most {MAX_SAMPLES} are read", kind="size"
        )


def _check_rate(rate: int, *, name: str) -> None:
    if not 0 < rate <= MAX_RATE_HZ:
        raise MediaError(f"{name}: claims {rate} samples a second, at most {MAX_RATE_HZ} are read", kind="size")


def _track(stream: BinaryIO, *, name: str, container: str) -> Audio:
    """The one sound of a clip, whole."""
    import av  # noqa: PLC0415 (an extra)

    try:
        if missing := missing_bytes(stream, container=container):
            raise MediaError(f"{name}: truncated; it lacks {missing} bytes that its header states", kind="unreadable")
        with open_container(stream, container) as source:
            tracks = source.streams.audio
            if len(tracks) != 1:
                raise MediaError(f"{name}: holds {len(tracks)} sounds, expected one", kind="format")
            if tracks[0].codec_context is None:
                raise MediaError(f"{name}: no decoder for its sound is at hand", kind="format")
            tracks[0].codec_context.options = STRICT
            samples, rate, stored = _joined(_frames(source, tracks[0], name=name), name=name)
            codec = tracks[0].codec_context.codec.canonical_name
    except (av.FFmpegError, OSError) as error:
        reason = error.strerror or error
        raise MediaError(f"{name}: truncated or damaged {container} file ({reason})", kind="unreadable") from error
    _check_rate(rate, name=name)
    return Audio(samples=samples, sample_rate_hz=rate, sample_format=f"{codec} {stored}")


def _frames(source: Any, track: Any, *, name: str) -> Iterator[Any]:
    for packet in source.demux(track):
        if packet.is_corrupt:
            raise MediaError(f"{name}: truncated; a packet of its sound is cut off", kind="unreadable")
        for frame in packet.decode():
            if frame.is_corrupt:
                raise MediaError(f"{name}: a part of its sound is corrupt", kind="unreadable")
            yield frame


def _joined(frames: Iterator[Any], *, name: str) -> tuple[NDArray[np.float64], int, str]:
    """Samples, rate and format of decoded frames that all have one layout."""
    pieces: list[NDArray[np.float64]] = []
    layout: tuple[int, int, str] | None = None
    total = 0
    for frame in frames:
        now = (int(frame.sample_rate), int(frame.layout.nb_channels), str(frame.format.name))
        if layout not in (None, now):
            raise MediaError(f"{name}: its sound changes from {layout} to {now}", kind="format")
        layout = now
        stored = frame.to_ndarray()
        # Planar formats give a row for each channel, the others one row with the channels in turn.
        pieces.append(_full_scale(stored.T if frame.format.is_planar else stored.reshape(-1, now[1])))
        total += len(pieces[-1])
        _check_size(total, now[1], name=name)
    if layout is None:
        raise MediaError(f"{name}: its sound holds no samples", kind="unreadable")
    return np.concatenate(pieces), layout[0], layout[2].removesuffix("p")


def _full_scale(stored: NDArray[Any]) -> NDArray[np.float64]:
    """Stored samples as float64 with full scale 1. Widened first: the magnitude of -32768 is no int16."""
    wide: NDArray[np.float64] = stored.astype(np.float64)
    if stored.dtype.kind == "u":
        return wide / 128.0 - 1.0
    return wide / -float(np.iinfo(stored.dtype).min) if stored.dtype.kind == "i" else wide


_Reader = Callable[..., Audio]
_QUICKTIME = functools.partial(_track, container="mov")
# Where in the first bytes -> what stands there -> who reads it.
_READERS: tuple[tuple[slice, bytes, _Reader], ...] = (
    (slice(8, 12), b"WAVE", _wav),
    (slice(0, 4), b"fLaC", _flac),
    (slice(8, 12), b"AVI ", functools.partial(_track, container="avi")),
    (slice(0, 4), b"\x1aE\xdf\xa3", functools.partial(_track, container="matroska")),
    *((slice(4, 8), kind, _QUICKTIME) for kind in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")),
)
_READ = "WAV, FLAC, and the sound of MP4, MOV, WebM, MKV and AVI"
