"""The goldens that a case refers to: found, verified, and held against what the case asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from paritygate.errors import GoldenError
from paritygate.goldens.cache import cached
from paritygate.goldens.store import Found, Ref, goldens_folder, local, read_golden, ref_of
from paritygate.manifest.case import Case, Leg, Output
from paritygate.manifest.project import Project
from paritygate.manifest.suite import items as items_of
from paritygate.records.canonical import canonical_json
from paritygate.records.golden import Golden

#: How the output is looked at, not what it is.
_OF_MEASURING = frozenset({"composite"})


class Resolved(NamedTuple):
    """``folders``: leg -> local folder of its verified golden. ``problems``: (leg, message, fix); leg may be empty."""

    folders: dict[str, Path]
    problems: tuple[tuple[str, str, str], ...]


def resolve_for(case: Case, project: Project, legs: tuple[Leg, ...]) -> Resolved:
    """Find and verify every golden that legs of a case, or the inputs of its component, refer to.

    Args:
        case: the case.
        project: where goldens lie.
        legs: the legs that are going to run.

    Raises:
        InfrastructureError: when a golden has to be fetched and its server cannot be reached.
    """
    folders: dict[str, Path] = {}
    problems: list[tuple[str, str, str]] = []
    for leg, data in _named(case, legs):
        folder, found = _resolved(case, project, leg, data)
        problems += [(leg, message, fix) for message, fix in found]
        if leg and folder is not None and not found:
            folders[leg] = folder
    return Resolved(folders, tuple(problems))


def _resolved(
    case: Case, project: Project, leg: str, data: Mapping[str, Any]
) -> tuple[Path | None, list[tuple[str, str]]]:
    """The folder of one golden, and what is wrong with it, each with its fix."""
    try:
        ref = ref_of(data)
        folder, golden = resolve(project, ref)
        # Tensors of a component are inputs: what they were an answer to does not matter.
        found = list(mismatches(case, golden)) if leg else []
    except GoldenError as error:
        return None, [(error.message, error.hint)]
    fix = f"promote a version that answers this case, from: paritygate golden create {case.id}"
    return folder, [(f"golden {ref} {problem}", fix) for problem in found]


def refs(case: Case) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every golden that a case refers to, as (leg or empty for an input of its component, mapping of the manifest)."""
    return _named(case, case.legs)


def resolve(project: Project, ref: Ref) -> Found:
    """A golden, verified now: in the project, else fetched from ``goldens_url`` by its digest.

    Raises:
        GoldenError: when it is missing, altered or hostile; one error that lists everything.
        InfrastructureError: when it has to be fetched and the server cannot be reached.
    """
    folder = local(project, ref)
    if folder is not None:
        return Found(folder, read_golden(folder, ref=ref))
    if project.goldens_url is None:
        raise GoldenError(
            f"golden {ref} is missing: there is no {goldens_folder(project).relative_to(project.root)}/{ref.path}",
            hint="restore it from git, or make it: paritygate golden create CASE, then paritygate golden promote DRAFT",
        )
    return cached(ref, project.goldens_url)


def mismatches(case: Case, golden: Golden) -> Iterator[str]:
    """In what a golden does not answer the case, in the words that follow its name."""
    if (golden.model.id, golden.model.revision) != (case.model.id, case.model.revision):
        theirs, ours = (f"{model.id} at {model.revision}" for model in (golden.model, case.model))
        yield f"was made with {theirs}, the case uses {ours}"
    if golden.task != case.task:
        yield f"was made for the task {golden.task}, the case is {case.task}"
    if canonical_json(golden.output) != canonical_json(declared_output(case.output)):
        yield f"holds the output {_shown(golden.output)}, the case declares {_shown(declared_output(case.output))}"
    if [(media.role, media.sha256) for media in golden.inputs] != [(media.role, media.sha256) for media in case.inputs]:
        yield "was made with other conditioning files (request.inputs)"
    yield from _request_mismatches(case, {item.id: item.request for item in golden.items})


def _request_mismatches(case: Case, held: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The first item that is answered otherwise than asked: the others most often follow from it."""
    wanted = {item.id: item.request for item in items_of(case)}
    if one_sided := sorted(held.keys() ^ wanted.keys()):
        yield f"has {len(held)} items, the suite {len(wanted)}: {one_sided[0]} is only in one of them"
        return
    for item_id in sorted(wanted):
        here, there = wanted[item_id], held[item_id]
        keys = [key for key in sorted({*here, *there}) if _spelled(here, key) != _spelled(there, key)]
        if keys:
            yield f"answers another request for item {item_id}: {', '.join(keys)}"
            return


def _spelled(request: Mapping[str, Any], key: str) -> bytes | None:
    return canonical_json(request[key]) if key in request else None


def declared_output(output: Output) -> dict[str, Any]:
    """What a case declares about its output, as a golden keeps it."""
    return {
        field.name: value
        for field in msgspec.structs.fields(output)
        if field.name not in _OF_MEASURING and (value := getattr(output, field.name)) != field.default
    }


def _named(case: Case, legs: tuple[Leg, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for leg in legs:
        if leg.runner == "golden":
            yield leg.name, leg.spec["golden"]
    if case.component is not None:
        for tensor in case.component.inputs.values():
            yield "", tensor.golden


def _shown(output: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(output.items()))
