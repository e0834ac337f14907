"""The generated pipeline against Buildkite's own schema, and against what the case meant."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
TITLE = 'Says "hi" for $0, ${HOME}, `date`, 100 % - it\'s\na test 🎉 </script> : # \\'


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "buildkite.json"
    return json.loads(vendored.read_text("utf-8"))


@pytest.fixture
def full(workshop: Any) -> Any:
    """Cases of both lanes, all card counts, a CPU case, texts that bite."""
    workshop.case("one")
    workshop.case("two", ci={"hardware": {"sku": ["H100"], "cards": 2}, "group": "Group ${X} & 'co' 🎉"})
    workshop.case("four", ci={"hardware": {"sku": ["H100"], "cards": 4}, "lane": "weekly"})
    workshop.case("cpu", ci={"hardware": {"sku": ["CPU"], "cards": 0}})
    workshop.case("texts", title=TITLE, ci={"setup": ['export X="${Y:-$(date)}" # 🎉', "echo '$$' \"`date`\""]})
    return workshop


def step_errors(step: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    definition = {"$ref": "#/definitions/commandStep", "definitions": schema["definitions"]}
    return [error.message for error in jsonschema.Draft7Validator(definition).iter_errors(step)]


def test_every_step_is_valid_by_the_vendored_schema(full: Any, schema: dict[str, Any]) -> None:
    for lane in ("nightly", "weekly"):
        for group in yaml.safe_load(full.files()[f".buildkite/accuracy-{lane}.yml"])["steps"]:
            for step in group["steps"]:
                assert step_errors(step, schema) == []


@pytest.mark.parametrize("path", sorted((ROOT / ".buildkite").glob("accuracy-*.yml")), ids=lambda path: path.name)
def test_the_pipelines_of_this_repository_are_valid_by_the_vendored_schema(path: Path, schema: dict[str, Any]) -> None:
    pipeline = yaml.safe_load(path.read_text("utf-8"))
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(pipeline)] == []
    steps = [step for group in pipeline["steps"] for step in group["steps"]]
    assert steps
    assert [error for step in steps for error in step_errors(step, schema)] == []


def test_the_schema_tool_accepts_the_files(full: Any, tmp_path: Path) -> None:
    paths = []
    for name, text in full.files().items():
        if name.endswith(".yml"):
            paths.append(tmp_path / Path(name).name)
            paths[-1].write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.buildkite", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


MUTATIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "misspelt timeout": lambda step: step.update(timeout_in_minute=step.pop("timeout_in_minutes")),
    "misspelt artifacts": lambda step: step.update(artifacts_paths=step.pop("artifact_paths")),
    "uploader's own key": lambda step: step.update(source_file_dependencies=["src/"]),
    "alias of the docs": lambda step: step.update(agent_query_rules=["queue=x"]),
    "condition as a boolean": lambda step: step.update({"if": True}),
    "no time": lambda step: step.update(timeout_in_minutes=0),
    "time as text": lambda step: step.update(timeout_in_minutes="60"),
    "retries without end": lambda step: step["retry"]["automatic"][0].update(limit=11),
    "misspelt retry": lambda step: step["retry"]["automatic"][0].update(exit_statu=3),
    "key with a slash": lambda step: step.update(key="a/b"),
    "key of 101 characters": lambda step: step.update(key="a" * 101),
    "key like a UUID": lambda step: step.update(key="550e8400-e29b-41d4-a716-446655440000"),
    "env as a list": lambda step: step.update(env=["A=1"]),
    "two plugins in one": lambda step: step["plugins"][0].update(docker={}),
    "label as a number": lambda step: step.update(label=1),
    "command as a mapping": lambda step: step.update(command={"a": 1}),
}


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_the_schema_check_can_fail(full: Any, schema: dict[str, Any], mutate: Callable[[Any], object]) -> None:
    step = next(step for step in full.uploaded() if step["key"] == "one")
    del step["group"]
    assert step_errors(step, schema) == []
    mutate(step)
    assert step_errors(step, schema)


def test_texts_come_out_of_the_upload_as_meant(full: Any) -> None:
    steps = {step["key"]: step for step in full.uploaded()}
    expected = 'Says "hi" for $0, ${HOME}, `date`, 100 % - it\'s a test 🎉 </script> : # \\ (1x H100)'
    assert steps["texts"]["label"] == expected
    assert steps["two"]["group"] == "Group ${X} & 'co' 🎉"
    lines = steps["texts"]["command"].split("\n")
    assert lines[-5:-3] == ['export X="${Y:-$(date)}" # 🎉', "echo '$$' \"`date`\""]


@pytest.mark.parametrize(
    ("title", "label"),
    [
        ("cost \\$5", "cost $5"),
        ("cost \\\\$X", "cost $X"),
        ("a\tb\n\n c\u2028d\x85e\x7ff\x1bg", "a b c d e f g"),
        ("👩\u200d🔬 日本語", "👩\u200d🔬 日本語"),
    ],
    ids=repr,
)
def test_a_label_is_one_printable_line_that_the_upload_leaves_alone(workshop: Any, title: str, label: str) -> None:
    workshop.case("one", title=title)
    assert workshop.uploaded()[0]["label"] == f"{label} (1x H100)"


def test_a_description_cannot_break_out_of_the_head(workshop: Any) -> None:
    lanes = json.loads((workshop.root / ".buildkite/lanes.yml").read_text())
    lanes["lanes"]["nightly"]["description"] = "Nights.\u2028steps: []\x85x: y\x7f"
    workshop.write(".buildkite/lanes.yml", lanes)
    workshop.case("one")
    assert [step["key"] for step in workshop.uploaded()] == ["one"]
    assert "# lane nightly: Nights. steps: [] x: y\n" in workshop.files()[".buildkite/accuracy-nightly.yml"]


def test_no_dollar_is_left_for_the_upload(full: Any) -> None:
    for name, text in full.files().items():
        if name.endswith(".yml"):
            assert "$" not in text.replace("$$", "")


def test_nothing_stands_at_the_top_but_steps_in_groups(full: Any) -> None:
    for lane in ("nightly", "weekly"):
        data = yaml.safe_load(full.files()[f".buildkite/accuracy-{lane}.yml"])
        assert set(data) == {"steps"}
        assert {frozenset(group) for group in data["steps"]} == {frozenset({"group", "steps"})}


def test_keys_are_the_node_ids_and_unique_over_all_lanes(full: Any) -> None:
    keys = [step["key"] for lane in ("nightly", "weekly") for step in full.uploaded(lane)]
    assert sorted(keys) == ["cpu", "four", "one", "texts", "two"]


def test_a_new_title_does_not_change_the_key(workshop: Any) -> None:
    workshop.case("stable", title="Old")
    before = workshop.uploaded()[0]
    workshop.case("stable", title="New")
    after = workshop.uploaded()[0]
    assert (before["key"], before["label"]) == ("stable", "Old (1x H100)")
    assert (after["key"], after["label"]) == ("stable", "New (1x H100)")


@pytest.mark.parametrize(
    ("cards", "cpu", "memory", "shared"), [(1, "16", 224, 64), (2, "28", 416, 128), (4, "52", 800, 256)]
)
def test_what_a_pod_gets_is_computed_from_the_card_count(
    workshop: Any, cards: int, cpu: str, memory: int, shared: int
) -> None:
    workshop.case("sized", ci={"hardware": {"sku": ["H100"], "cards": cards}})
    step = workshop.uploaded()[0]
    pod = step["plugins"][0]["kubernetes"]["podSpec"]
    resources = pod["containers"][0]["resources"]
    assert resources["limits"] == {"memory": f"{memory}Gi", "nvidia.com/gpu": cards}
    assert resources["requests"] == {"cpu": cpu, **resources["limits"]}
    assert pod["volumes"][-1]["emptyDir"]["sizeLimit"] == f"{shared}Gi"
    assert pod["containers"][0]["image"] == "paritygate/cuda:1.2"
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert step["agents"] == {"queue": "gpu_h100"}


def test_a_case_without_accelerator_takes_no_card_and_no_pod(full: Any) -> None:
    step = next(step for step in full.uploaded() if step["key"] == "cpu")
    assert step["agents"] == {"queue": "cpu"}
    assert "plugins" not in step
    assert '-m "nightly and CPU"' in step["command"]


def test_only_infrastructure_is_retried(full: Any) -> None:
    for step in full.uploaded():
        rules = step["retry"]["automatic"]
        assert [rule["exit_status"] for rule in rules] == [-1, 75]
        assert all(1 <= rule["limit"] <= 10 for rule in rules)
        assert "soft_fail" not in step


def test_a_step_carries_its_lane_its_limits_and_its_own_artifacts(full: Any) -> None:
    for lane in ("nightly", "weekly"):
        for step in full.uploaded(lane):
            assert step["if"] == f'build.env("{lane.upper()}") == "1"'
            assert step["timeout_in_minutes"] == 60
            assert step["artifact_paths"] == [f"artifacts/{step['key']}/**/*", f"artifacts/{step['key']}.junit.xml"]
            assert all(isinstance(value, str) for value in step["env"].values())
            assert step["env"]["CI"] == "true"


def test_a_condition_that_ends_in_a_dollar_survives(workshop: Any) -> None:
    lanes = json.loads((workshop.root / ".buildkite/lanes.yml").read_text())
    lanes["lanes"]["nightly"]["if"] = "build.branch =~ /^release-[0-9]+$/"
    workshop.write(".buildkite/lanes.yml", lanes)
    workshop.case("one")
    assert workshop.uploaded()[0]["if"] == "build.branch =~ /^release-[0-9]+$/"


def test_cases_without_a_group_stand_in_the_group_of_their_lane(workshop: Any) -> None:
    workshop.case("one")
    workshop.case("two", ci={"group": "Mine"})
    assert [(step["group"], step["key"]) for step in workshop.uploaded()] == [
        ("Accuracy nightly", "one"),
        ("Mine", "two"),
    ]
