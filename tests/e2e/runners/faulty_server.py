"""The example server with one named defect: ``python faulty_server.py DEFECT --model ...``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from openai_server import engine, reports
from openai_server.__main__ import main

_task = engine.Engine.task
_told = reports.Reports.told


def _asked(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Let the engine see other fields than those that came."""
    engine.Engine.task = lambda self, fields, **more: _task(self, change(dict(fields)), **more)


def ignores_seed() -> None:
    """The seed is taken and not used."""
    _asked(lambda fields: {**fields, "seed": 7})


def ignores_guidance_and_claims_it() -> None:
    """Guidance is always 3, and the server tells what was asked for: no setting shows it, one request does."""
    _asked(lambda fields: {**fields, "guidance_scale": 3.0})


def guides_more() -> None:
    """Guidance is a little stronger than asked for, and the settings claim otherwise."""
    _asked(lambda fields: {**fields, "guidance_scale": fields["guidance_scale"] + 0.1})

    def told(self: Any) -> dict[str, Any]:
        found = _told(self)
        return {**found, "settings": {**found["settings"], "config.guidance_scale": 3.0}}

    reports.Reports.told = told


def floors() -> None:
    """Pixels are cut off where they should be rounded, as ``astype`` does."""
    engine.to_levels = lambda pixels: (np.asarray(pixels) * 255).astype(np.uint8)


DEFECTS = {defect.__name__: defect for defect in (floors, guides_more, ignores_guidance_and_claims_it, ignores_seed)}

if __name__ == "__main__":
    DEFECTS[sys.argv.pop(1)]()
    sys.exit(main())
