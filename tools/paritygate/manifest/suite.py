"""The requests of a case, one item each, in the order in which every leg runs them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from paritygate.manifest.case import Case, Item
from paritygate.manifest.source import decode, read_source

#: What a request says to the harness, not to a pipeline.
_HARNESS_KEYS = frozenset({"extra", "initial_latents", "inputs", "latent_shape"})
#: Suite list -> the request keys that it varies; later axes vary faster.
AXES: Mapping[str, tuple[str, ...]] = {
    "prompts": ("prompt",),
    "negative_prompts": ("negative_prompt",),
    "sizes": ("width", "height"),
    "guidance": ("guidance_scale",),
    "seeds": ("seed",),
}


def items(case: Case) -> tuple[Item, ...]:
    """The items of a case; one when it has no suite.

    ``Item.request`` holds plain pipeline keys: the shared request with the model's own ``extra`` keys merged in, and
    what the suite gives the item. ``inputs``, ``initial_latents`` and ``latent_shape`` are not part of it: see
    ``Case.inputs``, ``Case.initial_latents`` and :func:`latent_shape`.

    Raises:
        ManifestError: when a prompt file changed into something unreadable since the case was loaded.
    """
    request: Mapping[str, Any] = case.document["request"]
    shared = {key: value for key, value in request.items() if key not in _HARNESS_KEYS} | request.get("extra", {})
    suite = case.document.get("suite", {})
    derived = suite.get("seeds") == "derived"
    axes = [
        [
            dict(zip(request_keys, value if key == "sizes" else [value], strict=True))
            for value in _axis(case, suite[key])
        ]
        for key, request_keys in AXES.items()
        if key in suite and not (derived and key == "seeds")
    ]
    combine = zip if suite.get("combine", "cross") == "zip" else itertools.product
    rows = list(combine(*axes)) if axes else [()]
    width = max(3, len(str(len(rows) - 1)))
    found = []
    for index, row in enumerate(rows):
        values = {key: value for part in row for key, value in part.items()}
        if derived:
            values["seed"] = request["seed"] + index
        found.append(Item(id=f"{index:0{width}d}", request={**shared, **values}))
    return tuple(found)


def latent_shape(case: Case) -> tuple[int, ...] | None:
    """The shape of one item's shared initial latents, ``(channels, height, width)``; None when not declared."""
    shape = case.document["request"].get("latent_shape")
    return tuple(shape) if shape else None


def parse_prompts(text: str) -> list[str]:
    """The prompts of a prompt file: one a line, blank lines and lines that start with ``#`` left out."""
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def _axis(case: Case, given: list[Any] | str) -> list[Any]:
    """The values of a suite list; a text is the path of a prompt file."""
    if isinstance(given, list):
        return given
    return parse_prompts(decode(read_source(case.root / given, display=given, root=case.root), display=given))
