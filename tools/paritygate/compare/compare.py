"""Compare the two legs of one run: structure, exact layer, checklist, then the output layer.

Nothing is judged here. What cannot be compared is a finding in ``Comparison.invalid``, and then no number is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from paritygate.compare.checklist import checklist
from paritygate.compare.exact import Context, compare_exact
from paritygate.compare.feature import feature_evidence
from paritygate.compare.measure import Values, results, wanted_metrics
from paritygate.compare.pixels import Pixels, load_pixels
from paritygate.compare.structure import check_structure, images_per_item, sized
from paritygate.errors import MediaError
from paritygate.manifest.case import Case, Item
from paritygate.media.npy import decode_float
from paritygate.media.paths import read_contained
from paritygate.records.canonical import sha256_bytes
from paritygate.records.model import SHARED_LATENTS, Comparison, Finding, LegRecord


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
    measured, bit_identical = Values(), False
    if not invalid:
        invalid, bit_identical = _measure(case, reference, candidate, items=items, run_dir=run_dir, into=measured)
    context = Context(
        item_ids=tuple(item.id for item in items),
        differences=case.differences,
        shared=_shared_digests(case, items, run_dir),
    )
    return Comparison(
        invalid=tuple(invalid),
        exact=compare_exact(_exact_names(case), reference.effective, candidate.effective, context),
        checklist=checklist(reference.effective, candidate.effective, case.differences, require=case.checklist_require),
        measurements=() if invalid else results(case.measure.output, measured),
        bit_identical=bit_identical,
        feature=feature_evidence(case, candidate, bit_identical=bit_identical),
    )


def _exact_names(case: Case) -> tuple[str, ...]:
    """What must be equal. Shared latents are a promise, so they are compared even when nobody asks."""
    shared = ("initial_latents",) if case.initial_latents == "shared" else ()
    return tuple(dict.fromkeys((*case.measure.exact, *shared)))


def _measure(
    case: Case, reference: LegRecord, candidate: LegRecord, *, items: tuple[Item, ...], run_dir: Path, into: Values
) -> tuple[list[Finding], bool]:
    """Read and measure pair by pair, so that memory holds one pair; returns findings and whether all are equal."""
    invalid: list[Finding] = []
    equal = True
    wanted = wanted_metrics(case.measure.output)
    files = [{item.id: item.images for item in leg.items} for leg in (reference, candidate)]
    for item in items:
        output = sized(case.output, item)
        for index in range(images_per_item(case)):
            pair = [
                load_pixels(output, by_item[item.id][index], directory=run_dir / leg.name, leg=leg.name, item=item.id)
                for leg, by_item in zip((reference, candidate), files, strict=True)
            ]
            left, right = pair
            if isinstance(left, Pixels) and isinstance(right, Pixels):
                equal = equal and np.array_equal(left.stored, right.stored)
                if not invalid and (finding := _unequal_shapes(left, right, item.id)):
                    pair.append(finding)
                elif not invalid:
                    into.add(f"{item.id}/{index}", left, right, wanted=wanted)
            invalid += [side for side in pair if isinstance(side, Finding)]
    return invalid, equal and not invalid


def _unequal_shapes(reference: Pixels, candidate: Pixels, item: str) -> Finding | None:
    """A case that declares no size still needs equal sizes."""
    if reference.stored.shape == candidate.stored.shape:
        return None
    sizes = [f"{pixels.stored.shape[1]}x{pixels.stored.shape[0]}" for pixels in (reference, candidate)]
    message = f"item {item}: the reference is {sizes[0]}, the candidate {sizes[1]}; nothing is resized"
    return Finding(code="size", message=message, item=item)


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
