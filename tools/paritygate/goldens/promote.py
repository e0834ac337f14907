"""Draft -> the next version of a golden: looked at, given a reason, never written over."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from paritygate.errors import GoldenError, UsageError
from paritygate.goldens.distance import Distance, distances
from paritygate.goldens.draft import drafts_folder, standing_reasons
from paritygate.goldens.layout import copy_golden, new_folder
from paritygate.goldens.needed import refs, resolve
from paritygate.goldens.store import Ref, check_name, goldens_folder, local, read_golden, read_list, ref_of, versions
from paritygate.manifest.case import Case
from paritygate.manifest.project import Project
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps
from paritygate.records.golden import GOLDEN_NAME, Golden, parse_golden
from paritygate.records.store import write_text_atomic


class Promoted(NamedTuple):
    """The new version, its folder, and how far it lies from the version before, if there is one."""

    ref: Ref
    folder: Path
    before: Ref | None
    moved: tuple[Distance, ...]


def promote(project: Project, draft: Path, *, reason: str, oracle: str | None, cases: Iterable[Case] = ()) -> Promoted:
    """Give a draft the next version of its name.

    Args:
        project: where goldens lie.
        draft: the folder of the draft.
        reason: why this is right; kept in the golden.
        oracle: evidence that does not come from the golden itself (a component that was compared, an official
            output); needed when it replaces a version, since a golden that moved proves nothing about where to.
        cases: all cases of the project; with ``goldens_url``, versions that they name exist wherever they lie.

    Raises:
        UsageError: for an empty reason, and when the oracle is missing.
        GoldenError: when the draft or the version before is not what its list says, or cannot be promoted.
        InfrastructureError: when the version before has to be fetched and the server cannot be reached.
    """
    golden = read_golden(draft)
    _refuse(golden, draft)
    if not reason.strip():
        raise UsageError("a promotion needs a reason", hint='write --reason "why these outputs are right"')
    folder = goldens_folder(project) / golden.name
    before, earlier = _newest(project, golden.name, cases) or (None, None)
    if before is not None and not (oracle or "").strip():
        raise UsageError(
            f"{golden.name} has version {before.version} already: a golden that replaces one needs an oracle",
            hint='write --oracle "what shows independently that the new outputs are right"',
        )
    moved = distances(earlier, draft) if earlier else ()
    version = before.version + 1 if before else 1
    promoted = msgspec.structs.replace(
        golden,
        version=version,
        reason=reason.strip(),
        oracle=(oracle or "").strip() or None,
        replaces=before.digest if before else None,
    )
    text = dumps(promoted)
    target = folder / f"v{version}"
    with new_folder(target) as staging:
        copy_golden(draft, staging, tuple(golden.files))
        write_text_atomic(staging / GOLDEN_NAME, text)
        ref = Ref(golden.name, version, sha256_bytes(text.encode()))
        # What is promoted is what was written, not what was meant to be.
        read_golden(staging, ref=ref)
    return Promoted(ref, target, before, moved)


def find_draft(project: Project, name: str) -> Path:
    """The draft that a path, ``<name>/<run id>`` or a run id means.

    Raises:
        UsageError: when it means none, or several.
    """
    found = [path for path in (Path(name), drafts_folder(project) / name) if (path / GOLDEN_NAME).is_file()]
    if not found and "/" not in name and name not in ("", ".", ".."):
        found = [path for path in drafts(project) if path.name == name]
    if len({path.resolve() for path in found}) != 1:
        raise UsageError(
            f"{name!r:.200} means {'several drafts' if found else 'no draft'}",
            hint="name the folder of one; paritygate golden list shows them",
        )
    return found[0]


def drafts(project: Project) -> tuple[Path, ...]:
    """The folders of all drafts, by name and time."""
    return tuple(sorted(path.parent for path in drafts_folder(project).glob(f"*/[!.]*/{GOLDEN_NAME}")))


def _refuse(golden: Golden, draft: Path) -> None:
    if golden.version is not None:
        raise UsageError(f"{draft} is {golden.name} v{golden.version}, not a draft", hint="name a draft")
    reasons = golden.reasons or tuple(standing_reasons(golden))
    if reasons or not golden.promotable:
        lines = [f"  {reason}" for reason in reasons]
        raise GoldenError(
            "\n".join([f"the draft {draft.name} of {golden.name} cannot be promoted", *lines]),
            hint=f"mend that, then run: paritygate golden create {golden.case}",
        )


def _newest(project: Project, name: str, cases: Iterable[Case]) -> tuple[Ref, Path] | None:
    """The newest version of a golden and its local folder, verified.

    Raises:
        GoldenError: when it is not what its list says: a golden that cannot be trusted cannot be replaced.
    """
    check_name(name)
    found = versions(goldens_folder(project) / name)
    if project.goldens_url is not None:
        named = [ref_of(data) for case in cases for _, data in refs(case) if data["name"] == name]
        newer = [ref for ref in named if ref.version > max(found, default=0)]
        if newer:
            ref = max(newer, key=lambda entry: entry.version)
            return ref, resolve(project, ref).folder
    newest = local(project, Ref(name, found[-1] if found else 1, ""))
    if newest is None:
        return None
    data = read_list(newest, what=f"golden {name} v{found[-1]}")
    ref = Ref(name, found[-1], sha256_bytes(data))
    parse_golden(data, source=f"golden {ref}: {GOLDEN_NAME}")
    read_golden(newest, ref=ref)
    return ref, newest
