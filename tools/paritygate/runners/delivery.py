"""A folder in the delivery format -> the writer. The folder is a command's, or was made elsewhere: nothing is trusted.

Every problem of a folder is told, and each names its file. What is missing, and what the suite does not ask for, is for
the comparison to say.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from paritygate.errors import ArtifactError, LegError, MediaError, missing_extra
from paritygate.media.audio import MAX_RATE_HZ, read_audio
from paritygate.media.frozen import MAX_FILE_BYTES
from paritygate.media.images import MODES, decode_image
from paritygate.media.levels import to_stored
from paritygate.media.npy import decode_float
from paritygate.media.paths import contained, read_contained
from paritygate.media.tensors import UNNAMED, read_tensors
from paritygate.media.video import open_video
from paritygate.records.codec import loads
from paritygate.records.model import EFFECTIVE_NAME, EFFECTIVE_SCHEMA_VERSION, Effective
from paritygate.runners.effective import Delivered
from paritygate.runners.job import Writer
from paritygate.runners.media_files import ENDINGS

#: Files of one folder, and problems that are told of it.
MAX_FILES = 20_000
_TOLD = 20

_NAME = re.compile(
    r"(?P<index>0|[1-9][0-9]{0,3})(?:\.(?P<part>float|video|audio|tensors))?(?P<ending>\.[a-z0-9]+)", re.ASCII
)
#: What the name of a file says -> the kind of output that it belongs to, and the endings that it may have.
_PARTS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "": ("image", (".png",)),
        "audio": ("audio", (".json", ".npy", *ENDINGS["audio"])),
        "float": ("image", (".npy",)),
        "tensors": ("tensors", ENDINGS["tensors"]),
        "video": ("video", (".json", ".npy", *ENDINGS["video"])),
    }
)
_MAX_FPS = 100_000.0
#: The last part of a PNG: Pillow reads the pixels without it.
_PNG_END = b"IEND\xaeB`\x82"
#: PNG colour type -> mode, for those that can be stored.
_MODE_OF = {colour_type: mode for mode, (colour_type, _) in MODES.items()}

#: item id, index, kind -> ending -> path relative to the folder.
_Found = dict[tuple[str, int, str], dict[str, str]]


class _Rate(msgspec.Struct, forbid_unknown_fields=True):
    """What stands beside a raw array: one of the two."""

    fps: float | None = None
    sample_rate_hz: int | None = None


def read(folder: Path, writer: Writer, *, kind: str = "crash") -> None:
    """Hand every output of a folder, and what it says took effect, to the writer.

    Args:
        folder: in the delivery format; files of clips, sounds and tensors are moved out of it when it lies in the
            leg's own folder.
        writer: where they go.
        kind: the class of failure when the folder is refused.

    Raises:
        LegError: naming every file that is unknown, unsafe, cut off or of another kind than its name says.
        ArtifactError: when outputs cannot be stored.
    """
    problems: list[str] = []
    with collecting(problems, EFFECTIVE_NAME, folder):
        report(read_effective(folder), writer)
    problems += read_outputs(folder, writer)
    refuse(problems, kind=kind)


def refuse(problems: list[str], *, kind: str) -> None:
    """Raise one error for all problems; nothing happens when there are none."""
    if problems:
        more = len(problems) - _TOLD
        told = "; ".join(problems[:_TOLD]) + (f"; and {more} more" if more > 0 else "")
        raise LegError(f"the outputs are refused: {told}", kind=kind, hint="deliver whole files, named <item>/<index>")


@contextlib.contextmanager
def collecting(problems: list[str], relative: str, folder: Path) -> Iterator[None]:
    """Let what is refused inside become a problem that names its file relative to the folder."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        problems.append(f"{relative}: {missing.message}; {missing.hint}")
    except (MediaError, OverflowError, ValueError) as error:
        text = " ".join(str(error).replace(f"{folder}/", "").split())
        problems.append(text if text.startswith(relative) else f"{relative}: {text}")


def read_effective(folder: Path) -> Effective:
    """What ``effective.json`` of a folder says, within bounds; nothing when there is no such file.

    Raises:
        MediaError: when it is no plain file, of a later version, or says anything else.
    """
    if not os.path.lexists(folder / EFFECTIVE_NAME):
        return Effective()
    try:
        found = loads(read_contained(folder, EFFECTIVE_NAME), Delivered, source=EFFECTIVE_NAME)
    except ArtifactError as error:
        raise MediaError(error.message, kind="format") from error
    if found.schema_version > EFFECTIVE_SCHEMA_VERSION:
        raise MediaError(f"{EFFECTIVE_NAME} is of the later version {found.schema_version}", kind="format")
    return Effective(**{name: getattr(found, name) for name in found.__struct_fields__})


def report(effective: Effective, writer: Writer) -> None:
    """Hand everything that took effect to the writer.

    Raises:
        ValueError: for what no effective setting can be.
    """
    for name, value in effective.settings.items():
        writer.setting(name, value)
    for item_id, rows in effective.token_ids.items():
        writer.token_ids(item_id, rows)
    for item_id, digest in effective.initial_latents.items():
        writer.initial_latents_digest(item_id, digest)
    if effective.timesteps or effective.sigmas:
        sigmas = None if effective.sigmas is None else [float(sigma) for sigma in effective.sigmas]
        writer.schedule(timesteps=effective.timesteps or [], sigmas=sigmas)
    for name, counters in effective.features.items():
        writer.feature(name, **counters)
    for name, value in effective.environment.items():
        writer.environment(name, value)
    for name, effect in effective.effects.items():
        writer.effect(name, exercised=effect.exercised, detail=effect.detail)
    writer.pending(*effective.pending)


def read_outputs(folder: Path, writer: Writer) -> list[str]:
    """Hand every output of a folder to the writer; what was wrong with the others, a sentence each."""
    found, problems = _listed(folder)
    if not found and not problems:
        return [f"nothing was delivered into {folder.name}/"]
    for (item_id, index, kind), files in sorted(found.items()):
        relative = next((name for ending, name in sorted(files.items()) if ending != ".json"), files.get(".json", ""))
        with collecting(problems, relative, folder):
            _check_files(folder, files)
            _GIVERS[kind](folder, files, writer, item_id, index)
    return problems


def _listed(folder: Path) -> tuple[_Found, list[str]]:
    """The files of a folder by output, and those that are none."""
    found: _Found = {}
    problems = []
    try:
        names = list(itertools.islice(_names(folder), MAX_FILES + 1))
    except OSError as error:
        return {}, [f"{Path(error.filename or folder).relative_to(folder.parent)}/ cannot be read: {error.strerror}"]
    if len(names) > MAX_FILES:
        return {}, [f"{folder.name}/ holds more than the {MAX_FILES} files that are read"]
    for relative in sorted(names):
        item_id, _, name = relative.partition("/")
        match = _NAME.fullmatch(name)
        kind, endings = _PARTS[match["part"] or ""] if match else ("", ())
        if match is None or match["ending"] not in endings:
            if relative != EFFECTIVE_NAME:
                problems.append(f"{relative!r:.200} is no file of the delivery format")
            continue
        found.setdefault((item_id, int(match["index"]), kind), {})[match["ending"]] = relative
    return found, problems


def _names(folder: Path) -> Iterator[str]:
    """Everything in a folder and in its folders, by relative path; deeper folders as one name, links not followed."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from (f"{path.name}/{inner.name}" for inner in path.iterdir())
        else:
            yield path.name


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Refuse links, devices, files that have another name too, and files that are too large."""
    for relative in files.values():
        state = contained(folder, relative).lstat()
        if state.st_size > MAX_FILE_BYTES:
            # A sparse file may claim more than any disk has.
            text = f"{relative} has {state.st_size} bytes, at most {MAX_FILE_BYTES} are read"
            raise MediaError(text, kind="size")
        if state.st_nlink > 1:
            raise MediaError(f"{relative} has more than one name (hard link); deliver a file of its own", kind="path")


def _image(folder: Path, files: Mapping[str, str], writer: Writer, item_id: str, index: int) -> None:
    stored: NDArray[Any] | None = None
    if png := files.get(".png"):
        data = read_contained(folder, png)
        if data.startswith(b"\x89PNG") and not data.endswith(_PNG_END):
            raise MediaError(f"{png}: truncated or damaged PNG (it has no end)", kind="unreadable")
        # The mode that it has: whether it is the declared one is for the comparison to say.
        stored = decode_image(data, mode=_MODE_OF.get(data[25] if len(data) > 25 else 2, "RGB"), name=png)
    pixels = stored
    if npy := files.get(".npy"):
        pixels = decode_float(read_contained(folder, npy), name=npy)
        if stored is not None and not np.array_equal(rounded := to_stored(pixels), stored):
            raise MediaError(f"{npy} does not round to {png}: {_difference(rounded, stored)}", kind="format")
    writer.image(item_id, pixels, index=index)


def _difference(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> str:
    if left.shape != right.shape:
        return f"their shapes are {left.shape} and {right.shape}"
    apart = np.abs(left.astype(np.int16) - right)
    return f"{np.count_nonzero(apart)} of {apart.size} values differ, by up to {apart.max()} of 255 levels"


def _video(folder: Path, files: Mapping[str, str], writer: Writer, item_id: str, index: int) -> None:
    path = _one(folder, files)
    if path.suffix == ".npy":
        writer.video(item_id, read_tensors(path)[UNNAMED].array, fps=_rate(folder, files, "fps"), index=index)
        return
    with open_video(path) as clip:
        for _ in clip:  # to its end: a clip that was cut off shows there
            pass
    writer.video(item_id, path, index=index)


def _audio(folder: Path, files: Mapping[str, str], writer: Writer, item_id: str, index: int) -> None:
    path = _one(folder, files)
    if path.suffix == ".npy":
        rate = int(_rate(folder, files, "sample_rate_hz"))
        writer.audio(item_id, read_tensors(path)[UNNAMED].array, sample_rate_hz=rate, index=index)
        return
    read_audio(path)
    writer.audio(item_id, path, index=index)


def _tensors(folder: Path, files: Mapping[str, str], writer: Writer, item_id: str, index: int) -> None:
    path = _one(folder, files)
    read_tensors(path)
    writer.tensors(item_id, path, index=index)


def _one(folder: Path, files: Mapping[str, str]) -> Path:
    """The one file that holds an output, which may have its rate beside it only when it is an array."""
    holders = [relative for ending, relative in files.items() if ending != ".json"]
    if len(holders) != 1:
        text = f"is given {len(holders)} times: {', '.join(holders)}" if holders else "states a rate of no array"
        raise MediaError(f"{min(files.values())} {text}", kind="format")
    path = contained(folder, holders[0])
    if ".json" in files and path.suffix != ".npy":
        raise MediaError(f"{files['.json']} stands beside {holders[0]}, which states its own rate", kind="format")
    return path


def _rate(folder: Path, files: Mapping[str, str], field: str) -> float:
    """The rate that stands beside a raw array."""
    example = {"fps": 16} if field == "fps" else {"sample_rate_hz": 48000}
    text = msgspec.json.encode(example).decode()
    if ".json" not in files:
        name = Path(files[".npy"]).with_suffix(".json").as_posix()
        raise MediaError(f"{files['.npy']} needs its rate in {name}, such as {text}", kind="format")
    try:
        found = loads(read_contained(folder, files[".json"]), _Rate, source=files[".json"])
    except ArtifactError as error:
        raise MediaError(error.message, kind="format") from error
    given = {name: value for name in found.__struct_fields__ if (value := getattr(found, name)) is not None}
    limit = _MAX_FPS if field == "fps" else MAX_RATE_HZ
    if given.keys() != {field} or not 0 < given[field] <= limit:
        raise MediaError(f"{files['.json']} states {given}, expected {text}, at most {limit:g}", kind="format")
    return float(given[field])


_GIVERS = MappingProxyType({"audio": _audio, "image": _image, "tensors": _tensors, "video": _video})
