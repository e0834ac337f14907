"""Which goldens there are, which cases use them, and what is wrong with either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paritygate.errors import GoldenError, InfrastructureError
from paritygate.goldens.cache import in_cache
from paritygate.goldens.needed import refs, resolve
from paritygate.goldens.promote import drafts
from paritygate.goldens.store import (
    Ref,
    check_name,
    entries,
    goldens_folder,
    local,
    read_golden,
    read_list,
    ref_of,
    versions,
)
from paritygate.manifest.case import Case
from paritygate.manifest.project import Project
from paritygate.records.canonical import sha256_bytes
from paritygate.records.golden import parse_golden


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a golden. ``cases`` are those that use it.

    ``state``: ``used``, ``orphan`` (no case refers to it) or ``missing`` (nothing but a reference to it).
    ``place``: ``folder``, ``cache``, ``url`` (not fetched yet) or nothing.
    """

    name: str
    version: int
    state: str
    place: str
    cases: tuple[str, ...]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One draft. ``path`` is relative to the project where it lies in it."""

    name: str
    path: str
    promotable: bool
    reasons: tuple[str, ...]


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What verifying one version found. ``problem`` is empty when every byte is as frozen."""

    name: str
    version: int
    digest: str
    cases: tuple[str, ...]
    problem: str
    fix: str


def listed(project: Project, cases: Iterable[Case]) -> tuple[Listed, ...]:
    """Every version of every golden that lies in the project or that a case refers to, by name and version."""
    used: dict[tuple[str, int], list[str]] = {}
    named: dict[tuple[str, int], Ref] = {}
    for case in cases:
        for _, data in refs(case):
            key = (str(data["name"]), int(data["version"]))
            used.setdefault(key, []).append(case.id)
            named[key] = Ref(*key, data["digest"])
    here = set(_in_folder(project))
    found = []
    for name, version in sorted({*here, *used}):
        place = "folder" if (name, version) in here else _elsewhere(project, named[name, version])
        state = "missing" if not place else "used" if (name, version) in used else "orphan"
        who = tuple(dict.fromkeys(used.get((name, version), ())))
        found.append(Listed(name=name, version=version, state=state, place=place, cases=who))
    return tuple(found)


def listed_drafts(project: Project) -> tuple[Draft, ...]:
    """The drafts in the project's artifacts; one that cannot be read says so."""
    return tuple(_draft(project, path) for path in drafts(project))


def verified(project: Project, cases: Iterable[Case], names: tuple[str, ...] = ()) -> tuple[Checked, ...]:
    """Verify every golden in the project, and every one that a case refers to, as the manifest names it.

    Args:
        project: where goldens lie.
        cases: all cases of the project.
        names: verify these only; all by default.

    Raises:
        GoldenError: for a name that no golden and no reference has.
        InfrastructureError: when one has to be fetched, the server cannot be reached, and nothing else is wrong.
    """
    wanted: dict[tuple[str, int, str], list[str]] = {}
    for case in cases:
        for _, data in refs(case):
            wanted.setdefault((str(data["name"]), int(data["version"]), data["digest"]), []).append(case.id)
    known = {(name, version) for name, version, _ in wanted}
    for name, version in _in_folder(project):
        if (name, version) not in known:
            wanted[name, version, ""] = []
    if unknown := set(names) - {name for name, _, _ in wanted}:
        raise GoldenError(
            f"no golden {', '.join(sorted(unknown))}: neither in {project.goldens}/ nor in a manifest",
            hint="paritygate golden list shows all",
        )
    chosen = sorted(key for key in wanted if not names or key[0] in names)
    unreachable: list[InfrastructureError] = []
    strays = tuple(_strays(project, names))
    checked = tuple(_check(project, key, wanted[key], unreachable) for key in chosen)
    # A server that is away must not hide what was altered.
    if unreachable and len([entry for entry in (*strays, *checked) if entry.problem]) == len(unreachable):
        raise unreachable[0]
    return (*strays, *checked)


def _check(
    project: Project, key: tuple[str, int, str], cases: list[str], unreachable: list[InfrastructureError]
) -> Checked:
    """Verify one version; where its server cannot be reached, that is added to ``unreachable``."""
    name, version, digest = key
    problem = fix = ""
    try:
        if digest:
            resolve(project, ref_of({"name": name, "version": version, "digest": digest}))
        else:
            folder = local(project, Ref(name, version, ""))
            assert folder is not None, "it was found there"
            digest = sha256_bytes(read_list(folder, what=f"golden {name} v{version}"))
            read_golden(folder, ref=Ref(name, version, digest))
    except (GoldenError, InfrastructureError) as error:
        problem, fix = error.message, error.hint
        if isinstance(error, InfrastructureError):
            unreachable.append(error)
    return Checked(
        name=name, version=version, digest=digest, cases=tuple(dict.fromkeys(cases)), problem=problem, fix=fix
    )


def _in_folder(project: Project) -> Iterator[tuple[str, int]]:
    for folder in entries(goldens_folder(project)):
        yield from ((folder.name, version) for version in versions(folder))


def _strays(project: Project, names: tuple[str, ...]) -> Iterator[Checked]:
    """What lies in the folder of goldens and is none: it would never be verified."""
    root = goldens_folder(project)
    for path in entries(root):
        if names and path.name not in names:
            continue
        for stray in _stray_paths(path):
            yield Checked(
                name=path.name,
                version=0,
                digest="",
                cases=(),
                problem=f"{project.goldens}/{stray.relative_to(root).as_posix()} is no golden",
                fix="remove it; goldens lie in <name>/v<version>/",
            )


def _stray_paths(path: Path) -> Iterator[Path]:
    try:
        check_name(path.name)
    except GoldenError:
        yield path
        return
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    known = {f"v{version}" for version in versions(path)}
    yield from (inner for inner in entries(path) if inner.name not in known)


def _elsewhere(project: Project, ref: Ref) -> str:
    if project.goldens_url is None:
        return ""
    return "cache" if in_cache(ref) else "url"


def _draft(project: Project, path: Path) -> Draft:
    shown = path.relative_to(project.root).as_posix() if path.is_relative_to(project.root) else str(path)
    try:
        golden = parse_golden(read_list(path, what=f"the draft {path.name}"), source=shown)
    except GoldenError as error:
        return Draft(name=path.parent.name, path=shown, promotable=False, reasons=(error.message,))
    return Draft(name=golden.name, path=shown, promotable=golden.promotable, reasons=golden.reasons)


def snippet(ref: Ref) -> Mapping[str, Any]:
    """The mapping that a manifest names a golden by."""
    return {"name": ref.name, "version": ref.version, "digest": ref.digest}
