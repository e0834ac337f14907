"""What the modules of the ``diffusers`` runner share: refusals, and the nearest spelling of a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from paritygate.errors import LegError

#: Components that predict the noise, in the order in which a pipeline uses them.
_DENOISERS = ("transformer", "transformer_2", "unet", "prior", "decoder")


def refused(message: str, *, kind: str = "crash", hint: str = "") -> LegError:
    """The error of a leg that cannot do what its manifest asks."""
    return LegError(message, kind=kind, hint=hint)


def near(name: str, known: Iterable[str]) -> str:
    """``; nearest: a, b`` for the known names that a misspelt one may mean, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=3)
    return f"; nearest: {', '.join(found)}" if found else ""


def denoisers(pipeline: Any) -> dict[str, Any]:
    """The modules that predict the noise, by the name of their component."""
    components = pipeline.components
    return {name: components[name] for name in _DENOISERS if hasattr(components.get(name), "forward")}
