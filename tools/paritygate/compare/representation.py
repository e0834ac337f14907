"""What the numbers of a case are taken from, in words."""

from __future__ import annotations

from paritygate.manifest.case import Case

#: What 8-bit pixels were taken from.
_EIGHT_BITS = {
    "encoded": "8-bit pixels decoded from the encoded clips",
    "lossless": "8-bit pixels from lossless files",
    "raw": "8-bit pixels of the raw frames",
}


def representation_words(case: Case) -> str:
    """What the numbers were taken from, for each sort of pixels or for the other kinds of output."""
    output = case.output
    if not case.measure.output:
        return "nothing measured"
    if output.kind == "tensors":
        return "compared as tensors in their own dtypes"
    sound = {"raw": "raw samples", "encoded": "samples decoded from the encoded files"}[output.compared_as]
    if output.kind == "audio":
        return f"compared as {sound}"
    pixels = _EIGHT_BITS[output.compared_as if output.has_video else "lossless"]
    words = {"stored": pixels, "float": "float pixels before rounding"}
    kinds = sorted({entry.pixels for entry in case.measure.output}, reverse=True)
    laid = f", laid on {output.composite}" if output.composite else ""
    heard = f", with {sound}" if output.has_audio else ""
    return "compared as " + " and ".join(words[kind] for kind in kinds) + laid + heard
