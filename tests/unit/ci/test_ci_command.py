"""``paritygate ci generate`` as a person and a pipeline meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NIGHTLY = ".buildkite/accuracy-nightly.yml"


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``paritygate ci generate`` in a folder; a traceback is never right."""
    done = subprocess.run(
        [sys.executable, "-c", "from paritygate.cli.main import main; main()", "ci", "generate", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_generate_writes_then_finds_nothing_to_do_and_check_agrees(workshop: Any) -> None:
    workshop.case("one")
    first = call(workshop.root)
    assert (first.returncode, "wrote .buildkite/accuracy-nightly.yml" in first.stdout) == (0, True)
    second = call(workshop.root / "cases")
    assert (second.returncode, "as generated: .buildkite/accuracy-nightly.yml" in second.stdout) == (0, True)
    assert call(workshop.root, "--check").returncode == 0


def test_check_shows_a_missing_file_as_a_diff_and_writes_nothing(workshop: Any) -> None:
    workshop.case("one")
    done = call(workshop.root, "--check")
    assert done.returncode == 1
    assert "--- /dev/null\n+++ b/.buildkite/accuracy-nightly.yml\n" in done.stdout
    assert '+        key: "one"\n' in done.stdout
    assert "fix: run: paritygate ci generate" in done.stderr
    assert not (workshop.root / NIGHTLY).exists()


def test_check_shows_drift_and_a_stale_file_as_diffs(workshop: Any) -> None:
    workshop.case("one")
    workshop.case("two", ci={"lane": "weekly"})
    call(workshop.root)
    workshop.case("one", title="Another title")
    (workshop.root / "cases/two.case.yaml").unlink()
    done = call(workshop.root, "--check")
    assert done.returncode == 1
    assert '-      - label: "Case one (1x H100)"\n+      - label: "Another title (1x H100)"\n' in done.stdout
    assert "--- a/.buildkite/accuracy-weekly.yml\n+++ /dev/null\n" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["generate", "check"])
def test_every_problem_of_every_manifest_is_printed_and_nothing_is_written(workshop: Any, arguments: list[str]) -> None:
    workshop.case("good")
    workshop.case("lane", ci={"lane": "nigthly"})
    workshop.case("cards", ci={"hardware": {"sku": ["H100"], "cards": 64}})
    workshop.case("name", ci={"sources": ["@engin"]})
    done = call(workshop.root, *arguments)
    assert done.returncode == 2
    for words in ("did you mean 'nightly'?", "no preset h100_64", "did you mean '@engine'?"):
        assert words in done.stderr
    assert done.stdout == ""
    assert not (workshop.root / NIGHTLY).exists()


def test_problems_of_registries_and_of_manifests_come_in_one_pass(workshop: Any) -> None:
    workshop.case("one", claim="nativ-parity")
    workshop.write(".buildkite/lanes.yml", "schema_version: 1\nlanes:\n  nightly: {iff: x}\n")
    done = call(workshop.root)
    assert done.returncode == 2
    assert ".buildkite/lanes.yml:3:" in done.stderr
    assert "did you mean 'native-parity'?" in done.stderr
    assert "no lane" not in done.stderr


def test_json_says_what_differs_and_what_is_wrong(workshop: Any) -> None:
    workshop.case("one")
    drift = call(workshop.root, "--check", "--json")
    found = {entry["path"]: entry["kind"] for entry in json.loads(drift.stdout)["drift"]}
    assert (drift.returncode, found[NIGHTLY]) == (1, "missing")
    workshop.case("one", ci={"lane": "x"})
    broken = call(workshop.root, "--json")
    problem = json.loads(broken.stdout)["problems"][0]
    assert (broken.returncode, problem["path"], problem["rule"]) == (2, "cases/one.case.yaml", "lane")


def test_outside_a_project_the_way_in_is_named(tmp_path: Path) -> None:
    done = call(tmp_path)
    assert done.returncode == 2
    assert "paritygate init" in done.stderr


def test_a_folder_in_the_way_is_one_message(workshop: Any) -> None:
    workshop.case("one")
    (workshop.root / NIGHTLY).mkdir()
    for arguments in ([], ["--check"]):
        done = call(workshop.root, *arguments)
        assert (done.returncode, f"cannot read {NIGHTLY}" in done.stderr) == (2, True)


def test_a_project_without_a_case_is_told_that_there_is_nothing_to_generate(workshop: Any) -> None:
    for arguments in ([], ["--check"]):
        done = call(workshop.root, *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "note: no case, nothing to generate\n")


def test_mended_means_that_something_was(workshop: Any) -> None:
    workshop.case("one")
    assert [json.loads(call(workshop.root, "--json").stdout)["mended"] for _ in range(2)] == [True, False]


@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["generate", "check"])
def test_a_link_is_no_generated_file(workshop: Any, arguments: list[str]) -> None:
    workshop.case("one")
    call(workshop.root)
    (workshop.root / NIGHTLY).rename(workshop.root / "elsewhere.yml")
    (workshop.root / NIGHTLY).symlink_to(workshop.root / "elsewhere.yml")
    done = call(workshop.root, *arguments)
    assert (done.returncode, f"{NIGHTLY} is a link" in done.stderr) == (2, True)


def test_generating_loads_no_array_library(workshop: Any) -> None:
    workshop.case("one")
    program = (
        "import sys\nfrom paritygate.cli.main import main\n"
        "try: main(['ci', 'generate'])\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'numpy', 'torch', 'PIL', 'diffusers', 'yaml_rs', 'jsonschema'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=workshop.root, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
