"""Compare the two legs of one run: structure, exact layer, checklist, then the output layer.

Nothing is judged here. What cannot be compared is a finding in ``Comparison.invalid``, and then no number is given.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from paritygate.compare.checklist import checklist
from paritygate.compare.effects import effect_results
from paritygate.compare.exact import Context, compare_exact
from paritygate.compare.feature import feature_evidence
from paritygate.compare.measure import Values, results
from paritygate.compare.place import Place, Side, Stored
from paritygate.compare.structure import check_structure, outputs_per_item, sized
from paritygate.errors import MediaError
from paritygate.manifest.case import Case, Item, Measurement
from paritygate.media.npy import decode_float
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.model import SHARED_LATENTS, Comparison, Finding, LegRecord

_Compare = Callable[[Place, tuple[Measurement, ...], "Values | None"], tuple[list[Finding], bool]]
#: Kind of output -> the modules of this room that compare its parts; those of other kinds are not loaded.
_PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": ("sounds",),
        "images": ("images",),
        "tensors": ("tensors",),
        "video": ("clips",),
        "video_audio": ("clips", "sounds"),
    }
)


def compare_legs(
    case: Case, items: tuple[Item, ...], *, reference: LegRecord, candidate: LegRecord, run_dir: Path
) -> Comparison:
    """Everything observed about two legs whose files lie in ``run_dir/<leg name>/``.

    Args:
        case: declares the structure, the measurements and the differences.
        items: the suite, in order.
        reference: the reference leg as run.
        candidate: the candidate leg as run.
        run_dir: the run directory; the legs' files in it are not trusted.

    Returns:
        ``measurements`` is empty when ``invalid`` is not. The exact layer and the checklist are always there.
    """
    invalid = check_structure(case, items, (reference, candidate), run_dir)
    measured, stored, bit_identical = Values(), Stored(), False
    if not invalid:
        sides = (reference, candidate)
        invalid, bit_identical = _measure(case, sides, items=items, run_dir=run_dir, into=measured, stored=stored)
    context = Context(
        item_ids=tuple(item.id for item in items),
        differences=case.differences,
        shared=_shared_digests(case, items, run_dir),
    )
    return Comparison(
        invalid=tuple(invalid),
        exact=compare_exact(_exact_names(case), reference.effective, candidate.effective, context),
        checklist=checklist(
            reference.effective, candidate.effective, case.differences, require=case.checklist_require, stored=stored
        ),
        measurements=() if invalid else results(case.measure.output, measured),
        bit_identical=bit_identical,
        feature=feature_evidence(case, candidate, bit_identical=bit_identical),
        effects=effect_results((reference, candidate)),
    )


def _exact_names(case: Case) -> tuple[str, ...]:
    """What must be equal. Shared latents are a promise, so they are compared even when nobody asks."""
    shared = ("initial_latents",) if case.initial_latents == "shared" else ()
    return tuple(dict.fromkeys((*case.measure.exact, *shared)))


def _measure(
    case: Case,
    legs: tuple[LegRecord, LegRecord],
    *,
    items: tuple[Item, ...],
    run_dir: Path,
    into: Values,
    stored: Stored,
) -> tuple[list[Finding], bool]:
    """Read and measure pair by pair, so that memory holds one pair; returns findings and whether all are equal."""
    invalid: list[Finding] = []
    equal = True
    parts = _comparisons(case.output.kind)
    given = [{item.id: item for item in leg.items} for leg in legs]
    for item in items:
        output = sized(case.output, item)
        sides = [
            Side(leg=leg.name, directory=run_dir / leg.name, item=by_id[item.id])
            for leg, by_id in zip(legs, given, strict=True)
        ]
        for index in range(outputs_per_item(case.output)):
            place = Place(output=output, index=index, reference=sides[0], candidate=sides[1], stored=stored)
            for compare in parts:
                # After the first finding no number counts, and the rest is only checked.
                findings, same = compare(place, case.measure.output, None if invalid else into)
                invalid += findings
                equal = equal and same
    return invalid, equal and not invalid


def _comparisons(kind: str) -> tuple[_Compare, ...]:
    return tuple(
        getattr(importlib.import_module(f"paritygate.compare.{name}"), f"compare_{name}") for name in _PARTS[kind]
    )


def _shared_digests(case: Case, items: tuple[Item, ...], run_dir: Path) -> Mapping[str, str] | str | None:
    if case.initial_latents != "shared":
        return None
    try:
        latents = decode_float(read_contained(run_dir, SHARED_LATENTS), name=SHARED_LATENTS, ndim=None)
    except MediaError as error:
        return error.message
    if len(latents) != len(items):
        return f"{SHARED_LATENTS} holds {len(latents)} tensors for {len(items)} items"
    return {item.id: sha256_bytes(row.tobytes()) for item, row in zip(items, latents, strict=True)}
