"""What the modules of the ``diffusers`` runner share: refusals, spellings, and files that the manifest pins."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paritygate.errors import LegError, MediaError
from paritygate.media.paths import contained
from paritygate.records.canonical import sha256_file
from paritygate.runners.job import Job

#: Components that predict the noise, in the order in which a pipeline uses them.
_DENOISERS = ("transformer", "transformer_2", "unet", "prior", "decoder")


def refused(message: str, *, kind: str = "crash", hint: str = "") -> LegError:
    """The error of a leg that cannot do what its manifest asks."""
    return LegError(message, kind=kind, hint=hint)


def near(name: str, known: Iterable[str]) -> str:
    """``; nearest: a, b`` for the known names that a misspelt one may mean, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=3)
    return f"; nearest: {', '.join(found)}" if found else ""


def declared_file(job: Job, name: str, sha256: str, *, key: str, kind: str = "crash") -> Path:
    """A file of the project, when its bytes are those of the manifest.

    Args:
        job: its ``root`` holds the file.
        name: POSIX path below it.
        sha256: as the manifest says it, with or without ``sha256:``.
        key: of the manifest, which stands before what is wrong.
        kind: the class of failure when the bytes are others.

    Raises:
        LegError: when it is not there, is reached by a link, or is another file.
    """
    try:
        path = contained(Path(job.root), name)
    except MediaError as error:
        raise refused(f"{key}: {error}") from error
    if (found := sha256_file(path).removeprefix("sha256:")) != sha256.removeprefix("sha256:"):
        raise refused(f"{key}: {name} has the sha256 {found}, the manifest says {sha256}", kind=kind)
    return path


def denoisers(pipeline: Any) -> dict[str, Any]:
    """The modules that predict the noise, by the name of their component."""
    components = pipeline.components
    return {name: components[name] for name in _DENOISERS if hasattr(components.get(name), "forward")}
