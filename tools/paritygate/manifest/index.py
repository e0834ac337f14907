"""All cases of a project: found, read, checked and built, with every problem of every file in one pass."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from paritygate.errors import ManifestError, Problem, UsageError
from paritygate.manifest.build import build, node_id
from paritygate.manifest.cache import ParseCache
from paritygate.manifest.case import Case
from paritygate.manifest.discovery import CASE_SUFFIX, GATE_SUFFIX, Found, discover
from paritygate.manifest.files import Files
from paritygate.manifest.loader import Document, parse
from paritygate.manifest.nodes import Node, nodes
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries, load_registries
from paritygate.manifest.rules.context import CaseContext, GateContext
from paritygate.manifest.rules.table import CASE_RULES, GATE_RULES, REGISTRY_RULES
from paritygate.manifest.schemas import check, has_shape
from paritygate.manifest.source import MAX_BYTES, decode, read_source
from paritygate.manifest.wording import nearest


class Loaded(NamedTuple):
    """The cases that are sound, sorted by id; every problem, sorted; and how many files were read."""

    cases: tuple[Case, ...]
    problems: tuple[Problem, ...]
    files: int


def load_cases(project: Project, registries: Registries, *, only: Path | Sequence[Path] | None = None) -> Loaded:
    """Load the cases beneath the project's case folders, or beneath ``only`` (folders or manifests).

    A file with a problem gives no case. Finding no file at all is not a problem here.

    Raises:
        UsageError: when ``only`` does not exist or lies outside the project.
    """
    load = _Load(project, registries)
    listing = discover(project, [only] if isinstance(only, Path) else only or ())
    load.problems.extend(listing.problems)
    with collector_paused():
        for file in listing.cases:
            load.manifest(file)
        load.report_duplicates()
        for file in listing.gates:
            load.gate(file)
        load.cache.save(is_complete=not only)
    cases = tuple(sorted(load.cases, key=lambda case: case.id))
    return Loaded(cases, tuple(sorted(set(load.problems))), len(listing.cases) + len(listing.gates))


def load_project(project: Project, *, only: Sequence[Path] = ()) -> tuple[Registries, Loaded]:
    """Registries and cases, with the problems of both in one pass.

    Where a registry is broken, what a case refers to in it cannot be judged, and is not reported.

    Raises:
        UsageError: when ``only`` does not exist or lies outside the project.
    """
    try:
        registries = load_registries(project)
    except ManifestError as error:
        loaded = load_cases(project, Registries(), only=only)
        others = [problem for problem in loaded.problems if problem.rule not in REGISTRY_RULES]
        return Registries(), loaded._replace(problems=tuple(sorted([*error.problems, *others])))
    return registries, load_cases(project, registries, only=only)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Thousands of small containers without a cycle: looking for garbage among them again and again finds none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_nodes(project: Project, manifest: str) -> list[Node]:
    """The resolved nodes of one manifest, each value with its origin.

    Raises:
        ManifestError: with the problems that keep it from being resolved.
    """
    reader = Reader(project)
    found, problems = nodes(reader.read(manifest), reader.read)
    if problems:
        raise ManifestError(problems)
    return found


def find_case(loaded: Loaded, name: str) -> tuple[Case, ...]:
    """The cases that ``name`` means: a node id, a case id (all its variants), or the path of a manifest.

    Raises:
        UsageError: when it means none, with the nearest id.
    """
    for matches in (
        [case for case in loaded.cases if case.id == name],
        [case for case in loaded.cases if case.base_id == name],
        [case for case in loaded.cases if _is_manifest(case, name)],
    ):
        if matches:
            return tuple(matches)
    if not loaded.cases:
        raise UsageError(f"no case {name!r}: the project has no case", hint="add one with: paritygate new SLUG")
    hint = nearest(name, {case.id for case in loaded.cases} | {case.base_id for case in loaded.cases})
    raise UsageError(f"no case {name!r}", hint=hint)


def _is_manifest(case: Case, name: str) -> bool:
    return name.endswith(CASE_SUFFIX) and (case.manifest == name or Path(name).resolve() == case.root / case.manifest)


class Reader:
    """Reads and parses files by their project-relative path, each once, through the cache."""

    def __init__(self, project: Project) -> None:
        self.cache = ParseCache(project.root)
        self._root = project.root
        self._prefix = f"{project.root}/"
        self._documents: dict[str, Document] = {}

    def read(self, path: str, *, is_plain: bool = False) -> Document:
        """The document of a file. ``is_plain``: known to be a regular file, no link.

        Raises:
            ManifestError: when there is no text to parse.
        """
        if path not in self._documents:
            self._documents[path] = self._parse(self._source(path, is_plain=is_plain), path)
        return self._documents[path]

    def _source(self, path: str, *, is_plain: bool) -> bytes:
        if is_plain:
            try:
                with open(self._prefix + path, "rb", buffering=0) as file:  # noqa: PTH123 - thousands of files
                    source = file.read(MAX_BYTES + 1)
            except OSError:
                source = b""
            if 0 < len(source) <= MAX_BYTES:
                return source
        return read_source(self._root / path, display=path, root=self._root)

    def _parse(self, source: bytes, path: str) -> Document:
        text = decode(source, display=path)
        key, data = self.cache.get(source)
        if data is not None:
            return Document(text=text, display=path, data=data)
        document = parse(text, display=path)
        if not document.problems and document.data is not None:
            self.cache.put(key, document.data)
        return document


class _Load:
    """One pass over the files of a project, collecting cases and problems."""

    def __init__(self, project: Project, registries: Registries) -> None:
        self.project = project
        self.registries = registries
        self.reader = Reader(project)
        self.cache = self.reader.cache
        self.files = Files(project.root)
        self.cases: list[Case] = []
        self.problems: list[Problem] = []
        self._nodes: dict[str, dict[str | None, Mapping[str, Any]]] = {}
        self._places: dict[str, list[CaseContext]] = {}

    def manifest(self, file: Found) -> None:
        """Add the cases of one manifest, or its problems."""
        self._nodes[file.path] = {}
        try:
            document = self.reader.read(file.path, is_plain=file.is_plain)
        except ManifestError as error:
            self.problems += error.problems
            return
        found, problems = nodes(document, self.reader.read)
        self.problems += problems
        for node in found:
            self._nodes[file.path][node.variant] = node.data
            context = CaseContext(
                node_id(node.data, node.variant), node.data, node.document, self.registries, self.files
            )
            self._places.setdefault(context.id, []).append(context)
            broken = [problem for rule in CASE_RULES for problem in rule.check(context)]
            self.problems += broken
            if not broken:
                self.cases.append(build(node, self.project, file.path))

    def report_duplicates(self) -> None:
        """Two nodes with one id: each place names the other, and neither gives a case."""
        for name, contexts in self._places.items():
            if len(contexts) == 1:
                continue
            for context, other in zip(contexts, [contexts[1], *contexts[:-1]], strict=True):
                file, line, _ = other.document.origin(("id",))
                message = f"the node id {name!r} is taken by {file}:{line}"
                self.problems.append(context.at(("id",), "duplicate-id", message, hint="ids are unique in the project"))
            self.cases = [case for case in self.cases if case.id != name]

    def gate(self, file: Found) -> None:
        """Check one gate file against the nodes of the manifest beside it."""
        manifest = file.path.removesuffix(GATE_SUFFIX) + CASE_SUFFIX
        if manifest not in self._nodes:
            message = f"there is no case {manifest.rpartition('/')[2]} beside this gate file"
            hint = "rename it after its case, or remove it"
            self.problems.append(Problem(file.path, 1, 1, "orphan-gate", message, hint))
            return
        try:
            document = self.reader.read(file.path, is_plain=file.is_plain)
        except ManifestError as error:
            self.problems += error.problems
            return
        problems = [*document.problems, *(check(document, "gate") if has_shape(document) else [])]
        found = self._nodes[manifest]
        # Rules on a gate need a whole gate and a whole case; a broken case has its own problems.
        if not problems and found:
            context = GateContext(document, found, self.registries)
            problems = [problem for rule in GATE_RULES for problem in rule.check(context)]
        self.problems += problems
