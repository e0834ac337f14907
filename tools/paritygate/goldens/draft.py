"""A golden that nobody has promoted yet: written from the reference leg, with every reason why it may not count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from paritygate.compare.compare import compare_legs
from paritygate.goldens.layout import new_folder, write_outputs
from paritygate.goldens.needed import declared_output
from paritygate.goldens.store import check_name
from paritygate.manifest.case import Case, Item, Leg, Measure
from paritygate.manifest.project import Project
from paritygate.media.frozen import freeze
from paritygate.records.canonical import sha256_file
from paritygate.records.codec import dumps
from paritygate.records.golden import (
    GOLDEN_NAME,
    Golden,
    GoldenFile,
    GoldenGenerator,
    GoldenInput,
    GoldenItem,
    GoldenModel,
    GoldenReference,
)
from paritygate.records.model import Effective, LegRecord
from paritygate.records.redact import redact
from paritygate.records.store import write_text_atomic

#: Below the artifacts of a project.
DRAFTS = "goldens"
_NOT_CLEAN = "the worktree was not clean: commit what you changed, and make it again"
#: One version, or one commit of the sources.
_PINNED = re.compile(r"(?:===? ?[A-Za-z0-9.!+_-]+|@[0-9a-f]{40})\Z")
#: A folder of this machine at the start of a text, or after what may stand before a path.
_FOLDERS = re.compile(r"""(?:(?<=[\s'":,;=(\[])|(?<=://)|\A)/(?:[^\s/'":,;]+/)+""")


class Made(NamedTuple):
    """How a leg was run, as far as the leg's own record does not say it."""

    contract: str
    weights_verified: bool
    is_snapshot: bool
    versions: dict[str, str | None]
    generator: GoldenGenerator
    reasons: tuple[str, ...]


def drafts_folder(project: Project) -> Path:
    """Where drafts lie: ``<artifacts>/goldens/<name>/<run id>``."""
    return project.root / project.artifacts / DRAFTS


def write_draft(
    case: Case, leg: Leg, record: LegRecord, *, items: tuple[Item, ...], run_dir: Path, made: Made, target: Path
) -> Golden:
    """Write the draft of a leg that ran, whole or not at all.

    Args:
        case: the case.
        leg: the leg that made it.
        record: the leg as run.
        items: the whole suite.
        run_dir: the run directory, which holds the leg's.
        made: how it was run; its reasons and those found here say why the draft cannot be promoted.
        target: the folder of the draft, ``<name>/<run id>``, which does not exist.

    Raises:
        GoldenError: when a file cannot be read or written.
    """
    check_name(target.parent.name)
    effective = record.effective or Effective()
    effective = msgspec.structs.replace(effective, environment=portable(effective.environment, case.root))
    with new_folder(target) as folder:
        write_outputs(record, run_dir / leg.name, folder, items=items, effective=effective)
        golden = _stated(case, leg, name=target.parent.name, items=items, effective=effective, made=made, folder=folder)
        unusable = _output_reasons(case, record, items=items, run_dir=run_dir)
        standing = (reason for reason in standing_reasons(golden) if not made.reasons or reason != _NOT_CLEAN)
        reasons = tuple(dict.fromkeys((*made.reasons, *standing, *unusable)))
        golden = msgspec.structs.replace(golden, promotable=not reasons, reasons=reasons)
        write_text_atomic(folder / GOLDEN_NAME, dumps(golden))
    return golden


def _stated(
    case: Case, leg: Leg, *, name: str, items: tuple[Item, ...], effective: Effective, made: Made, folder: Path
) -> Golden:
    """What ``golden.json`` says of the outputs in a folder, before anybody asks whether they can count."""
    model = GoldenModel(
        id=case.model.id,
        revision=case.model.revision,
        weights=case.model.weights,
        verified=made.weights_verified,
        snapshot=made.is_snapshot,
    )
    reference = GoldenReference(
        runner=leg.runner,
        spec=portable(dict(leg.spec), case.root),
        requires=dict(leg.requires),
        adapter=sha256_file(case.root / leg.adapter) if leg.adapter else None,
        versions=made.versions,
    )
    return Golden(
        name=name,
        version=None,
        case=case.id,
        contract=made.contract,
        claim=case.claim,
        task=case.task,
        model=model,
        items=tuple(GoldenItem(id=item.id, request=dict(item.request)) for item in items),
        output=declared_output(case.output),
        inputs=tuple(GoldenInput(role=media.role, sha256=media.sha256) for media in case.inputs),
        reference=reference,
        settings=effective.settings,
        environment=effective.environment,
        generator=made.generator,
        promotable=True,
        reasons=(),
        files={path: GoldenFile(sha256=file.sha256, size=file.size) for path, file in freeze(folder).items()},
    )


def standing_reasons(golden: Golden) -> Iterator[str]:
    """Why a golden cannot count, as far as its own list says it: so that no edit of the list can say otherwise."""
    if golden.generator.commit is None:
        yield "the project is not in a git repository with a commit, so nothing says from what it was made"
    elif golden.generator.dirty is not False:
        yield _NOT_CLEAN
    if not golden.model.verified and not golden.model.snapshot:
        yield (
            f"the weights of {golden.model.id} were not verified against the revision {golden.model.revision}: use the "
            "snapshot of that commit in the hub's cache, or a revision of the form sha256:, the digest of their folder"
        )
    if not golden.reference.requires:
        yield "the reference pins no distribution: add requires: {name: ==version} to its leg"
    for name, specifier in golden.reference.requires.items():
        if not _PINNED.fullmatch(specifier):
            found = golden.reference.versions.get(name)
            yield f"the reference requires {name} {specifier}, which is not one version: write =={found or 'VERSION'}"


def _output_reasons(case: Case, record: LegRecord, *, items: tuple[Item, ...], run_dir: Path) -> Iterator[str]:
    """What is wrong with the outputs: a golden that cannot be compared with itself can be compared with nothing."""
    nothing = msgspec.structs.replace(case, measure=Measure(exact=("config",), parts=(), output=()))
    invalid = compare_legs(nothing, items, reference=record, candidate=record, run_dir=run_dir).invalid
    yield from dict.fromkeys(finding.message for finding in invalid)


def portable(data: Any, root: Path) -> Any:
    """Plain data without secrets and without folders of this machine; paths below ``root`` become relative."""
    if isinstance(data, str):
        text = redact(data).replace(f"{root}/", "").replace(str(root), ".")
        home = str(Path.home())
        return _FOLDERS.sub(".../", text.replace(home, "~") if home != "/" else text)
    if isinstance(data, Mapping):
        return {portable(key, root): portable(value, root) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [portable(value, root) for value in data]
    return data
