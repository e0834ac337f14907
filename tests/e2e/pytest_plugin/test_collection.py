"""From manifests to pytest nodes: ids, marks, selection, and what is wrong with a file."""

from __future__ import annotations

import pytest

NODE = "accuracy/test_accuracy.py::test_accuracy"


@pytest.fixture
def three_cases(inner_project):
    inner_project.add("cpu-a", gate="")
    inner_project.add("cpu-b", gate="", lane="trial")
    inner_project.add("gpu", gate="", sku="H100")
    return inner_project


def nodes(run) -> list[str]:
    return [line.rpartition("::")[2] for line in run.out.splitlines() if "::test_accuracy[" in line]


def test_node_ids_are_case_ids_and_nothing_runs(three_cases) -> None:
    run = three_cases.pytest("--collect-only", "-q", "--strict-markers", "--paritygate-expect", "3")
    assert run.status == 0, run.out
    assert nodes(run) == ["test_accuracy[cpu-a]", "test_accuracy[cpu-b]", "test_accuracy[gpu]"]
    assert three_cases.records() == {}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("nightly and H100 and cards_1", ["test_accuracy[gpu]"]),
        ("accuracy and cpu", ["test_accuracy[cpu-a]", "test_accuracy[cpu-b]"]),
        ("trial and CPU", ["test_accuracy[cpu-b]"]),
    ],
)
def test_marks_select_what_the_manifests_say(three_cases, expression: str, selected: list[str]) -> None:
    run = three_cases.pytest("--collect-only", "-q", "--strict-markers", "-m", expression)
    assert nodes(run) == selected


def test_marks_are_listed_before_any_case_is_read(inner_project) -> None:
    inner_project.write("accuracy/broken.case.yaml", "{")
    run = inner_project.pytest("--markers")
    assert run.status == 0
    assert "@pytest.mark.H100: can run on H100" in run.out
    assert "@pytest.mark.trial: lane: Where proposed bounds are on trial." in run.out


@pytest.mark.parametrize("folder", ["accuracy", "accuracy/cpu-a/.."])
def test_the_root_of_pytest_may_lie_below_that_of_the_project(three_cases, folder: str) -> None:
    three_cases.write("accuracy/pytest.ini", "[pytest]\naddopts = --strict-markers\n")
    run = three_cases.pytest("--collect-only", "-q", "-m", "H100", folder=folder)
    assert nodes(run) == ["test_accuracy[gpu]"], run.out


def test_the_root_of_pytest_may_lie_above_that_of_the_project(three_cases) -> None:
    three_cases.write("../pytest.ini", "[pytest]\naddopts = --strict-markers\n")
    run = three_cases.pytest("--collect-only", "-q", "-m", "H100", "--rootdir", "..", "-c", "../pytest.ini", "accuracy")
    assert nodes(run) == ["test_accuracy[gpu]"], run.out


def test_a_test_sees_the_cases_beneath_its_own_folder(three_cases) -> None:
    three_cases.write("accuracy/cpu-a/test_own.py", "def test_accuracy(accuracy_case):\n    accuracy_case.check()\n")
    run = three_cases.pytest("--collect-only", "-q", "accuracy/cpu-a/test_own.py")
    assert nodes(run) == ["test_accuracy[cpu-a]"]


@pytest.mark.parametrize(("options", "status"), [((), 2), (("-n", "2"), 1)], ids=["one process", "xdist"])
def test_a_broken_manifest_stops_collection_with_its_problem_lines(three_cases, options, status: int) -> None:
    manifest = three_cases.root / "accuracy" / "gpu" / "gpu.case.yaml"
    manifest.write_text(manifest.read_text().replace("claim: native-parity", "claim: native-partiy"))
    run = three_cases.pytest("-q", "--paritygate-expect", "1", *options)
    assert run.status == status
    assert "accuracy/gpu/gpu.case.yaml:5:8: [" in run.out
    assert "native-parity" in run.out
    assert "Traceback" not in run.out
    assert ".py:" not in run.out.replace("test_accuracy.py:", "")
    assert three_cases.records() == {}


def test_a_broken_registry_stops_collection_with_its_problem_lines(three_cases) -> None:
    three_cases.write(".buildkite/lanes.yml", "schema_version: 1\nlanes: {nightly: {}}\n")
    run = three_cases.pytest("-q")
    assert run.status == 2
    assert ".buildkite/lanes.yml:2:" in run.out
    assert "Traceback" not in run.out


def test_a_folder_without_a_case_is_an_error_and_not_an_empty_set(inner_project) -> None:
    run = inner_project.pytest("-q")
    assert run.status == 2
    assert "no *.case.yaml beneath" in run.out
    assert "paritygate new SLUG" in run.out


def test_without_the_plugin_no_case_can_look_checked(three_cases, inner_pytest) -> None:
    run = inner_pytest(three_cases.root, "-q", plugins=())
    assert run.status == 1
    assert "fixture 'accuracy_case' not found" in run.out
    assert inner_pytest(three_cases.root, "-q", "--paritygate-expect", "1", plugins=()).status == 4


@pytest.mark.parametrize("folder", ["", "deep/er/"])
def test_case_folders_do_not_hide_tests_beside_a_case(three_cases, folder: str) -> None:
    three_cases.write(f"accuracy/cpu-a/{folder}test_beside.py", "def test_beside():\n    pass\n")
    three_cases.write("accuracy/cpu-b/test_text.txt", ">>> 1\n1\n")
    run = three_cases.pytest("-q", "--collect-only", "-m", "not accuracy")
    assert f"accuracy/cpu-a/{folder}test_beside.py::test_beside" in run.out, run.out
    assert "accuracy/cpu-b/test_text.txt::test_text.txt" in run.out, run.out


COLLECTOR = """
import pytest

class Text(pytest.File):
    def collect(self):
        yield Item.from_parent(self, name="read")

class Item(pytest.Item):
    def runtest(self):
        pass

def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".md":
        return Text.from_parent(parent, path=file_path)
"""


@pytest.mark.parametrize("how", ["conftest", "--doctest-glob=*.md"])
def test_case_folders_do_not_hide_the_texts_that_others_make_tests_of(three_cases, how: str) -> None:
    three_cases.write("accuracy/cpu-a/README.md", ">>> 1\n1\n")
    if how == "conftest":
        three_cases.write("accuracy/conftest.py", COLLECTOR)
    run = three_cases.pytest("-q", "--collect-only", "-m", "not accuracy", *[how] * (how != "conftest"))
    assert "accuracy/cpu-a/README.md::" in run.out, run.out


def test_pytest_makes_no_collector_for_a_case_folder_with_its_readme_and_evidence(three_cases) -> None:
    for name in ("cpu-a", "cpu-b", "gpu"):
        three_cases.write(f"accuracy/{name}/README.md", "What it shows.\n")
        three_cases.write(f"accuracy/{name}/evidence/1.json", "{}\n")
    seen = three_cases.root / "seen.txt"
    hook = f"def pytest_collect_directory(path):\n    print(path.name, file=open({str(seen)!r}, 'a'))\n"
    three_cases.write("conftest.py", hook)
    three_cases.write("pytest.ini", "[pytest]\n")  # the root of pytest, whatever lies in the folders above
    assert three_cases.pytest("-q", "--collect-only").status == 0
    assert not {"cpu-a", "cpu-b", "gpu"} & set(seen.read_text().split())
    three_cases.write("accuracy/cpu-a/evidence/test_it.py", "")
    assert three_cases.pytest("-q", "--collect-only").status == 0
    assert {"cpu-a", "cpu-b", "gpu"} & set(seen.read_text().split()) == {"cpu-a"}
