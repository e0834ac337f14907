"""A checked document -> ``Case``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paritygate.manifest.case import (
    Asset,
    Case,
    Ci,
    Component,
    Coverage,
    Difference,
    Feature,
    Hardware,
    InputMedia,
    Leg,
    LegName,
    Measure,
    Measurement,
    Model,
    Output,
    TensorInput,
)
from paritygate.manifest.loader import Pointer
from paritygate.manifest.merge import Merged
from paritygate.manifest.nodes import Node
from paritygate.manifest.paths import path_values, project_path
from paritygate.manifest.project import Project

DEFAULT_TIMEOUT_S = 3600.0
DEFAULT_TIMEOUT_MINUTES = 60
#: Keys that every leg may have and that ``Leg`` holds as fields of its own.
_LEG_FIELDS = frozenset({"runner", "adapter", "python", "timeout_s", "requires", "assets", "feature", "hardware"})


def node_id(data: Mapping[str, Any], variant: str | None) -> str:
    """``<case id>`` or ``<case id>-<variant id>``."""
    return f"{data['id']}-{variant}" if variant else str(data["id"])


def build(node: Node, project: Project, manifest: str) -> Case:
    """The case of a node that passed the schema and the rules. ``manifest`` is project-relative."""
    data = _normal(node)
    checklist, coverage = data.get("checklist", {}), data.get("coverage", {})
    return Case(
        id=node_id(data, node.variant),
        base_id=data["id"],
        variant=node.variant,
        root=project.root,
        manifest=manifest,
        bases=_bases(node, manifest),
        title=data["title"] + node.suffix,
        claim=data["claim"],
        task=data["task"],
        model=Model(**data["model"]),
        initial_latents=data["request"].get("initial_latents", "seeded"),
        inputs=tuple(_input(media) for media in data["request"].get("inputs", ())),
        output=Output(**data["output"]),
        reference=build_leg("reference", data["reference"]),
        candidate=build_leg("candidate", data["candidate"]),
        low_precision=build_leg("low_precision", data["low_precision"]) if "low_precision" in data else None,
        differences=tuple(Difference(**entry) for entry in data.get("differences", ())),
        component=_component(data["component"]) if "component" in data else None,
        measure=_measure(data["measure"]),
        checklist_require=tuple(checklist.get("require", ())),
        coverage=Coverage(**{key: tuple(value) for key, value in coverage.items()}),
        ci=_ci(data["ci"]),
        document=data,
    )


def measurement_id(entry: Mapping[str, Any]) -> str:
    """The id of an entry of ``measure.output``: as given, or derived from metric, pixels and aggregate."""
    if "id" in entry:
        return str(entry["id"])
    pixels = "float." if entry.get("pixels") == "float" else ""
    return f"output.{pixels}{entry['metric']}.{entry['aggregate']}"


def _normal(node: Node) -> dict[str, Any]:
    """The document in one spelling: project-relative paths, latents as a word with ``latent_shape`` beside it."""
    data = node.data
    for value in path_values(data):
        path = project_path(node.document.folder(value.pointer), value.text)
        data = _with(data, value.pointer, path)
    latents = data["request"].get("initial_latents")
    if isinstance(latents, dict):
        request = {**data["request"], "initial_latents": latents["source"]}
        if "shape" in latents:
            request["latent_shape"] = latents["shape"]
        data = {**data, "request": request}
    return data


def _bases(node: Node, manifest: str) -> tuple[str, ...]:
    if not isinstance(node.document, Merged):
        return ()
    files = dict.fromkeys(document.display for document, _ in reversed(node.document.layers))
    return tuple(file for file in files if file != manifest)


def _with(data: Any, pointer: Pointer, value: Any) -> Any:
    """A copy with one value replaced; everything off the path is shared."""
    if not pointer:
        return value
    copy = list(data) if isinstance(data, list) else dict(data)
    copy[pointer[0]] = _with(data[pointer[0]], pointer[1:], value)  # type: ignore[index]
    return copy


def _input(media: Mapping[str, str]) -> InputMedia:
    digest = media["sha256"]
    return InputMedia(
        role=media["role"],
        path=media["path"],
        sha256=digest if digest.startswith("sha256:") else f"sha256:{digest}",
    )


def build_leg(name: LegName, data: Mapping[str, Any]) -> Leg:
    """The leg of a mapping that passed the schema."""
    feature = data.get("feature")
    return Leg(
        name=name,
        runner=data["runner"],
        adapter=data.get("adapter"),
        python=data.get("python"),
        timeout_s=float(data.get("timeout_s", DEFAULT_TIMEOUT_S)),
        requires=data.get("requires", {}),
        assets=tuple(Asset(**asset) for asset in data.get("assets", ())),
        feature=Feature(**feature) if feature else None,
        hardware=_hardware(data["hardware"]) if "hardware" in data else None,
        spec={key: value for key, value in data.items() if key not in _LEG_FIELDS},
    )


def _hardware(data: Mapping[str, Any]) -> Hardware:
    return Hardware(sku=tuple(data["sku"]), cards=data["cards"])


def _component(data: Mapping[str, Any]) -> Component:
    inputs = {name: TensorInput(**tensor) for name, tensor in data.get("inputs", {}).items()}
    return Component(name=data["name"], inputs=inputs, forward=data.get("forward", {}))


def _measure(data: Mapping[str, Any]) -> Measure:
    return Measure(
        exact=tuple(data.get("exact", ())),
        parts=tuple(data.get("parts", ())),
        output=tuple(
            Measurement(
                id=measurement_id(entry),
                metric=entry["metric"],
                aggregate=entry["aggregate"],
                pixels=entry.get("pixels", "stored"),
                target=entry.get("target"),
            )
            for entry in data.get("output", ())
        ),
    )


def _ci(data: Mapping[str, Any]) -> Ci:
    return Ci(
        lane=data["lane"],
        group=data.get("group"),
        sku=tuple(data["hardware"]["sku"]),
        cards=data["hardware"]["cards"],
        timeout_minutes=data.get("timeout_minutes", DEFAULT_TIMEOUT_MINUTES),
        sources=tuple(data.get("sources", ())),
        setup=tuple(data.get("setup", ())),
    )
