"""Every gate file of a project, checked without running anything: bounds, variants, evidence, orphans."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from paritygate.errors import ManifestError, Problem
from paritygate.gates.evidence import check_evidence
from paritygate.gates.files import Gate, load_gate
from paritygate.manifest.case import Case


def check_gates(cases: Iterable[Case]) -> tuple[Problem, ...]:
    """Every problem of the gate files beside the manifests of ``cases``, sorted, each once.

    Args:
        cases: all variants of each case; a gate for a variant that is not among them is a problem.
    """
    by_file: dict[Path, list[Case]] = defaultdict(list)
    for case in cases:
        by_file[case.gate_file].append(case)
    problems: set[Problem] = set()
    for variants in by_file.values():
        problems.update(_file_problems(variants))
    roots = {path.parent: variants[0].root for path, variants in by_file.items()}
    for folder, root in roots.items():
        problems.update(_orphans(folder, root))
    return tuple(sorted(problems))


def _file_problems(variants: list[Case]) -> Iterator[Problem]:
    gate: Gate | None = None
    for case in variants:
        try:
            gate = load_gate(case)
        except ManifestError as error:
            yield from error.problems
            return
        if gate is not None:
            yield from check_evidence(case, gate)
    if gate is not None:
        yield from _variant_problems(gate, variants)


def _variant_problems(gate: Gate, variants: list[Case]) -> Iterator[Problem]:
    known = [case.variant for case in variants]
    names = sorted(name for name in known if name is not None)
    for profile in gate.profiles:
        if profile.variant in known:
            continue
        wanted = "no variant" if profile.variant is None else f"the variant {profile.variant!r}"
        near = difflib.get_close_matches(profile.variant or "", names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"its variants are: {', '.join(names) or 'none'}"
        pointer = (*profile.pointer, "variant") if profile.variant is not None else profile.pointer
        yield gate.document.problem(pointer, "gate-variant", f"{wanted} is not a case of {gate.case}", hint=hint)


def _orphans(folder: Path, root: Path) -> Iterator[Problem]:
    for path in folder.glob("*.gate.yaml"):
        manifest = path.with_name(path.name.removesuffix(".gate.yaml") + ".case.yaml")
        if not manifest.exists():
            display = path.relative_to(root).as_posix()
            message = f"no manifest {manifest.name} stands beside this gate file, so it judges nothing"
            yield Problem(display, 1, 1, "gate-orphan", message, "rename it, or remove it")
