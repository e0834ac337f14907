"""Are there the outputs that the suite asks for, all of them and nothing else? Checked before any pixel is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paritygate.manifest.case import Case, Item, Output
from paritygate.media.paths import list_files
from paritygate.records.model import OUTPUTS_FOLDER, Finding, LegRecord


def images_per_item(case: Case) -> int:
    """How many images each request gives: count times layers."""
    return case.output.count * (case.output.layers or 1)


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
    count = images_per_item(case)
    for item in leg.items:
        if len(item.images) != count:
            yield _finding("image-count", leg, f"gave {len(item.images)} images, expected {count}", item.id)
    yield from _file_findings(leg, directory)


def _file_findings(leg: LegRecord, directory: Path) -> Iterator[Finding]:
    owner: dict[str, str] = {}
    for item in leg.items:
        for image in item.images:
            for path in filter(None, (image.path, image.float_path)):
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
