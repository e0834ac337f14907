"""One pair of images of a request: verified, laid on a colour where that is declared, measured."""

from __future__ import annotations

import numpy as np

from paritygate.compare.measure import Values, wanted_metrics
from paritygate.compare.pixels import Pixels, laid_on, load_pixels
from paritygate.compare.place import Place
from paritygate.manifest.case import Measurement
from paritygate.records.model import Finding


def compare_images(
    place: Place, measurements: tuple[Measurement, ...], into: Values | None
) -> tuple[list[Finding], bool]:
    """Findings about one pair, and whether the stored pixels are equal; layers are images, one after the other.

    Args:
        place: which pair.
        measurements: what the case measures.
        into: where the numbers go; None to check only.
    """
    output = place.output
    loaded, findings = place.load(
        lambda side: load_pixels(output, side.item.images[place.index], directory=side.directory)
    )
    if findings:
        return findings, False
    reference, candidate = loaded
    equal = np.array_equal(reference.stored, candidate.stored)
    if into is None:
        return [], equal
    if finding := _unequal_shapes(reference, candidate, place.item):
        return [finding], False
    if output.composite:
        reference, candidate = (laid_on(pixels, output.composite, alpha=str(output.alpha)) for pixels in loaded)
    wanted = wanted_metrics(measurements, ("image",))
    into.add_images(place.key, reference, candidate, wanted=wanted, mode=output.measured_mode)
    return [], equal


def _unequal_shapes(reference: Pixels, candidate: Pixels, item: str) -> Finding | None:
    """A case that declares no size still needs equal sizes."""
    if reference.stored.shape == candidate.stored.shape:
        return None
    sizes = [f"{pixels.stored.shape[1]}x{pixels.stored.shape[0]}" for pixels in (reference, candidate)]
    message = f"item {item}: the reference is {sizes[0]}, the candidate {sizes[1]}; nothing is resized"
    return Finding(code="size", message=message, item=item)
