from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from jsonschema_rs import Draft202012Validator

import paritygate.manifest
from paritygate.manifest.rules.comparison import MAX_ID_LENGTH
from paritygate.manifest.rules.table import (
    CASE_RULES,
    GATE_RULES,
    PROJECT_RULES,
    REGISTRY_FILE_RULES,
    REGISTRY_RULES,
    summaries,
)
from paritygate.manifest.schemas import schema_data
from paritygate.manifest.wording import nearest, spell

SCHEMAS = sorted((Path(paritygate.manifest.__file__).parent / "schema").glob("*.schema.json"))


def test_the_tables_are_sorted_and_no_rule_has_two_meanings() -> None:
    for table in (
        [rule.name for rule in CASE_RULES],
        [rule.name for rule in GATE_RULES],
        list(PROJECT_RULES),
        list(REGISTRY_FILE_RULES),
        list(summaries()),
    ):
        assert table == sorted(set(table))


def test_a_rule_is_reported_under_the_name_that_the_table_gives_it() -> None:
    for rule in (*CASE_RULES, *GATE_RULES):
        source = Path(rule.check.__code__.co_filename).read_text(encoding="utf-8")
        assert f'"{rule.name}"' in source


def test_the_rules_that_need_registries_exist() -> None:
    assert set(summaries()) >= REGISTRY_RULES


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_a_schema_is_valid_json_schema_2020_12_with_titles_and_no_open_mapping_by_accident(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"]
    open_mappings = {"call", "config", "extra", "forward", "options", "send"}
    for where, node in _objects(schema, ""):
        name = where.rpartition("/")[2]
        is_closed = "additionalProperties" in node or "$ref" in node
        # A leg is closed by the schema of its runner, torch.compile by itself, the others in the branch for mappings.
        is_closed_elsewhere = where.endswith(
            ("$defs/leg", "/initial_latents", "/dtype", "/compile/additionalProperties")
        )
        assert is_closed or is_closed_elsewhere or name in open_mappings, where


def _objects(node: object, where: str) -> list[tuple[str, dict[str, object]]]:
    found = []
    if isinstance(node, dict):
        if node.get("type") == "object" or (isinstance(node.get("type"), list) and "object" in node["type"]):
            found.append((where, node))
        for key, child in node.items():
            found += _objects(child, f"{where}/{key}")
    elif isinstance(node, list):
        for index, child in enumerate(node):
            found += _objects(child, f"{where}/{index}")
    return found


def test_latents_and_dtypes_as_mappings_are_closed() -> None:
    definitions = schema_data("case")["$defs"]
    request = Draft202012Validator({"$ref": "#/$defs/request", "$defs": definitions})
    assert request.is_valid({"initial_latents": {"source": "shared"}})
    assert not request.is_valid({"initial_latents": {"source": "shared", "more": 1}})
    leg = Draft202012Validator({"$ref": "#/$defs/leg_diffusers", "$defs": definitions})
    assert leg.is_valid({"pipeline": "X", "dtype": {"vae": "float32"}})
    assert not leg.is_valid({"pipeline": "X", "dtype": {"vae": "fp32"}})


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_every_pattern_says_in_words_what_it_expects(path: Path) -> None:
    def patterns(node: object) -> list[dict[str, object]]:
        if isinstance(node, list):
            return [found for child in node for found in patterns(child)]
        if not isinstance(node, dict):
            return []
        own = [node] if isinstance(node.get("pattern"), str) else []
        return own + [found for key, child in node.items() if key != "not" for found in patterns(child)]

    for node in patterns(json.loads(path.read_text(encoding="utf-8"))):
        assert node.get("x-expected"), node
        re.compile(str(node["pattern"]))


def test_suggestions_are_case_blind_and_short() -> None:
    assert nearest("h100", ["H100", "B200"]) == "did you mean 'H100'?"
    assert nearest("zzz", ["H100", "B200"]) == "expected one of: B200, H100"
    assert nearest("zzz", ["H100"]) == "expected: H100"
    assert nearest("zzz", []) == ""
    assert nearest("zzz", [f"name_{index}" for index in range(50)]) == ""


def test_a_place_is_spelt_on_one_line() -> None:
    assert spell(("measure", "output", 0, "metric")) == "measure.output[0].metric"
    assert spell(("candidate", "requires", "a\nb")) == "candidate.requires['a\\nb']"
    assert spell(()) == "the file"


@pytest.mark.parametrize(("name", "place"), [("case", "id"), ("gate", "id")])
def test_schemas_and_code_have_one_limit_of_ids(name: str, place: str) -> None:
    assert schema_data(name)["$defs"][place]["maxLength"] == MAX_ID_LENGTH
