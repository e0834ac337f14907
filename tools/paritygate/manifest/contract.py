"""The fingerprint of everything that, if changed, makes old evidence inapplicable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paritygate.manifest.case import Case, Leg, Output
from paritygate.manifest.suite import items
from paritygate.metrics.specs import SPECS
from paritygate.records.canonical import canonical_json, sha256_bytes, sha256_file

#: Raised when the meaning of the fingerprint changes; every contract then changes with it.
CONTRACT_VERSION = 1
#: Where a leg runs, how it is reached and how long it may take: not what it computes.
_NOT_OF_THE_CONTRACT = frozenset(
    {"api_key_env", "cwd", "health", "pythonpath", "request_timeout_s", "server", "startup_timeout_s", "url"}
)


def contract(case: Case) -> str:
    """``sha256:<64 hex>`` over model, claim, task, requests, output, legs, differences and measures.

    In: the digests of inputs and adapters, the text of every prompt, metric versions, and of each asset the command
    that makes it, not its content. Out: title, ci, coverage, targets, timeouts, ports, interpreters and local paths.

    Of a golden: its digest, not its generator. Optional parts that are absent add nothing, so that a later version
    may add one.

    Raises:
        ManifestError: when a prompt file cannot be read.
        OSError: when an adapter cannot be read.
    """
    document = case.document
    data = {
        "contract_version": CONTRACT_VERSION,
        "model": {"id": case.model.id, "revision": case.model.revision, "weights": case.model.weights},
        "claim": case.claim,
        "task": case.task,
        "initial_latents": case.initial_latents,
        "latent_shape": document["request"].get("latent_shape"),
        "inputs": [{"role": media.role, "sha256": media.sha256} for media in case.inputs],
        "items": [dict(item.request) for item in items(case)],
        "output": _output(case.output),
        "legs": {leg.name: _leg(case, leg) for leg in case.legs},
        "differences": sorted([entry.field, entry.reason] for entry in case.differences),
        "checklist_require": sorted(case.checklist_require),
        "measure": _measure(case),
    }
    if case.component is not None:
        data["component"] = msgspec.to_builtins(case.component)
    return sha256_bytes(canonical_json(data))


def _output(output: Output) -> dict[str, Any]:
    """What was declared about the output: a field that a later version adds changes no contract that leaves it out."""
    return {
        field.name: value
        for field in msgspec.structs.fields(output)
        if (value := getattr(output, field.name)) != field.default
    }


def _leg(case: Case, leg: Leg) -> dict[str, Any]:
    spec = {key: value for key, value in leg.spec.items() if key not in _NOT_OF_THE_CONTRACT}
    if "server" in leg.spec:
        spec["server"] = _server(leg.spec["server"])
    if "lora" in leg.spec:
        spec["lora"] = [{"sha256": entry["sha256"], "scale": entry["scale"]} for entry in leg.spec["lora"]]
    if "golden" in leg.spec:
        spec["golden"] = {key: value for key, value in leg.spec["golden"].items() if key != "generator"}
    return {
        "runner": leg.runner,
        "adapter": sha256_file(case.root / leg.adapter) if leg.adapter else None,
        "assets": sorted(asset.made_by for asset in leg.assets),
        "feature": msgspec.to_builtins(leg.feature),
        "requires": dict(leg.requires),
        "spec": spec,
    }


def _server(argv: list[str]) -> list[str]:
    """The server's command without its port."""
    kept: list[str] = []
    for word in argv:
        if kept and kept[-1] == "--port":
            kept.pop()
        elif not word.startswith("--port="):
            kept.append(word)
    return kept


def _measure(case: Case) -> dict[str, Any]:
    output: list[Mapping[str, Any]] = [
        {
            "id": entry.id,
            "metric": entry.metric,
            "version": SPECS[entry.metric].version,
            "aggregate": entry.aggregate,
            "pixels": entry.pixels,
        }
        for entry in case.measure.output
    ]
    return {
        "exact": sorted(case.measure.exact),
        "parts": list(case.measure.parts),
        "output": sorted(output, key=lambda entry: str(entry["id"])),
    }
