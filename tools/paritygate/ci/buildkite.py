"""Neutral steps -> the text of a Buildkite pipeline, ready to upload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from paritygate.ci.step import Step
from paritygate.ci.yaml_text import dump, dump_item, scalar
from paritygate.manifest.registries import Preset
from paritygate.manifest.registry_rules import SHARED_MEMORY

#: Buildkite refuses an upload with more jobs.
MAX_JOBS_PER_UPLOAD = 500


def pipeline_text(steps: Iterable[Step]) -> str:
    """One lane's pipeline as YAML, escaped for the upload: groups by name, steps by key."""
    shared: dict[str, str] = {}
    parts = ["steps:\n"]
    grouped = sorted(steps, key=lambda step: (step.group, step.key))
    for name, members in groupby(grouped, key=lambda step: step.group):
        parts.append(f"  - group: {scalar(name)}\n    steps:\n")
        for step in members:
            preset = step.preset
            if preset.name not in shared:
                shared[preset.name] = dump(_placement(preset), indent=8)
            parts += dump_item(_identity(step), indent=6), shared[preset.name], dump(_work(step), indent=8)
    return escape("".join(parts))


def escape(text: str) -> str:
    """Text that the upload's interpolation turns back into ``text``: every dollar is meant for run time.

    Applied to the written YAML as a whole, so that it reaches every string, keys included. A dollar after a
    backslash has no safe spelling; such texts are refused or cleaned before they get here.
    """
    return text.replace("$", "$$")


def _identity(step: Step) -> dict[str, Any]:
    return {"label": step.label, "key": step.key, "if": step.lane.condition}


def _placement(preset: Preset) -> dict[str, Any]:
    """Where a job runs: the queue, and the pod where the pool runs containers."""
    agents = {"queue": preset.hardware.queue}
    return (
        {"agents": agents, "plugins": [{"kubernetes": _pod(preset)}]} if preset.hardware.image else {"agents": agents}
    )


def _pod(preset: Preset) -> dict[str, Any]:
    """The pod of a preset: everything that depends on the card count is computed from it."""
    hardware, resources = preset.hardware, preset.resources
    limits: dict[str, Any] = {"memory": f"{resources.memory_gib}Gi"}
    if preset.card_resource:
        limits[preset.card_resource] = preset.cards
    requests = {"cpu": str(resources.cpu), **limits} if resources.cpu else limits
    container: dict[str, Any] = {
        "name": "accuracy",
        "image": hardware.image,
        "resources": {"limits": limits, "requests": requests},
    }
    mounts = [{"name": m.name, "mountPath": m.mount_path, "readOnly": True} for m in hardware.mounts]
    volumes: list[Mapping[str, Any]] = [
        {"name": m.name, "hostPath": {"path": m.host_path, "type": "Directory"}} for m in hardware.mounts
    ]
    if resources.shm_gib:
        mounts.append({"name": SHARED_MEMORY, "mountPath": "/dev/shm"})  # noqa: S108 - the pod's own
        volumes.append({"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": f"{resources.shm_gib}Gi"}})
    spec: dict[str, Any] = {"containers": [{**container, "volumeMounts": mounts} if mounts else container]}
    if hardware.node_selector:
        spec["nodeSelector"] = hardware.node_selector
    if volumes:
        spec["volumes"] = volumes
    return {"podSpec": spec}


def _work(step: Step) -> dict[str, Any]:
    return {
        "timeout_in_minutes": step.timeout_minutes,
        "retry": {"automatic": [{"exit_status": r.exit_status, "limit": r.limit} for r in step.retries]},
        "env": step.env,
        "artifact_paths": list(step.artifacts),
        "command": step.script,
    }
