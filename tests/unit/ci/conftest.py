"""A project on disk to generate from, and a reader that treats text as Buildkite's upload does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from paritygate.ci.generate import Generated, generate
from paritygate.manifest.index import load_project
from paritygate.manifest.project import find_project

HARDWARE: dict[str, Any] = {
    "schema_version": 1,
    "skus": {
        "H100": {
            "platform": "cuda",
            "cards": [1, 2, 4],
            "queue": "gpu_h100",
            "image": "paritygate/cuda:1.2",
            "base": {"cpu": 4, "memory_gib": 32},
            "per_card": {"cpu": 12, "memory_gib": 192, "shm_gib": 64},
            "node_selector": {"nvidia.com/gpu.product": "H100"},
            "mounts": [{"name": "models", "host_path": "/mnt/models", "mount_path": "/models"}],
            "env": {"HF_HUB_CACHE": "/models/hub"},
        },
        "CPU": {"platform": "cpu", "cards": [0], "queue": "cpu"},
    },
}
LANES: dict[str, Any] = {
    "schema_version": 1,
    "lanes": {
        name: {
            "description": f"The {name} lane.",
            "if": f'build.env("{name.upper()}") == "1"',
            "group": f"Accuracy {name}",
            "max_timeout_minutes": 180,
        }
        for name in ("nightly", "weekly")
    },
}
SOURCES: dict[str, Any] = {"schema_version": 1, "shared": ["src/"], "sources": {"engine": ["src/engine/"]}}


class Workshop:
    """A project under ``root`` with registries; cases are added one by one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write(
            "paritygate.yaml", {"schema_version": 1, "cases": ["cases"], "test_module": "cases/test_accuracy.py"}
        )
        for name, data in (("hardware", HARDWARE), ("lanes", LANES), ("sources", SOURCES)):
            self.write(f".buildkite/{name}.yml", data)
        for folder in ("src/engine", "cases"):
            (root / folder).mkdir(parents=True)

    def write(self, path: str, content: str | Mapping[str, Any]) -> Path:
        """Write a file; data is written as JSON, which is YAML."""
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str):
            content = json.dumps(content, indent=1, ensure_ascii=False)
            # YAML refuses these where JSON leaves them as they are.
            content = re.sub("[\x7f-\x9f\u2028\u2029]", lambda found: f"\\u{ord(found.group()):04x}", content)
        full.write_text(content, encoding="utf-8")
        return full

    def case(self, name: str, *, ci: Mapping[str, Any] | None = None, **changes: Any) -> Path:
        """Write a small manifest with id ``name``; ``ci`` is merged into its CI part."""
        leg = {"runner": "diffusers", "pipeline": "StableDiffusionPipeline", "dtype": "float32"}
        data = {
            "schema_version": 1,
            "id": name,
            "title": f"Case {name}",
            "claim": "native-parity",
            "task": "t2i",
            "model": {"id": "a/b", "revision": "0" * 40, "weights": "trained"},
            "request": {"prompt": "a cat", "width": 64, "height": 64, "num_inference_steps": 2, "seed": 1},
            "output": {"kind": "images", "width": 64, "height": 64},
            "reference": leg,
            "candidate": leg,
            "measure": {"output": [{"metric": "ssim", "aggregate": "min"}]},
            "ci": {"lane": "nightly", "hardware": {"sku": ["H100"], "cards": 1}, **(ci or {})},
        }
        return self.write(f"cases/{name}.case.yaml", {**data, **changes})

    def generated(self) -> Generated:
        """What ``generate`` gives for the project as it is now."""
        project = find_project(self.root)
        registries, loaded = load_project(project)
        return generate(project, loaded, registries)

    def files(self) -> dict[str, str]:
        """The generated files by their paths as text."""
        return {path.as_posix(): text for path, text in self.generated().files.items()}

    def uploaded(self, lane: str = "nightly") -> list[dict[str, Any]]:
        """The steps of a lane as the agents get them: parsed, interpolated with an empty environment, ungrouped."""
        data = interpolate_all(yaml.safe_load(self.files()[f".buildkite/accuracy-{lane}.yml"]), {})
        return [{**step, "group": group["group"]} for group in data["steps"] for step in group["steps"]]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


class UploadRefusedError(Exception):
    """The upload would be aborted."""


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SLICE = re.compile(r":(-?[0-9]+)(?::(-?[0-9]+))?\}")


def interpolate(text: str, env: Mapping[str, str]) -> str:
    """Buildkite's interpolation of one string, as far as its outcome table goes."""
    result, end = _expression(text, 0, env, stop="")
    assert end == len(text)
    return result


def interpolate_all(data: Any, env: Mapping[str, str]) -> Any:
    """Every string of plain data interpolated, keys included."""
    if isinstance(data, str):
        return interpolate(data, env)
    if isinstance(data, dict):
        return {interpolate_all(key, env): interpolate_all(value, env) for key, value in data.items()}
    return [interpolate_all(value, env) for value in data] if isinstance(data, list) else data


def _expression(text: str, at: int, env: Mapping[str, str], *, stop: str) -> tuple[str, int]:
    parts: list[str] = []
    while at < len(text) and not (stop and text[at] == stop):
        two = text[at : at + 2]
        if two in {"$$", "\\$"}:
            parts.append("$")
            at += 2
        elif two == "${":
            value, at = _braces(text, at + 2, env)
            parts.append(value)
        elif text[at] == "$" and (name := _NAME.match(text, at + 1)):
            parts.append(env.get(name.group(), ""))
            at = name.end()
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts), at


def _braces(text: str, at: int, env: Mapping[str, str]) -> tuple[str, int]:
    name = _NAME.match(text, at)
    if name is None:
        raise UploadRefusedError(text)
    at, value = name.end(), env.get(name.group())
    if text.startswith("}", at):
        return value or "", at + 1
    if part := _SLICE.match(text, at):
        start = int(part.group(1))
        length = int(part.group(2)) if part.group(2) else None
        return (value or "")[start : None if length is None else start + length], part.end()
    for operator in (":-", "-", "?"):
        if text.startswith(operator, at):
            other, at = _expression(text, at + len(operator), env, stop="}")
            if not text.startswith("}", at):
                raise UploadRefusedError(text)
            missing = value is None or (operator == ":-" and value == "")
            if missing and operator == "?":
                raise UploadRefusedError(text)
            return (other if missing else value or ""), at + 1
    raise UploadRefusedError(text)


@pytest.fixture
def upload() -> Callable[[str, Mapping[str, str]], str]:
    return interpolate


@pytest.fixture
def upload_refused() -> type[Exception]:
    return UploadRefusedError
