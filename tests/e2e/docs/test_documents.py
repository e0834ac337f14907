"""README and CONTRIBUTING, executed: files they show are written, commands they show are run, claims are held."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from paritygate.cli.main import BUG_EXIT_CODE, COMMANDS
from paritygate.errors import ExitCode
from paritygate.manifest.case import OutputKind
from paritygate.records.model import Status
from paritygate.runners.failures import KINDS
from paritygate.runners.job import Writer
from paritygate.runners.table import RUNNERS

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ADAPTERS = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
RUNNERS_GUIDE = (ROOT / "docs" / "runners.md").read_text(encoding="utf-8")
MARKED = re.compile(r"<!-- (?P<kind>file|part of): (?P<path>\S+) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
PARITYGATE = Path(sys.executable).with_name("paritygate")


def shown_commands() -> list[tuple[str, str]]:
    """Every command of a console block with the output shown below it, in reading order."""
    shown: list[tuple[str, str]] = []
    for block in CONSOLE.findall(README):
        for line in block.splitlines():
            if line.startswith("$ "):
                shown.append((line[2:], ""))
            else:
                command, output = shown.pop()
                shown.append((command, f"{output}{line}\n"))
    return shown


def run(folder: Path, command: str, *, code: int = 0) -> str:
    words = shlex.split(command)
    assert words[0] == "paritygate"
    outside_ci = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [PARITYGATE, *words[1:]], cwd=folder, env=outside_ci, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def write_files(folder: Path, document: str) -> None:
    for match in MARKED.finditer(document):
        if match["kind"] == "file":
            path = folder / match["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(match["text"], encoding="utf-8")


def test_the_walk_through_gives_the_step_that_it_shows(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    parts = {match["path"]: match["text"] for match in MARKED.finditer(README) if match["kind"] == "part of"}
    assert len(parts) == 1
    steps = [(command, output) for command, output in shown_commands() if command.startswith("paritygate")]
    names = ["paritygate init", "paritygate validate", "paritygate ci generate"]
    assert [command for command, _ in steps[:-1]] == names
    for command, expected in steps[:-1]:
        output = run(tmp_path, command)
        assert not expected or output == expected
        if command == "paritygate init":
            write_files(tmp_path, README)
    for path, text in parts.items():
        generated = iter((tmp_path / path).read_text(encoding="utf-8").splitlines())
        missing = [line for line in text.splitlines() if line not in generated]  # consumes: order counts
        assert missing == []


def test_the_ad_hoc_comparison_prints_what_is_shown(tmp_path: Path) -> None:
    reference = np.array([1, 2, 4, 8], np.float32)
    np.save(tmp_path / "reference.npy", reference)
    np.save(tmp_path / "candidate.npy", reference + np.array([0, 0, 0, 1 / 16], np.float32))
    command, expected = shown_commands()[-1]
    assert command.startswith("paritygate compare ")
    assert run(tmp_path, command) == expected


def test_the_toy_of_the_adapter_guide_goes_from_unvalidated_to_provisional_as_described(tmp_path: Path) -> None:
    run(tmp_path, "paritygate init")
    write_files(tmp_path, ADAPTERS)
    assert "toy: unvalidated" in run(tmp_path, "paritygate run toy", code=ExitCode.PREFLIGHT)
    folder = tmp_path / "tests/e2e/accuracy/toy"
    (record,) = tmp_path.glob("artifacts/toy/*/record.json")
    (folder / "evidence").mkdir()
    shutil.copy(record, folder / "evidence" / f"{record.parent.name}.json")
    (gate,) = re.findall(r"```yaml\n(schema_version: 1\ncase: toy\n.*?)```", ADAPTERS, re.DOTALL)
    shown = re.findall(r"sha256:[0-9a-f]{64}", run(tmp_path, "paritygate show toy"))
    gate = gate.replace("sha256:...", shown[0], 1).replace("sha256:...", f"sha256:{'0' * 64}")
    (folder / "toy.gate.yaml").write_text(gate, encoding="utf-8")
    problems = run(tmp_path, "paritygate validate", code=ExitCode.USAGE)
    (digest,) = re.findall(r"write: evidence: (sha256:[0-9a-f]{64})", problems)
    (folder / "toy.gate.yaml").write_text(gate.replace(f"sha256:{'0' * 64}", digest), encoding="utf-8")
    run(tmp_path, "paritygate validate")
    assert "toy: provisional" in run(tmp_path, "paritygate run toy")


def test_the_engine_of_the_runner_guide_runs_and_its_output_becomes_a_golden(tmp_path: Path) -> None:
    run(tmp_path, "paritygate init")
    write_files(tmp_path, RUNNERS_GUIDE.replace('"==2.4.6"', f'"=={np.__version__}"'))
    assert run(tmp_path, "paritygate preflight square").startswith("square: ready")
    assert "square: unvalidated" in run(tmp_path, "paritygate run square", code=ExitCode.PREFLIGHT)
    shown = run(tmp_path, "paritygate checklist square")
    assert re.search(r"config.gain +0.2 +0.2001 +declared", shown)
    for words in (["init", "--quiet"], ["add", "."], [*_IDENTITY, "commit", "--quiet", "-m", "a case"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    run(tmp_path, "paritygate golden create square")
    (draft,) = tmp_path.glob("artifacts/goldens/square/*/golden.json")
    promoted = run(tmp_path, f"paritygate golden promote {draft.parent} --reason 'first version'")
    (digest,) = re.findall(r"sha256:[0-9a-f]{64}", promoted)
    case = tmp_path / "tests/e2e/accuracy/square/square.case.yaml"
    golden = f'reference: {{runner: golden, golden: {{name: square, version: 1, digest: "{digest}"}}}}\n'
    text = case.read_text(encoding="utf-8")
    case.write_text(re.sub(r"(?ms)^reference:$.*?(?=^candidate:)", golden, text), encoding="utf-8")
    run(tmp_path, "paritygate golden verify")
    assert "square" in run(tmp_path, "paritygate golden list")
    assert "square: unvalidated" in run(tmp_path, "paritygate run square", code=ExitCode.PREFLIGHT)


def test_the_runner_guide_names_every_runner_and_class_of_failure() -> None:
    runners = set(re.findall(r"^\| `(\w+)` \| ", RUNNERS_GUIDE, re.MULTILINE))
    assert runners == set(RUNNERS)
    assert {kind for kind in KINDS if f"`{kind}`" not in RUNNERS_GUIDE} == set()


def test_the_adapter_guide_names_all_that_an_adapter_can_report() -> None:
    methods = {name for name in vars(Writer) if not name.startswith("_")}
    assert methods - {"environment"} <= set(re.findall(r"`writer\.(\w+)", ADAPTERS))
    kinds = set(re.findall(r"^\| `(\w+)` \| ", ADAPTERS, re.MULTILINE))
    assert kinds == set(get_args(OutputKind))


def test_the_manifest_of_the_walk_through_has_ten_lines() -> None:
    (text,) = (match["text"] for match in MARKED.finditer(README) if match["kind"] == "file")
    assert len(text.splitlines()) == 10


def test_make_targets_that_the_documents_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`", README + CONTRIBUTING)) | {
        command.split()[1] for command, _ in shown_commands() if command.startswith("make ")
    }
    assert {"demo", "test"} <= named <= targets


def test_commands_that_the_documents_name_exist() -> None:
    named = set(re.findall(r"`paritygate ([a-z]+)", README + CONTRIBUTING))
    assert named == set(COMMANDS)


def test_exit_codes_and_verdicts_are_the_ones_of_the_code() -> None:
    listed = README.split("Exit codes: ")[1].split("\n\n")[0]
    documented = {int(code) for code in re.findall(r"(?:^|; |;\n)(\d+) ", listed)}
    assert documented == {*map(int, ExitCode), BUG_EXIT_CODE, 130}
    table = README.split("## A verdict")[1]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {status.value for status in Status}


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs/adapters.md", "docs/metrics.md"]
)
def test_local_links_and_pictures_resolve(document: str) -> None:
    path = ROOT / document
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (path.parent / target).exists()] == []


def test_each_recipe_of_contributing_stays_under_fifteen_lines() -> None:
    recipes = re.findall(r"^## (Add a \w+)\n\n(.*?)(?=^## |\Z)", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in recipes] == ["Add a case", "Add a metric", "Add a runner"]
    assert [name for name, text in recipes if len(text.strip().splitlines()) >= 15] == []


def test_paths_that_the_documents_name_exist() -> None:
    named = set(re.findall(r"`((?:tools|tests|requirements|benchmarks)/[\w./*-]+)`", README + CONTRIBUTING))
    named -= {match["path"] for match in MARKED.finditer(README)}
    assert named
    assert [path for path in sorted(named) if not list(ROOT.glob(path))] == []
