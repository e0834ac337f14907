"""Stored projects whose generated files are read in review; and this repository, which is its own first user."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from paritygate.ci.buildkite import MAX_JOBS_PER_UPLOAD
from paritygate.ci.generate import compare, generate
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = sorted(path.parent for path in (ROOT / "tests/samples/ci").glob("*/paritygate.yaml"))
GPU_CASES = {
    "qwen-image-t2i": ("nightly", "h100_1"),
    "wan22-i2v": ("nightly", "h100_2"),
    "ltx2-t2va": ("weekly", "h100_1"),
}


def differences(root: Path) -> list[str]:
    project = find_project(root)
    registries = load_registries(project)
    files = generate(project, load_cases(project, registries), registries).files
    assert files
    return [drift.diff for drift in compare(project, files)]


def steps(root: Path) -> dict[str, dict[str, Any]]:
    """All steps of the pipelines on disk, by key."""
    found = [
        step
        for path in sorted((root / ".buildkite").glob("accuracy-*.yml"))
        for group in yaml.safe_load(path.read_text("utf-8"))["steps"]
        for step in group["steps"]
    ]
    assert len({step["key"] for step in found}) == len(found)
    return {step["key"]: step for step in found}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_stored_project_generates_the_stored_files(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / "project")
    assert differences(tmp_path / "project") == []


def test_the_pipelines_of_this_repository_are_as_generated() -> None:
    assert differences(ROOT) == []


def test_every_case_of_this_repository_is_in_exactly_one_pipeline() -> None:
    project = find_project(ROOT)
    cases = load_cases(project, load_registries(project)).cases
    assert sorted(steps(ROOT)) == sorted(case.id for case in cases)
    assert 0 < len(cases) <= MAX_JOBS_PER_UPLOAD


def test_every_source_of_a_step_exists_or_can_come_to_exist() -> None:
    data = json.loads((ROOT / ".buildkite/accuracy-sources.json").read_text("utf-8"))
    expected_later = (".gate.yaml", "/evidence/")
    paths = {path for step in data["steps"].values() for path in step["sources"]} | set(data["shared"])
    missing = {path for path in paths if not (ROOT / path).exists() and not path.endswith(expected_later)}
    assert missing == set()


@pytest.mark.parametrize(("key", "expected"), GPU_CASES.items(), ids=GPU_CASES)
def test_a_case_for_cards_goes_to_its_pool(key: str, expected: tuple[str, str]) -> None:
    data = json.loads((ROOT / ".buildkite/accuracy-sources.json").read_text("utf-8"))
    assert (data["steps"][key]["lane"], data["steps"][key]["preset"]) == expected
    step, cards = steps(ROOT)[key], int(expected[1][-1])
    assert step["agents"] == {"queue": "gpu_h100"}
    container = step["plugins"][0]["kubernetes"]["podSpec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == cards


def test_what_a_step_asks_pytest_for_is_exactly_one_node_here() -> None:
    asked: dict[str, list[str]] = {}
    for step in steps(ROOT).values():
        command = shlex.split(step["command"].replace("$$", "$").split("\n")[-1])
        assert command[0] == "pytest"
        asked.setdefault(command[command.index("-m") + 1], []).append(command[1])
    # One process for all expressions: most of the time goes into importing pytest and its plugins.
    program = (
        "import json, sys, pytest\n"
        "for expression, nodes in json.loads(sys.argv[1]).items():\n"
        "    assert pytest.main(['--collect-only', '-q', '-m', expression, *nodes]) == 0, expression\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(asked)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert sorted(collected) == sorted(node for nodes in asked.values() for node in nodes)
    assert "deselected" not in done.stdout


def test_the_first_frame_of_the_video_case_is_the_drawn_one() -> None:
    pytest.importorskip("numpy")
    from PIL import Image, ImageChops  # noqa: PLC0415 - the rest of this module needs no pictures

    folder = ROOT / "tests/e2e/accuracy/wan22_i2v"
    namespace: dict[str, Any] = {"__name__": "drawn"}
    exec(compile((folder / "draw_first_frame.py").read_text("utf-8"), "draw_first_frame.py", "exec"), namespace)
    drawn = namespace["draw"]()
    with Image.open(folder / "first_frame.png") as stored:
        assert (stored.size, stored.mode) == ((832, 480), "RGB")
        assert ImageChops.difference(drawn, stored).getbbox() is None
