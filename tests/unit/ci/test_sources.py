"""A step depends on everything its case is made of."""

from __future__ import annotations

import json
from typing import Any


def sources(workshop: Any, key: str) -> list[str]:
    return json.loads(workshop.files()[".buildkite/accuracy-sources.json"])["steps"][key]["sources"]


def test_a_plain_case_depends_on_its_manifest_gate_and_evidence_also_before_they_exist(workshop: Any) -> None:
    workshop.case("one")
    assert sources(workshop, "one") == ["cases/evidence/", "cases/one.case.yaml", "cases/one.gate.yaml"]


def test_what_a_manifest_extends_counts_over_every_link(workshop: Any) -> None:
    workshop.case("one", extends="../shared/near.yaml")
    workshop.write("shared/near.yaml", {"extends": "far.yaml", "coverage": {"gaps": ["near"]}})
    workshop.write("shared/far.yaml", {"coverage": {"gaps": ["far"]}})
    assert {"shared/near.yaml", "shared/far.yaml", "cases/one.case.yaml"} <= set(sources(workshop, "one"))


def test_an_adapter_is_a_source_and_a_module_beside_it_is_none_because_it_cannot_import_it(workshop: Any) -> None:
    workshop.write("cases/adapter.py", "import helper\n")
    workshop.write("cases/helper.py", "")
    workshop.case("one", candidate={"runner": "python", "adapter": "adapter.py"})
    found = sources(workshop, "one")
    assert "cases/adapter.py" in found
    assert "cases/helper.py" not in found


def test_prompt_files_and_models_that_ship_count_and_built_assets_do_not(workshop: Any) -> None:
    workshop.write("cases/data/prompts.txt", "a cat\n")
    workshop.write("cases/model/model_index.json", "{}")
    workshop.write("Makefile", "x:\n")
    asset = {"path": "../build/graph.onnx", "made_by": "make x"}
    workshop.case(
        "one",
        suite={"prompts": "data/prompts.txt"},
        model={"id": "a/b", "revision": "0" * 40, "weights": "trained", "path": "model"},
        candidate={"runner": "diffusers", "pipeline": "StableDiffusionPipeline", "assets": [asset]},
    )
    found = sources(workshop, "one")
    assert {"cases/data/prompts.txt", "cases/model/"} <= set(found)
    assert not any("graph.onnx" in path for path in found)


def test_declared_paths_and_names_are_resolved(workshop: Any) -> None:
    workshop.case("one", ci={"sources": ["@engine", "src/"]})
    assert {"src/engine/", "src/"} <= set(sources(workshop, "one"))


def test_the_version_of_a_golden_is_a_source_of_the_case_that_reads_it(workshop: Any) -> None:
    golden = {"name": "frozen", "version": 3, "digest": f"sha256:{'0' * 64}"}
    workshop.case("one", claim="golden-regression", reference={"runner": "golden", "golden": golden})
    assert "goldens/frozen/v3/" in sources(workshop, "one")
