"""The ``import`` runner: outputs and stage dumps made elsewhere, on another machine or by another engine.

The folder says where it comes from (``import.json``) and lists the digest of every file; nothing is read before all of
them were verified.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import msgspec

from paritygate.errors import ArtifactError, LegError, MediaError
from paritygate.media.frozen import FrozenFile, frozen_problems
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import loads
from paritygate.records.model import OUTPUTS_FOLDER, Effective
from paritygate.runners import delivery
from paritygate.runners.job import Job, Writer
from paritygate.runners.stage_dumps import read_stages

IMPORT_NAME = "import.json"
IMPORT_SCHEMA_VERSION = 1
#: The exact items that an import can show.
_EXACT = ("token_ids", "timesteps", "sigmas", "initial_latents", "config")

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, pattern=r"\S")]


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who or what made a folder (``made_by``, in which ``version``), where, when, and by which command."""

    made_by: _Text
    version: _Text
    machine: _Text
    made_on: dt.date
    command: _Text
    notes: str = ""


class ImportedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weights that were used."""

    id: str
    revision: str


class Import(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``import.json``. ``files`` lists every other file of the folder, by relative POSIX path."""

    schema_version: int
    provenance: Provenance
    model: ImportedModel
    files: dict[str, FrozenFile]


def run(job: Job, writer: Writer) -> None:
    """Verify the folder and store what it holds; exact items that it does not show are pending.

    Raises:
        LegError: when the folder is not what its list, the leg or the case says.
    """
    folder = Path(job.root) / job.spec["folder"]
    found = _checked(job, folder)
    if problems := frozen_problems(folder, found.files, beside=(IMPORT_NAME,)):
        raise _refusal(job, "; ".join(problems))
    outputs = folder / OUTPUTS_FOLDER
    with delivery.collecting(problems, "", folder):
        effective = read_stages(folder, delivery.read_effective(outputs), items=job.items)
        delivery.report(effective, writer)
        writer.pending(*_pending(effective, job))
    writer.environment("import", msgspec.to_builtins(found.provenance))
    problems += delivery.read_outputs(outputs, writer)
    delivery.refuse(problems, kind="crash")


def _checked(job: Job, folder: Path) -> Import:
    """What ``import.json`` says, when it is the pinned one and about the model of the case."""
    try:
        data = read_contained(folder, IMPORT_NAME)
        found = loads(data, Import, source=IMPORT_NAME)
    except (ArtifactError, MediaError) as error:
        raise _refusal(job, error.message) from error
    if found.schema_version != IMPORT_SCHEMA_VERSION:
        raise _refusal(job, f"{IMPORT_NAME} has schema_version {found.schema_version}, read is {IMPORT_SCHEMA_VERSION}")
    pinned, digest = job.spec.get("digest"), sha256_bytes(data)
    if pinned not in (None, digest):
        raise _refusal(job, f"{IMPORT_NAME} has the digest {digest}, the leg pins {pinned}")
    for name, stated, wanted in (
        ("id", found.model.id, job.model_id),
        ("revision", found.model.revision, job.model_revision),
    ):
        if stated != wanted:
            raise _refusal(job, f"it was made with model.{name} {stated!r}, the case has {wanted!r}")
    return found


def _pending(effective: Effective, job: Job) -> list[str]:
    """The exact items that could have been shown and are not, for every request of the suite."""
    ids = {item.id for item in job.items}
    shown = {
        "token_ids": ids <= effective.token_ids.keys(),
        "timesteps": bool(effective.timesteps),
        "sigmas": bool(effective.sigmas),
        "initial_latents": ids <= effective.initial_latents.keys(),
        "config": any(name.startswith("config.") for name in effective.settings),
    }
    return [name for name in _EXACT if not shown[name]]


def _refusal(job: Job, text: str) -> LegError:
    return LegError(
        f"the import {job.spec['folder']} is refused: {text}",
        kind="crash",
        hint="export it again where it was made, and copy it whole",
    )
