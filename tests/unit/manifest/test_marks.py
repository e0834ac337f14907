"""Marks and the expression that CI selects with come from one declaration, so they must agree."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from paritygate.manifest.case import Case
from paritygate.manifest.index import load_cases
from paritygate.manifest.marks import all_marks, mark_expression, marks
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import Hardware, Lane, Registries, load_registries

REGISTRIES = Registries(
    hardware={
        name: Hardware(sku=name, platform=platform, cards=cards, queue="q")  # type: ignore[arg-type]
        for name, platform, cards in (("H100", "cuda", (1, 2, 8)), ("MI300X", "rocm", (1, 2, 8)), ("CPU", "cpu", (0,)))
    },
    lanes={
        name: Lane(name=name, description=f"The {name} lane.", condition="true", group="g", max_timeout_minutes=60)
        for name in ("nightly", "weekly")
    },
)
SKUS = [("H100",), ("MI300X",), ("H100", "MI300X")]


@pytest.fixture
def make_case(tmp_path: Path) -> Any:
    """A small case with the given CI part and output."""

    def make(
        *, lane: str, sku: tuple[str, ...], cards: int, task: str = "t2i", output: dict[str, Any] | None = None
    ) -> Case:
        leg = {"runner": "diffusers", "pipeline": "StableDiffusionPipeline"}
        data = {
            "schema_version": 1,
            "id": "one",
            "title": "One",
            "claim": "native-parity",
            "task": task,
            "model": {"id": "a/b", "revision": "0" * 40, "weights": "trained"},
            "request": {
                "prompt": "a cat",
                "width": 64,
                "height": 64,
                "num_frames": 9,
                "num_inference_steps": 2,
                "seed": 1,
            },
            "output": output or {"kind": "images", "width": 64, "height": 64},
            "reference": leg,
            "candidate": leg,
            "measure": {"output": [{"metric": "ssim", "aggregate": "min"}]},
            "ci": {"lane": lane, "hardware": {"sku": list(sku), "cards": cards}},
        }
        (tmp_path / "paritygate.yaml").write_text('{"schema_version": 1, "cases": ["cases"]}')
        (tmp_path / "cases").mkdir(exist_ok=True)
        (tmp_path / "cases/one.case.yaml").write_text(json.dumps(data))
        loaded = load_cases(find_project(tmp_path), REGISTRIES)
        assert loaded.problems == ()
        return loaded.cases[0]

    return make


def selects(expression: str, names: tuple[str, ...]) -> bool:
    return Expression.compile(expression).evaluate(lambda name, **_: name in names)


def test_an_expression_selects_its_own_case_and_no_case_of_other_lane_hardware_or_count(make_case: Any) -> None:
    cases = [
        make_case(lane=lane, sku=sku, cards=cards)
        for lane, sku, cards in itertools.product(("nightly", "weekly"), SKUS, (1, 2, 8))
    ]
    cases += [make_case(lane=lane, sku=("CPU",), cards=0) for lane in ("nightly", "weekly")]
    for one, other in itertools.product(cases, cases):
        for sku in one.ci.sku:
            expression = mark_expression(one, sku=sku)
            same = (one.ci.lane, one.ci.cards) == (other.ci.lane, other.ci.cards) and sku in other.ci.sku
            assert selects(expression, marks(other, REGISTRIES)) == same, (expression, marks(other, REGISTRIES))


def test_a_case_without_cards_is_selected_by_its_sku_alone(make_case: Any) -> None:
    case = make_case(lane="weekly", sku=("CPU",), cards=0)
    assert mark_expression(case, sku="CPU") == "weekly and CPU"
    assert marks(case, REGISTRIES) == ("accuracy", "weekly", "cpu", "CPU", "image")


def test_marks_name_lane_platforms_skus_cards_and_modality(make_case: Any) -> None:
    case = make_case(lane="nightly", sku=("H100", "MI300X"), cards=2)
    assert marks(case, REGISTRIES) == (*("accuracy", "nightly", "cuda", "rocm", "H100", "MI300X", "cards_2", "image"),)


@pytest.mark.parametrize(
    ("task", "sound", "modality"),
    [("t2v", {}, ("video",)), ("t2va", {"sample_rate_hz": 16000, "channels": 1}, ("video", "audio"))],
    ids=["video", "video_audio"],
)
def test_a_video_with_sound_is_both(
    make_case: Any, task: str, sound: dict[str, int], modality: tuple[str, ...]
) -> None:
    kind = "video_audio" if sound else "video"
    output = {"kind": kind, "width": 64, "height": 64, "frames": 9, "fps": 8, **sound}
    names = marks(make_case(lane="nightly", sku=("H100",), cards=1, task=task, output=output), REGISTRIES)
    assert tuple(name for name in names if name in {"image", "video", "audio", "tensor"}) == modality


def test_every_mark_that_a_case_can_carry_is_registered_with_a_description(make_case: Any) -> None:
    known = all_marks(REGISTRIES)
    assert list(known) == sorted(known)
    assert all(known.values())
    for sku, cards in [*itertools.product(SKUS, (1, 2, 8)), (("CPU",), 0)]:
        assert set(marks(make_case(lane="nightly", sku=sku, cards=cards), REGISTRIES)) <= set(known)


def test_pytest_takes_every_mark_under_strict_markers(tmp_path: Path) -> None:
    registries = load_registries(find_project(Path(__file__).resolve().parents[3]))
    known = all_marks(registries)
    lines = "".join(f"    {name}: {description}\n" for name, description in known.items())
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{lines}")
    decorators = "".join(f"@pytest.mark.{name}\n" for name in known)
    (tmp_path / "test_it.py").write_text(f"import pytest\n{decorators}def test_it(): pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--strict-markers",
        "-p",
        "no:paritygate",
        "-m",
        " and ".join(known),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
