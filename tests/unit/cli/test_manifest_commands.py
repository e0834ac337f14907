"""``validate``, ``show``, ``schema``, ``new`` and ``init`` as a person uses them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
import yaml

from paritygate.cli.main import main
from paritygate.cli.scaffold import template
from paritygate.manifest.rules.table import summaries

SAMPLES = Path(__file__).parents[2] / "samples" / "manifest"
CASE = "schema_version: 1\nextends: base.yaml\nid: one\n"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process, as ``paritygate WORDS`` would."""

    def run_words(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as caught:
            main(list(words))
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run_words


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty git repository, as the current folder."""
    root = tmp_path.resolve() / "repository"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample project with one case, as the current folder."""
    root = tmp_path.resolve() / "project"
    shutil.copytree(SAMPLES / "project", root)
    (root / "cases" / "one.case.yaml").write_text(CASE, encoding="utf-8")
    monkeypatch.chdir(root)
    return root


def test_init_then_new_then_validate_is_the_way_in(empty: Path, run: Callable[..., Outcome]) -> None:
    outside = run("validate")
    assert (outside.code, "paritygate init" in outside.err) == (2, True)

    assert run("init").code == 0
    none = run("validate")
    assert none.code == 2
    assert none.out.splitlines()[0].endswith("add a case with: paritygate new SLUG")

    new = run("new", "demo-case")
    assert new.code == 0
    assert "tests/e2e/accuracy/demo_case/demo-case.case.yaml" in new.out
    assert "paritygate validate" in new.out
    sound = run("validate")
    assert (sound.code, sound.out) == (0, "ok: 1 case, 0 variants, 1 file\n")
    assert (empty / "tests/e2e/accuracy/demo_case/README.md").read_text(encoding="utf-8").startswith("# demo-case\n")
    assert run("ci", "generate").code == 0


def test_init_keeps_what_is_there_and_says_so(empty: Path, run: Callable[..., Outcome]) -> None:
    (empty / ".buildkite").mkdir()
    (empty / ".buildkite" / "lanes.yml").write_text("mine\n", encoding="utf-8")
    (empty / ".gitignore").write_text("*.log\n", encoding="utf-8")
    outcome = run("init")
    assert "kept  .buildkite/lanes.yml" in outcome.out
    assert "add /artifacts/ to .gitignore" in outcome.out
    assert (empty / ".buildkite" / "lanes.yml").read_text(encoding="utf-8") == "mine\n"
    assert (empty / ".gitignore").read_text(encoding="utf-8") == "*.log\n"
    before = {path: path.read_bytes() for path in empty.rglob("*") if path.is_file()}
    assert "wrote" not in run("init").out
    assert {path: path.read_bytes() for path in empty.rglob("*") if path.is_file()} == before


def test_init_does_not_take_a_folder_for_the_file_of_that_name(empty: Path, run: Callable[..., Outcome]) -> None:
    (empty / "paritygate.yaml").mkdir()
    outcome = run("init")
    assert (outcome.code, "paritygate.yaml is a folder" in outcome.err, "kept" in outcome.out) == (2, True, False)


def test_init_inside_a_project_is_refused(
    project: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "cases")
    outcome = run("init")
    assert (outcome.code, f"inside the project {project}" in outcome.err) == (2, True)
    assert not (project / "cases" / "paritygate.yaml").exists()


def test_init_in_a_folder_that_cannot_be_written_is_an_error_not_a_traceback(
    empty: Path, run: Callable[..., Outcome]
) -> None:
    (empty / ".buildkite").write_text("a file where a folder must be", encoding="utf-8")
    outcome = run("init")
    assert (outcome.code, "cannot write" in outcome.err) == (2, True)


@pytest.mark.parametrize("slug", ["123", "null", "1e3", "007", "true", "no", "a" * 100])
def test_new_makes_a_sound_case_of_every_id(slug: str, project: Path, run: Callable[..., Outcome]) -> None:
    assert run("new", slug).code == 0
    assert run("validate").out == "ok: 2 cases, 0 variants, 2 files\n"


def test_the_scaffolded_test_module_is_the_one_this_repository_uses() -> None:
    repository = Path(__file__).parents[3]
    ours = (repository / "tests" / "e2e" / "accuracy" / "test_accuracy.py").read_text(encoding="utf-8")
    assert template("test_accuracy.py.txt") == ours


@pytest.mark.parametrize("slug", ["Demo", "a_b", "../up", "-x", "", "a" * 101, "a b", "ä"])
def test_new_refuses_what_is_no_id_and_writes_nothing(slug: str, project: Path, run: Callable[..., Outcome]) -> None:
    before = sorted(project.rglob("*"))
    outcome = run("new", "--", slug)
    assert (outcome.code, "is not an id" in outcome.err) == (2, True)
    assert sorted(project.rglob("*")) == before


def test_new_never_overwrites(project: Path, run: Callable[..., Outcome]) -> None:
    assert "is taken by cases/one.case.yaml" in run("new", "one").err
    folder = project / "cases" / "two"
    folder.mkdir()
    (folder / "README.md").write_text("mine", encoding="utf-8")
    outcome = run("new", "two")
    assert (outcome.code, "cases/two/README.md exists already" in outcome.err) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["README.md"]


def test_new_without_registries_names_the_command_that_writes_them(project: Path, run: Callable[..., Outcome]) -> None:
    shutil.rmtree(project / ".buildkite")
    outcome = run("new", "two")
    assert (outcome.code, "paritygate init" in outcome.err) == (2, True)


def test_validate_counts_cases_variants_and_files(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "cases" / "v.case.yaml").write_text(
        CASE.replace("one", "v") + "variants: [{id: a}, {id: b}]\n", encoding="utf-8"
    )
    assert run("validate").out == "ok: 2 cases, 2 variants, 2 files\n"
    assert run("validate", "cases/one.case.yaml").out == "ok: 1 case, 0 variants, 1 file\n"


def test_validate_of_a_file_that_is_no_manifest_says_so(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "cases" / "some.py").write_text("", encoding="utf-8")
    outcome = run("validate", "cases/some.py")
    assert (outcome.code, "cases/some.py is not a *.case.yaml" in outcome.err) == (2, True)


@pytest.mark.parametrize("words", [("validate",), ("validate", "--format", "github"), ("show", "one")], ids=" ".join)
def test_a_manifest_cannot_command_the_terminal(
    words: tuple[str, ...], project: Path, run: Callable[..., Outcome]
) -> None:
    broken = "" if words[0] == "show" else "claim: native\n"
    title = 'title: "\\e[2J\\u202Ea\\x9bb"\n'
    (project / "cases" / "one.case.yaml").write_text(f"{CASE}{title}{broken}", encoding="utf-8")
    (project / "cases" / "x\x1b[2J\n::error::\u202e.case.yaml").write_text("{", encoding="utf-8")
    outcome = run(*words)
    shown = (outcome.out + outcome.err).replace("\n", "")
    assert shown.isprintable(), shown
    assert not any(line.startswith("::error::") for line in outcome.out.splitlines())


def test_the_three_formats_tell_the_same_problems(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "cases" / "bad.case.yaml").write_text(
        CASE.replace("one", "bad") + "title: 'a, 100% <bad> one'\nclaim: native\n", encoding="utf-8"
    )
    text, github = run("validate"), run("validate", "--format", "github")
    data = json.loads(run("validate", "--json").out)
    assert json.loads(run("validate", "--format", "json").out) == data
    assert (text.code, github.code, data["ok"], data["files"]) == (2, 2, False, 2)
    (problem,) = data["problems"]
    place = f"{problem['path']}:{problem['line']}:{problem['column']}"
    assert text.out.splitlines()[0].startswith(f"{place}: [{problem['rule']}] {problem['message']}")
    assert github.out.splitlines()[0].startswith("::error file=cases/bad.case.yaml,line=5,col=8,title=value::")
    assert text.out.splitlines()[-1] == "1 problem; 2 files read"


def test_a_broken_project_file_is_reported_in_the_format_asked_for(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "paritygate.yaml").write_text("schema_version: 1\ncases: []\n", encoding="utf-8")
    data = json.loads(run("validate", "--json").out)
    assert [problem["rule"] for problem in data["problems"]] == ["range"]


def test_the_help_lists_every_rule(run: Callable[..., Outcome]) -> None:
    text = run("validate", "--help").out
    for name, summary in summaries().items():
        assert f"  {name:<22} {summary}" in text


def test_show_prints_yaml_with_the_origin_of_each_value(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "cases" / "one.case.yaml").write_text(
        CASE + 'title: "it\'s # 1: no"\nrequest: {seed: 8}\n', encoding="utf-8"
    )
    outcome = run("show", "one")
    lines = outcome.out.splitlines()
    assert any(line.startswith("  seed: 8 ") and line.endswith("# cases/one.case.yaml:5") for line in lines)
    assert any(line.startswith("  width: 64 ") and line.endswith("# cases/base.yaml:6") for line in lines)
    shown = yaml.safe_load(outcome.out)
    assert shown["title"] == "it's # 1: no"
    assert shown["ci"] == {"lane": "nightly", "hardware": {"sku": ["H100"], "cards": 1}, "sources": ["@engine"]}


def test_show_as_json_has_case_origins_and_contract(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "cases" / "v.case.yaml").write_text(
        CASE.replace("one", "v") + "variants: [{id: a}, {id: b, request: {seed: 1}}]\n", encoding="utf-8"
    )
    first, second = json.loads(run("show", "v", "--json").out)
    assert (first["id"], second["variant"], second["case"]["request"]["seed"]) == ("v-a", "b", 1)
    assert first["contract"] != second["contract"]
    assert second["origins"]["request.seed"] == "cases/v.case.yaml:4:45"
    assert second["origins"]["measure.output[0].metric"] == "cases/base.yaml:13:16"


def test_show_of_a_broken_case_prints_its_problems(project: Path, run: Callable[..., Outcome]) -> None:
    (project / "cases" / "one.case.yaml").write_text(CASE + "task: nothing\n", encoding="utf-8")
    outcome = run("show", "one")
    assert outcome.code == 2
    assert "cases/one.case.yaml:4:7: [value]" in outcome.err


def test_show_suggests_the_nearest_case(project: Path, run: Callable[..., Outcome]) -> None:
    outcome = run("show", "oen")
    assert (outcome.code, "did you mean 'one'?" in outcome.err) == (2, True)


@pytest.mark.parametrize("name", ["case", "gate", "hardware", "lanes", "project", "record", "sources"])
def test_schema_prints_a_schema_that_a_validator_takes(name: str, run: Callable[..., Outcome]) -> None:
    schema = json.loads(run("schema", name).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")


def test_the_record_schema_spells_infinity_as_records_do(run: Callable[..., Outcome]) -> None:
    schema = json.loads(run("schema", "record").out)
    value = schema["$defs"]["MeasurementResult"]["properties"]["value"]
    validator = jsonschema.Draft202012Validator(value)
    assert [validator.is_valid(number) for number in (1.5, "inf", "-inf", "nan", "Infinity", None)] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("words", [["--help"], ["validate"], ["show", "one"], ["schema", "record"], ["new", "two"]])
def test_no_heavy_module_is_loaded(words: list[str], project: Path) -> None:
    script = (
        "import sys\nfrom paritygate.cli.main import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "heavy = {'numpy', 'torch', 'PIL', 'diffusers', 'jsonschema', 'psutil'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=project, check=True, capture_output=True)


def test_validating_a_project_without_gates_loads_nothing_that_judges_them(project: Path) -> None:
    script = (
        "import sys\nfrom paritygate.cli.main import main\n"
        "try:\n    main(['validate'])\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n"
        "assert 'paritygate.gates.evidence' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=project, check=True, capture_output=True)


def test_this_repository_validates(run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    outcome = run("validate")
    assert outcome.code == 0, outcome.out
