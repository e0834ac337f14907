"""What a leg gives -> files: arrays lossless as they are, encoded files as the engine made them, or a refusal."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import ArtifactError
from paritygate.media.safetensors import write_safetensors
from paritygate.media.tensors import DTYPES, RAW_BITS, Tensor
from paritygate.records.canonical import sha256_file
from paritygate.records.model import OutputMedia

#: Role -> the endings of files that are taken as they are.
ENDINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": (".flac", ".wav"),
        "tensors": (".npz", ".pt", ".pth", ".safetensors"),
        "video": (".avi", ".gif", ".mkv", ".mov", ".mp4", ".png", ".webm", ".webp"),
    }
)
#: More channels than this are the samples of an array whose axes are the other way round.
MAX_SOUND_CHANNELS = 64

_CHANNELS = (1, 3, 4)


def store_video(directory: Path, stem: str, frames: Any, *, fps: float | None) -> OutputMedia:
    """Store one clip below ``directory`` as ``<stem>.video.<ending>``.

    Args:
        directory: the leg's.
        stem: POSIX path without an ending.
        frames: ``(frames, height, width, 1 | 3 | 4)`` uint8, or float32 in [0, 1]; or the path of an encoded file.
        fps: frames a second, of an array; a file says its own.

    Raises:
        ValueError: saying what was found, what is expected and how to get there.
        ArtifactError: when the file cannot be written.
    """
    if isinstance(frames, str | os.PathLike):
        if fps is not None:
            raise ValueError(f"fps={fps} is for arrays of frames; an encoded file states its own rate")
        return _take(directory, stem, Path(frames), role="video")
    array = _checked_frames(np.asarray(frames))
    if fps is None or not 0 < fps < float("inf"):
        raise ValueError(f"fps is {fps}; an array of frames needs its rate: video(item_id, frames, fps=24)")
    path = f"{stem}.video.npy"
    sha256 = _written(directory / path, lambda target: _save(target, array))
    return OutputMedia(role="video", path=path, sha256=sha256, representation="raw", fps=float(fps))


def store_audio(directory: Path, stem: str, samples: Any, *, sample_rate_hz: int | None) -> OutputMedia:
    """Store one sound below ``directory`` as ``<stem>.audio.<ending>``.

    Args:
        directory: the leg's.
        stem: POSIX path without an ending.
        samples: ``(samples, channels)`` float32, full scale 1, as long as it is, clipped or not; or the path of a
            WAV or FLAC file.
        sample_rate_hz: of an array; a file says its own.

    Raises:
        ValueError: saying what was found, what is expected and how to get there.
        ArtifactError: when the file cannot be written.
    """
    if isinstance(samples, str | os.PathLike):
        if sample_rate_hz is not None:
            raise ValueError(f"sample_rate_hz={sample_rate_hz} is for arrays of samples; a file states its own rate")
        return _take(directory, stem, Path(samples), role="audio")
    array = np.asarray(samples)
    if array.dtype != np.float32:
        how = "; divide by 32768 first" if array.dtype == np.int16 else ""
        raise ValueError(f"samples are {array.dtype}; expected float32 at full scale 1 (convert explicitly{how})")
    if array.ndim != 2 or 0 in array.shape or array.shape[1] > MAX_SOUND_CHANNELS:
        raise ValueError(f"samples have the shape {array.shape}; expected (samples, channels), (n, 1) when mono")
    if not isinstance(sample_rate_hz, int) or sample_rate_hz < 1:
        raise ValueError(f"sample_rate_hz is {sample_rate_hz}; an array of samples needs its rate in whole hertz")
    path = f"{stem}.audio.npy"
    sha256 = _written(directory / path, lambda target: _save(target, array))
    return OutputMedia(role="audio", path=path, sha256=sha256, representation="raw", sample_rate_hz=sample_rate_hz)


def store_tensors(directory: Path, stem: str, tensors: Any) -> OutputMedia:
    """Store named tensors below ``directory`` as ``<stem>.tensors.<ending>``.

    Args:
        directory: the leg's.
        stem: POSIX path without an ending.
        tensors: name -> array of NumPy, or of torch with bfloat16 and float8 kept as they are; or the path of a file
            of tensors.

    Raises:
        ValueError: saying what was found and what is expected.
        ArtifactError: when the file cannot be written.
    """
    if isinstance(tensors, str | os.PathLike):
        return _take(directory, stem, Path(tensors), role="tensors")
    if not isinstance(tensors, Mapping) or not tensors or not all(isinstance(name, str) and name for name in tensors):
        raise ValueError(f"tensors are {type(tensors).__name__}; expected a dict of at least one name to its array")
    plain = [_tensor(name, value) for name, value in tensors.items()]
    path = f"{stem}.tensors.safetensors"
    sha256 = _written(directory / path, lambda target: write_safetensors(target, plain))
    return OutputMedia(role="tensors", path=path, sha256=sha256, representation="raw")


def checked_pixels(pixels: Any) -> NDArray[np.uint8] | NDArray[np.float32]:
    """The pixels of one image as an array that can be stored as it is.

    Raises:
        ValueError: saying what was found, what is expected and how to get there.
    """
    array = np.asarray(pixels)
    _check_pixels(array, axes=3, expected="(height, width, 1, 3 or 4), one image a call", what="pixels")
    if array.dtype == np.float32:
        _check_unit(array, what="float pixels lie")
    return array


def _checked_frames(array: NDArray[Any]) -> NDArray[Any]:
    _check_pixels(array, axes=4, expected="(frames, height, width, 1, 3 or 4), one clip a call", what="frames")
    if array.dtype == np.float32:
        for index, frame in enumerate(array):
            _check_unit(frame, what=f"the pixels of frame {index} lie")
    return array


def _check_pixels(array: NDArray[Any], *, axes: int, expected: str, what: str) -> None:
    if array.dtype not in (np.float32, np.uint8):
        raise ValueError(f"{what} are {array.dtype}; expected float32 in [0, 1] or uint8 (convert explicitly)")
    if array.ndim != axes or array.shape[-1] not in _CHANNELS or 0 in array.shape:
        raise ValueError(f"{what} have the shape {array.shape}; expected {expected}")


def _check_unit(array: NDArray[Any], *, what: str) -> None:
    finite = array[np.isfinite(array)]
    if finite.size and (finite.min() < 0 or finite.max() > 1):
        raise ValueError(
            f"{what} in [{finite.min():g}, {finite.max():g}]; expected [0, 1] (denormalise, clip, or store uint8)"
        )


def _tensor(name: str, value: Any) -> Tensor:
    array, dtype = _from_torch(value) if hasattr(value, "detach") else (np.asarray(value), "")
    dtype = dtype or array.dtype.newbyteorder("=").name
    if dtype not in DTYPES or array.size == 0:
        raise ValueError(f"tensor {name!r} is {dtype} of shape {array.shape}; expected values of {', '.join(DTYPES)}")
    return Tensor(name=name, array=array.view(DTYPES[dtype]) if dtype in RAW_BITS else array, dtype=dtype)


def _from_torch(value: Any) -> tuple[NDArray[Any], str]:
    """The values of a torch tensor, or its bits where NumPy has no such dtype, and the dtype's name."""
    value = value.detach().cpu().contiguous()
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype in RAW_BITS:
        torch = sys.modules["torch"]
        value = value.view(torch.int16 if value.element_size() == 2 else torch.uint8)
    return value.numpy(), dtype


def _save(target: Path, array: NDArray[Any]) -> None:
    _require_room(target, array.nbytes)
    with target.open("wb") as stream:
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        np.lib.format.write_array(stream, little, allow_pickle=False)


def _take(directory: Path, stem: str, source: Path, *, role: str) -> OutputMedia:
    """Take a finished file: moved when it lies in the leg's own folder, else copied."""
    ending = source.suffix.lower()
    if ending not in ENDINGS[role]:
        raise ValueError(f"{source} is taken as {role} when it ends in {', '.join(ENDINGS[role])}")
    if not source.is_file():
        raise ValueError(f"there is no file {source}")
    path = f"{stem}.{role}{ending}"
    own = source.resolve().is_relative_to(directory.resolve())
    move = _move if own and not source.is_symlink() else _copy
    sha256 = _written(directory / path, lambda target: move(source, target))
    representation = "raw" if role == "tensors" else "encoded"
    return OutputMedia(role=role, path=path, sha256=sha256, representation=representation)  # type: ignore[arg-type]


def _move(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError:
        # In a folder of another user (a container's), or on another file system.
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    _require_room(target, source.stat().st_size)
    shutil.copyfile(source, target)


def _require_room(target: Path, size: int) -> None:
    """Begin nothing that cannot end: a sparse file of a leg may state any size, and others need the disk too."""
    if size > shutil.disk_usage(target.parent).free:
        raise OSError(errno.ENOSPC, f"it would have {size} bytes, which are not free")


def _written(target: Path, write: Callable[[Path], object]) -> str:
    """The digest of what ``write`` writes."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target)
        return sha256_file(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            target.unlink()
        raise ArtifactError(f"cannot write {target}: {error.strerror or error}", hint="free space") from error
