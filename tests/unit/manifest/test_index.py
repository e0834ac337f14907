from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paritygate.errors import ManifestError, UsageError
from paritygate.manifest.index import Loaded, find_case, load_nodes
from paritygate.manifest.project import Project, find_project

Add = Callable[..., Path]
Load = Callable[[], Loaded]


def test_a_case_carries_project_relative_paths_whatever_file_states_them(sample_project: Path, load: Load) -> None:
    folder = sample_project / "cases" / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "own.py").write_text("", encoding="utf-8")
    (folder / "x.case.yaml").write_text(
        "extends: ../../base.yaml\nid: x\nreference: {adapter: own.py, assets: [{path: g/u.onnx, made_by: make}]}\n",
        encoding="utf-8",
    )
    (case,) = load().cases
    assert case.candidate.adapter == "cases/adapter.py"
    assert case.reference.adapter == "cases/deep/er/own.py"
    assert case.reference.assets[0].path == "cases/deep/er/g/u.onnx"
    assert case.folder == folder
    assert case.gate_file == folder / "x.gate.yaml"


def test_a_case_has_defaults_where_the_manifest_says_nothing(add_case: Add, load: Load) -> None:
    add_case("plain")
    (case,) = load().cases
    assert (case.id, case.base_id, case.variant, case.title) == ("plain", "plain", None, "A case for samples")
    assert (case.initial_latents, case.inputs, case.differences) == ("seeded", (), ())
    assert (case.reference.timeout_s, case.ci.timeout_minutes, case.ci.group) == (3600.0, 60, None)
    assert case.reference.spec == {"pipeline": "StableDiffusionPipeline", "dtype": "float32"}
    assert [entry.id for entry in case.measure.output] == ["output.ssim.min", "output.abs_diff_max.max"]


def test_float_pixels_and_given_names_make_other_measurement_ids(add_case: Add, load: Load) -> None:
    add_case(
        "ids",
        "measure:\n"
        "  output:\n"
        "    - {metric: ssim, aggregate: min, pixels: float}\n"
        "    - {metric: ssim, aggregate: min, id: mine}\n",
    )
    assert [entry.id for entry in load().cases[0].measure.output] == ["output.float.ssim.min", "mine"]


def test_input_digests_have_one_spelling(sample_project: Path, add_case: Add, load: Load) -> None:
    digest = "a29e05514715819ebc779c3ce23269e09434f1a8acbf989fd67abbcba357e34e"
    for index, text in enumerate((digest, f"sha256:{digest}")):
        add_case(
            f"i{index}",
            f"task: it2i\nrequest: {{inputs: [{{role: image, path: first_frame.png, sha256: '{text}'}}]}}\n",
        )
    assert {case.inputs[0].sha256 for case in load().cases} == {f"sha256:{digest}"}


def test_variants_are_merged_over_the_base_and_replace_it(add_case: Add, load: Load) -> None:
    add_case(
        "v",
        "variants:\n"
        "  - {id: small, request: {width: 32}, output: {width: 32}, measure: {exact: []}}\n"
        "  - {id: named, title: Own title, reference: {runner: command, command: [x]}}\n",
    )
    named, small = load().cases
    assert (named.id, named.base_id, named.variant) == ("v-named", "v", "named")
    assert (named.title, small.title) == ("Own title", "A case for samples (small)")
    assert (small.output.width, small.output.height) == (32, 64)
    assert small.document["request"]["prompt"] == "a red square"
    assert small.measure.exact == ()
    # A leg of another runner is another leg, not a mixture.
    assert named.reference.spec == {"command": ["x"]}


def test_one_sound_file_is_loaded_beside_a_broken_one(add_case: Add, load: Load) -> None:
    add_case("sound")
    add_case("broken", "claim: nothing\n")
    loaded = load()
    assert [case.id for case in loaded.cases] == ["sound"]
    assert len(loaded.problems) == 1
    assert loaded.files == 2


def test_find_case_takes_node_ids_case_ids_and_manifests(
    sample_project: Path, add_case: Add, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_case("plain")
    path = add_case("v", "variants: [{id: a}, {id: b}]\n")
    loaded = load()
    assert [case.id for case in find_case(loaded, "v-a")] == ["v-a"]
    assert [case.id for case in find_case(loaded, "v")] == ["v-a", "v-b"]
    assert [case.id for case in find_case(loaded, "cases/v.case.yaml")] == ["v-a", "v-b"]
    assert [case.id for case in find_case(loaded, str(path))] == ["v-a", "v-b"]
    monkeypatch.chdir(sample_project / "cases")
    assert [case.id for case in find_case(loaded, "plain.case.yaml")] == ["plain"]
    with pytest.raises(UsageError) as caught:
        find_case(loaded, "plane")
    assert caught.value.hint == "did you mean 'plain'?"


def test_find_case_in_an_empty_project_says_how_to_add_one(load: Load) -> None:
    with pytest.raises(UsageError) as caught:
        find_case(load(), "anything")
    assert "paritygate new" in caught.value.hint


def test_every_value_knows_the_file_and_line_it_came_from(sample_project: Path, add_case: Add) -> None:
    add_case("v", "request: {seed: 8}\nvariants:\n  - id: a\n    request: {width: 32}\n")
    (node,) = load_nodes(find_project(sample_project), "cases/v.case.yaml")
    origin = node.document.origin
    assert origin(("request", "prompt"))[:2] == ("cases/base.yaml", 6)
    assert origin(("request", "seed"))[:2] == ("cases/v.case.yaml", 4)
    assert origin(("request", "width"))[:2] == ("cases/v.case.yaml", 7)
    assert origin(("measure", "output", 1, "metric"))[:2] == ("cases/base.yaml", 14)


def test_nodes_of_a_broken_manifest_are_an_error_with_its_problems(sample_project: Path, add_case: Add) -> None:
    add_case("broken", "task: nothing\n")
    with pytest.raises(ManifestError) as caught:
        load_nodes(find_project(sample_project), "cases/broken.case.yaml")
    assert [problem.rule for problem in caught.value.problems] == ["value"]


def test_a_project_is_found_upwards(sample_project: Path) -> None:
    (sample_project / "cases" / "a" / "b").mkdir(parents=True)
    project = find_project(sample_project / "cases" / "a" / "b")
    assert project == Project(root=sample_project, cases=("cases",))


def test_no_project_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_project(tmp_path)
    assert caught.value.hint == "run: paritygate init"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "yaml-empty"),
        ("schema_version: 2\nwhatever: 1\n", "schema-version"),
        ("schema_version: 1\nartefacts: x\n", "unknown-key"),
        ("schema_version: 1\nartifacts: ../x\n", "format"),
        ("schema_version: 1\ncases: [a/../../b]\n", "format"),
        ("schema_version: 1\ncases: /abs\n", "type"),
    ],
)
def test_a_broken_project_file_is_a_problem_of_that_file(text: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "paritygate.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        find_project(tmp_path)
    assert [(problem.path, problem.rule) for problem in caught.value.problems] == [("paritygate.yaml", rule)]
