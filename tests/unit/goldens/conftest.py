"""A temporary project in a real git repository, whose reference is a small adapter, and goldens made by hand."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.unit.conftest import run_command

from paritygate.goldens.store import Ref
from paritygate.manifest.project import find_project
from paritygate.media.digests import tree_digest
from paritygate.media.frozen import freeze
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps
from paritygate.records.golden import (
    Golden,
    GoldenFile,
    GoldenGenerator,
    GoldenItem,
    GoldenModel,
    GoldenReference,
    parse_golden,
)

ADAPTER = """
import numpy as np

def run(job, writer):
    for item in job.items:
        y, x = np.mgrid[0:8, 0:8].astype(np.float32) / 8
        pixels = np.stack([x, y, (x + y) / 2], axis=-1) * np.float32(0.5 + item.request["seed"] / 100)
        CHANGE
        writer.setting("config.guidance_scale", item.request["guidance_scale"])
        writer.setting("attention_backend", "native")
        writer.environment("where", __file__)
        writer.image(item.id, pixels)
"""

MANIFEST = """
schema_version: 1
id: {id}
title: Demo
claim: {claim}
task: t2i
model: {{id: demo-model, revision: "{revision}", weights: trained, path: model}}
request: {{guidance_scale: 3.0, seed: 7}}
suite: {{prompts: [one, two], seeds: derived}}
output: {{kind: images, count: 1, width: 8, height: 8, mode: RGB}}
reference: {reference}
candidate: {{runner: python, adapter: candidate.py}}
measure:
  exact: [config]
  output: [{{metric: abs_diff_max, aggregate: max}}]
ci: {{lane: nightly, hardware: {{sku: [CPU], cards: 0}}, timeout_minutes: 5}}
"""
REFERENCE = f'{{runner: python, adapter: reference.py, requires: {{numpy: "=={np.__version__}"}}}}'

REGISTRIES = {
    "hardware": "schema_version: 1\nskus:\n  CPU: {platform: cpu, cards: [0], queue: cpu}\n"
    "  H100: {platform: cuda, cards: [1], queue: gpu}\n",
    "lanes": 'schema_version: 1\nlanes:\n  nightly:\n    {description: d, if: \'build.env("N") == "1"\', group: All, '
    "max_timeout_minutes: 180}\n",
}


@dataclass(frozen=True)
class Demo:
    """The project; commands run in this process."""

    root: Path
    capsys: Any

    def write(self, *, name: str = "demo", reference: str = REFERENCE, claim: str = "native-parity") -> None:
        revision = tree_digest(self.root / "cases" / "model")
        text = MANIFEST.format(id=name, revision=revision, reference=reference, claim=claim)
        (self.root / "cases" / f"{name}.case.yaml").write_text(text)

    def adapter(self, change: str = "pass", *, leg: str = "reference") -> None:
        (self.root / "cases" / f"{leg}.py").write_text(ADAPTER.replace("CHANGE", change))

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "state")

    def git(self, *words: str) -> str:
        author = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *author, *words], cwd=self.root, check=True, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def call(self, *words: str) -> tuple[int, str, str]:
        """Run a command; its exit code, output and error output."""
        return run_command(self.capsys, words)

    def json(self, *words: str) -> tuple[int, Any]:
        code, out, err = self.call(*words, "--json")
        assert out, err
        return code, json.loads(out)

    @property
    def project(self):
        return find_project(self.root)


def golden_of(folder: Path, **changes: Any) -> Golden:
    """The list of a golden whose files lie in ``folder``."""
    golden = Golden(
        name="demo",
        version=1,
        case="demo",
        contract="sha256:" + "0" * 64,
        claim="native-parity",
        task="t2i",
        model=GoldenModel(id="demo-model", revision="0" * 40, weights="trained", verified=True),
        items=(GoldenItem(id="000", request={"prompt": "one"}),),
        output={"kind": "images"},
        inputs=(),
        reference=GoldenReference(
            runner="python", spec={}, requires={"numpy": "==1.0"}, adapter=None, versions={"numpy": "1.0"}
        ),
        settings={},
        environment={},
        generator=GoldenGenerator(
            commit="0" * 40, dirty=False, command="paritygate golden create demo", made_on="2026-12-01T00:00:00+00:00",
            platform="Linux", python="3.11", paritygate="0.1.0", profile={},
        ),
        promotable=True,
        reasons=(),
        files={name: GoldenFile(sha256=file.sha256, size=file.size) for name, file in freeze(folder).items()},
    )  # fmt: skip
    return msgspec.structs.replace(golden, **changes)


def write_golden(folder: Path, **changes: Any) -> Ref:
    """A golden of two small files; how a manifest names it."""
    (folder / "outputs" / "000").mkdir(parents=True)
    (folder / "outputs" / "000" / "0.tensors.npz").write_bytes(bytes(range(200)))
    (folder / "outputs" / "effective.json").write_text('{"schema_version": 1}')
    return rewrite(folder, golden_of(folder, **changes))


def rewrite(folder: Path, golden: Golden | dict[str, Any]) -> Ref:
    """Write ``golden.json`` anew; how a manifest names the result."""
    text = dumps(golden)
    (folder / "golden.json").write_text(text)
    data = golden if isinstance(golden, dict) else msgspec.to_builtins(golden)
    return Ref(data["name"], data["version"] or 0, sha256_bytes(text.encode()))


class Make:
    """The builders above, handed to tests as one fixture."""

    golden = staticmethod(write_golden)
    rewrite = staticmethod(rewrite)

    @staticmethod
    def read(folder: Path) -> Golden:
        return parse_golden((folder / "golden.json").read_bytes(), source="golden.json")


@pytest.fixture(scope="session")
def make() -> type[Make]:
    return Make


@pytest.fixture
def plain(tmp_path, monkeypatch, capsys):
    """A project with one case of two items, in no repository."""
    root = tmp_path / "project"
    (root / "cases" / "model").mkdir(parents=True)
    (root / "cases" / "model" / "weights.bin").write_bytes(b"weights")
    (root / "paritygate.yaml").write_text("schema_version: 1\ncases: [cases]\ntest_module: cases/test_demo.py\n")
    (root / ".buildkite").mkdir()
    for name, text in REGISTRIES.items():
        (root / ".buildkite" / f"{name}.yml").write_text(text)
    monkeypatch.chdir(root)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = Demo(root, capsys)
    project.adapter()
    project.adapter(leg="candidate")
    project.write()
    return project


@pytest.fixture
def demo(plain):
    """The same, committed."""
    (plain.root / ".gitignore").write_text("__pycache__/\nartifacts/\n")
    plain.git("init", "-q")
    plain.commit()
    return plain
