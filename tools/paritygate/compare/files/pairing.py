"""Two files or two folders -> pairs by relative name. What has no partner is a finding, never left out silently."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from paritygate.compare.checklist import counted, listing
from paritygate.compare.files.kinds import kind_of
from paritygate.errors import MediaError, UsageError
from paritygate.media.tensors import sidecars
from paritygate.metrics.specs import Kind
from paritygate.records.model import Finding

#: Files that systems leave in folders; hidden ones (a name that begins with a dot) count as such too.
JUNK = frozenset({"desktop.ini", "Thumbs.db", "__MACOSX"})

_SIDES = ("reference", "candidate")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two files, or two folders of frames, and what they are compared as."""

    name: str
    kind: Kind
    reference: Path
    candidate: Path


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Everything that was found; ``findings`` are failures."""

    pairs: tuple[Pair, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def pair_up(reference: Path, candidate: Path, *, declared: Kind | None = None, ignore: Sequence[str] = ()) -> Pairing:
    """Pair two files, two folders of frames (``declared="video"``), or the files of two folders.

    Files of folders are paired by their path below the folder; those left over by that path without its ending, where
    one on each side has it. Hidden and system files are left out and counted in a note, as is what ``ignore`` matches.
    Links to files are followed; links to folders are findings.

    Raises:
        UsageError: when a side does not exist, when one is a file and the other a folder, and for a folder that is
            compared as one tensor, image or sound.
    """
    for side in (reference, candidate):
        if not os.path.lexists(side):
            raise UsageError(f"{side} does not exist")
    folders = [side.is_dir() for side in (reference, candidate)]
    if not any(folders) or declared == "video":
        return _paired([(candidate.name or str(candidate), reference, candidate)], (), declared)
    if not all(folders):
        one, other = ("folder", "file") if folders[0] else ("file", "folder")
        raise UsageError(
            f"{reference} is a {one}, {candidate} a {other}",
            hint="give two files or two folders; --as video takes a folder of frames for a clip",
        )
    if not os.access(reference, os.R_OK | os.X_OK) or not os.access(candidate, os.R_OK | os.X_OK):
        raise UsageError("a folder cannot be read", hint="check its permissions")
    return _folders(reference, candidate, declared=declared, ignore=ignore)


def _folders(reference: Path, candidate: Path, *, declared: Kind | None, ignore: Sequence[str]) -> Pairing:
    findings: list[Finding] = []
    notes: list[str] = []
    found = []
    for side, root in (("reference", reference), ("candidate", candidate)):
        names, left_out = names_below(root, ignore=ignore, findings=findings, side=side)
        found.append(names)
        notes += [f"{side}: {counted(len(part), what)} left out: {listing(part)}" for what, part in left_out if part]
    left, right = found
    matched = {name: name for name in left if name in right}
    matched |= _by_stem(sorted(left - matched.keys()), sorted(right - set(matched.values())))
    for side, names in (("candidate", left - matched.keys()), ("reference", right - set(matched.values()))):
        code = "missing" if side == "candidate" else "extra"
        findings += [_finding(code, f"the {side} has no {name!r}", name) for name in sorted(names)]
    triples = [(_shown(ours, theirs), reference / ours, candidate / theirs) for ours, theirs in sorted(matched.items())]
    return _paired(triples, findings, declared, notes)


def _shown(ours: str, theirs: str) -> str:
    return ours if ours == theirs else f"{ours} / {PurePosixPath(theirs).name}"


def _paired(
    triples: Iterable[tuple[str, Path, Path]],
    findings: Iterable[Finding],
    declared: Kind | None,
    notes: Iterable[str] = (),
) -> Pairing:
    pairs, faults, told = [], list(findings), list(notes)
    for name, *sides in triples:
        found = [_kind(name, side, path, declared) for side, path in zip(_SIDES, sides, strict=True)]
        faults += [fault for fault in found if isinstance(fault, Finding)]
        kinds = [kind for kind in found if not isinstance(kind, Finding)]
        if len(kinds) < len(sides):
            continue
        if kinds[0] != kinds[1]:
            message = f"the reference is {kinds[0]}, the candidate {kinds[1]}"
            faults.append(_finding("kind", message, name))
            continue
        if sides[0].samefile(sides[1]):
            told.append(f"{name}: both sides are the same file, so that they are equal says nothing")
        pairs.append(Pair(name=name, kind=kinds[0], reference=sides[0], candidate=sides[1]))
    if not pairs and not faults:
        faults.append(Finding(code="nothing-compared", message="there is nothing to compare: no file on either side"))
    return Pairing(pairs=tuple(pairs), findings=tuple(faults), notes=tuple(told))


def _kind(name: str, side: str, path: Path, declared: Kind | None) -> Kind | Finding:
    try:
        return kind_of(path, declared=declared)
    except MediaError as error:
        return _finding(error.kind, f"the {side}: {error.message}", name)


def names_below(
    root: Path, *, ignore: Sequence[str], findings: list[Finding], side: str
) -> tuple[set[str], tuple[tuple[str, list[str]], ...]]:
    """Relative names of what is compared, and what is left out by reason; ``findings`` grows by what is refused."""
    names: set[str] = set()
    hidden: list[str] = []
    ignored: list[str] = []
    descriptions: list[str] = []
    for path in _walk(root, findings=findings, side=side):
        name = path.relative_to(root).as_posix()
        if any(part.startswith(".") or part in JUNK for part in PurePosixPath(name).parts):
            hidden.append(name)
        elif any(fnmatch(name, pattern) for pattern in ignore):
            ignored.append(name)
        elif path.is_symlink() and path.is_dir():
            findings.append(_finding("path", f"the {side}: {name!r} is a link to a folder; it is not followed", name))
        else:
            names.add(name)
    raw = [root / name for name in names if name.lower().endswith(".bin")]
    described = {sidecar.relative_to(root).as_posix() for path in raw for sidecar in sidecars(path)}
    descriptions = sorted(names & described)
    return names - described, (
        ("hidden or system file", sorted(hidden)),
        ("ignored file", sorted(ignored)),
        ("sidecar", descriptions),
    )


def _walk(root: Path, *, findings: list[Finding], side: str) -> Iterator[Path]:
    def failed(error: OSError) -> None:
        name = Path(str(error.filename)).name
        findings.append(_finding("unreadable", f"the {side}: {name}: {error.strerror or error}", name))

    for folder, directories, files in os.walk(root, onerror=failed, followlinks=False):
        for name in sorted(files):
            yield Path(folder) / name
        yield from (Path(folder) / name for name in sorted(directories) if (Path(folder) / name).is_symlink())


def _by_stem(left: Sequence[str], right: Sequence[str]) -> dict[str, str]:
    """Names of the left with the one on the right that differs in nothing but its ending."""
    groups: list[dict[str, list[str]]] = []
    for names in (left, right):
        group: dict[str, list[str]] = defaultdict(list)
        for name in names:
            group[PurePosixPath(name).with_suffix("").as_posix()].append(name)
        groups.append(group)
    ours, theirs = groups
    return {
        names[0]: theirs[stem][0] for stem, names in ours.items() if len(names) == 1 and len(theirs.get(stem, ())) == 1
    }


def _finding(code: str, message: str, name: str) -> Finding:
    return Finding(code=code, message=message, item=name)
