"""Are there the outputs that the suite asks for, all of them and nothing else? Checked before any pixel is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paritygate.manifest.case import Case, Item, Output
from paritygate.media.paths import list_files
from paritygate.records.model import OUTPUTS_FOLDER, Finding, LegRecord, OutputItem

# Role -> one of it, and several.
_NOUNS = {
    "audio": ("sound", "sounds"),
    "image": ("image", "images"),
    "tensors": ("set of tensors", "sets of tensors"),
    "video": ("clip", "clips"),
}


def outputs_per_item(output: Output) -> int:
    """How many outputs each request gives: count times layers."""
    return output.count * (output.layers or 1)


def expected_roles(output: Output) -> dict[str, int]:
    """How many files of which role each request gives. An encoded clip brings its sound in the same file."""
    roles = {
        "images": ("image",),
        "video": ("video",),
        "audio": ("audio",),
        "tensors": ("tensors",),
        "video_audio": ("video",) if output.compared_as == "encoded" else ("video", "audio"),
    }
    return dict.fromkeys(roles[output.kind], outputs_per_item(output))


def sized(output: Output, item: Item) -> Output:
    """The output with the size that this item asks for, where none is declared."""
    width, height = output.width or item.request.get("width"), output.height or item.request.get("height")
    return msgspec.structs.replace(output, width=width, height=height)


def check_structure(case: Case, items: tuple[Item, ...], legs: tuple[LegRecord, ...], run_dir: Path) -> list[Finding]:
    """Every way in which the sets of outputs differ from the suite; empty when both legs hold exactly the suite."""
    if not items or not (case.measure.output or case.measure.exact):
        return [Finding(code="nothing-compared", message="the suite or the list of measurements is empty")]
    return [finding for leg in legs for finding in _leg_findings(case, items, leg, run_dir / leg.name)]


def _leg_findings(case: Case, items: tuple[Item, ...], leg: LegRecord, directory: Path) -> Iterator[Finding]:
    wanted = [item.id for item in items]
    given = Counter(item.id for item in leg.items)
    for item_id in wanted:
        if item_id not in given:
            yield _finding("missing-output", leg, "gave no output", item_id)
    for item_id, times in given.items():
        if item_id not in wanted:
            yield _finding("extra-output", leg, "gave an output that the suite does not ask for", item_id)
        elif times > 1:
            yield _finding("extra-output", leg, f"gave {times} outputs for one item", item_id)
    for item in leg.items:
        yield from _count_findings(case.output, leg, item)
    yield from _file_findings(leg, directory)


def _count_findings(output: Output, leg: LegRecord, item: OutputItem) -> Iterator[Finding]:
    expected = expected_roles(output)
    found = Counter({"image": len(item.images)}) + Counter(media.role for media in item.media)
    for role in dict.fromkeys((*expected, *found)):
        if found[role] != (count := expected.get(role, 0)):
            code = "image-count" if role == "image" else "output-count"
            noun = _NOUNS[role][found[role] != 1]
            yield _finding(code, leg, f"gave {found[role]} {noun}, expected {count}", item.id)


def _file_findings(leg: LegRecord, directory: Path) -> Iterator[Finding]:
    owner: dict[str, str] = {}
    for item in leg.items:
        images = (path for image in item.images for path in (image.path, image.float_path) if path)
        for path in (*images, *(media.path for media in item.media)):
            if path in owner:
                yield _finding("shared-file", leg, f"names {path} twice, first for item {owner[path]}", item.id)
            owner.setdefault(path, item.id)
    present = list_files(directory / OUTPUTS_FOLDER) if (directory / OUTPUTS_FOLDER).is_dir() else ()
    for name in present:
        if f"{OUTPUTS_FOLDER}/{name}" not in owner:
            yield _finding("extra-output", leg, f"left a file that it did not list: {OUTPUTS_FOLDER}/{name}", None)


def _finding(code: str, leg: LegRecord, what: str, item: str | None) -> Finding:
    place = f" (item {item})" if item else ""
    return Finding(code=code, message=f"the {leg.name} leg {what}{place}", item=item)
