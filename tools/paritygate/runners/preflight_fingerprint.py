"""What a report of preflight rests on, in one digest: while it stays, nothing that was read has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from paritygate import __version__
from paritygate.errors import ManifestError
from paritygate.manifest.case import Case, Leg
from paritygate.manifest.contract import contract
from paritygate.records.canonical import canonical_json, sha256_bytes
from paritygate.runners.drivers import Card
from paritygate.runners.leg import interpreter
from paritygate.runners.preflight_legs import LegState

#: Variables that say where something is found or how it loads; their beginnings.
_VARIABLES = (
    "ASCEND",
    "CUDA",
    "DIFFUSERS",
    "HF_",
    "HIP",
    "HSA",
    "LD_",
    "NVIDIA",
    "PATH",
    "PYTHON",
    "ROCR",
    "TORCH",
    "TRANSFORMERS",
    "USE_",
)


def fingerprint(
    case: Case,
    legs: tuple[Leg, ...],
    *,
    folder: Path,
    states: Mapping[str, LegState],
    cards: tuple[Card, ...],
    environ: Mapping[str, str],
) -> str:
    """A digest over the contract, every file by its place, size and times, interpreters, variables and cards.

    Files are not read, so it costs as much as listing them. Empty when there can be no report to go back to: a file
    of the case cannot be read, or an interpreter cannot be used.

    Args:
        case: the case.
        legs: the legs of the report.
        folder: the weights.
        states: what was found of each leg.
        cards: what the driver lists.
        environ: where variables are looked up.
    """
    try:
        data = {
            "version": __version__,
            "contract": contract(case),
            "legs": [leg.name for leg in legs],
            "specs": [msgspec.to_builtins(leg) for leg in legs],
            "files": [_state(path) for path in (*_files(folder), *_read(case, legs))],
            "interpreters": {
                leg.name: [os.path.realpath(interpreter(case, leg)), msgspec.to_builtins(found)]
                for leg in legs
                if (found := states[leg.name].interpreter)
            },
            "variables": {name: value for name, value in environ.items() if name.startswith(_VARIABLES)},
            "cards": msgspec.to_builtins(cards),
        }
    except (ManifestError, OSError):
        return ""
    return sha256_bytes(canonical_json(data))


def _files(folder: Path) -> Iterator[Path]:
    """Every file below a folder, also where a component is a link to another folder."""
    seen: set[tuple[int, int]] = set()
    for place, below, names in os.walk(folder, followlinks=True):
        state = Path(place).stat()
        if (state.st_dev, state.st_ino) in seen:  # a link that leads back
            below.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        below.sort()
        yield from (Path(place, name) for name in sorted(names))


def _read(case: Case, legs: tuple[Leg, ...]) -> Iterator[Path]:
    """The files of the project that preflight reads besides the weights."""
    yield from (case.root / media.path for media in case.inputs)
    for leg in legs:
        yield from (case.root / asset.path for asset in leg.assets)
        yield from (case.root / entry["path"] for entry in leg.spec.get("lora") or ())
        if leg.runner == "import":
            yield from _files(case.root / leg.spec["folder"])


def _state(path: Path) -> list[str | int]:
    """What changes when a file is written, exchanged or linked elsewhere.

    Raises:
        OSError: when it is not there.
    """
    found = path.stat()
    return [str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
