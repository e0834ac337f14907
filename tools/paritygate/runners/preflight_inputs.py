"""Files that the legs of a case read besides the weights: conditioning media, LoRA adapters, imported folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from paritygate.errors import ArtifactError, MediaError, missing_extra
from paritygate.manifest.case import Case, Leg
from paritygate.media.frozen import frozen_problems
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_file
from paritygate.records.codec import loads
from paritygate.runners.problems import PreflightProblem
from paritygate.runners.weights_headers import presence_problem, read_header

#: Roles that are pictures, whatever their file is called.
_PICTURES = frozenset({"first_frame", "image", "last_frame", "mask"})
_CLIPS = frozenset({".avi", ".gif", ".mkv", ".mov", ".mp4", ".webm"})


def input_problems(case: Case) -> Iterator[PreflightProblem]:
    """Conditioning media that are not there, are other bytes than declared, or cannot be decoded."""
    for media in case.inputs:
        path, name = case.root / media.path, f"the input {media.path}"
        if problem := digest_problem(path, media.sha256, name):
            fix = "restore it, or correct its path and sha256 in request.inputs"
            yield PreflightProblem(code="inputs", message=problem, fix=fix)
            continue
        try:
            _decoder(media.role, path)(path)
        except MediaError as error:
            message = f"{name} ({media.role}) cannot be decoded: {error.message}"
            yield PreflightProblem(code="inputs", message=message, fix="store it whole, in a format that is read")
        except ModuleNotFoundError as error:
            if (missing := missing_extra(error)) is None:
                raise
            yield PreflightProblem(code="extra", message=f"{name}: {missing.message}", fix=missing.hint)


def leg_file_problems(case: Case, leg: Leg) -> Iterator[PreflightProblem]:
    """What a leg reads of the project and that is absent or altered: LoRA adapters and imported folders."""
    for entry in leg.spec.get("lora") or ():
        path, name = case.root / entry["path"], f"the LoRA {entry['path']}"
        problem = digest_problem(path, entry["sha256"], name) or read_header(path)[1]
        if problem:
            fix = "restore it, or correct its path and sha256 in lora"
            yield PreflightProblem(code="lora", message=problem, fix=fix, leg=leg.name)
    if leg.runner == "import":
        for problem in _folder_problems(case.root / leg.spec["folder"], leg.spec.get("digest")):
            message = f"the import {leg.spec['folder']}: {problem}"
            fix = "copy the folder whole from where it was made, or correct folder and digest"
            yield PreflightProblem(code="import", message=message, fix=fix, leg=leg.name)


def digest_problem(path: Path, declared: str | None, name: str) -> str:
    """Why a file is not the declared one; empty when it is.

    Args:
        path: the file.
        declared: ``sha256:<64 hex>``, or None when only its presence counts.
        name: what to call it.
    """
    try:
        found = sha256_file(path)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror or error}"
    if declared in (None, found):
        return ""
    if presence_problem(path):
        return f"{name}: {presence_problem(path)}"
    return f"{name} has the digest {found}, the manifest says {declared}"


def _folder_problems(folder: Path, pinned: str | None) -> list[str]:
    """Everything in which an imported folder differs from its own list, and that list from the pinned one."""
    from paritygate.runners.imported import IMPORT_NAME, Import  # noqa: PLC0415 - loads NumPy

    if problem := digest_problem(folder / IMPORT_NAME, pinned, IMPORT_NAME):
        return [problem]
    try:
        found = loads(read_contained(folder, IMPORT_NAME), Import, source=IMPORT_NAME)
    except (ArtifactError, MediaError) as error:
        return [error.message]
    return frozen_problems(folder, found.files, beside=(IMPORT_NAME,))


def _decoder(role: str, path: Path) -> Callable[[Path], None]:
    if role in _PICTURES:
        return _decode_image
    if role == "audio":
        return _decode_audio
    return _decode_clip if path.suffix.lower() in _CLIPS else _decode_image


def _decode_image(path: Path) -> None:
    from paritygate.media.image_files import read_image  # noqa: PLC0415 - loads NumPy and Pillow

    read_image(path)


def _decode_audio(path: Path) -> None:
    from paritygate.media.audio import read_audio  # noqa: PLC0415 - loads NumPy

    read_audio(path)


def _decode_clip(path: Path) -> None:
    from paritygate.media.video import open_video  # noqa: PLC0415 - loads NumPy

    with open_video(path) as clip:
        for _ in clip:
            pass
