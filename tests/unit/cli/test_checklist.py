"""``paritygate checklist``, on a real run of two small adapters."""

import hashlib
import json
from pathlib import Path

import pytest

from paritygate.cli.main import run
from paritygate.errors import ExitCode

ADAPTER = """
import numpy as np

def run(job, writer):
    options = job.spec["options"]
    for item in job.items:
        pixels = np.random.default_rng(item.request["seed"]).random((8, 8, 3), np.float32)
        writer.image(item.id, pixels)
    for name, value in options["settings"].items():
        writer.setting(name, value)
    for field, exercised in options.get("effects", {}).items():
        writer.effect(field, exercised=exercised, detail="0 levels")
    writer.schedule(timesteps=options["timesteps"], sigmas=None)
"""
CASE = """
schema_version: 1
id: sides
claim: native-parity
task: t2i
model: {{id: m, path: weights, revision: "{revision}", weights: trained}}
request: {{prompt: a cat, width: 8, height: 8, seed: 3}}
reference: {{runner: python, adapter: engine.py, options: {reference}}}
candidate: {{runner: python, adapter: engine.py, options: {candidate}}}
differences: [{{field: threads, reason: other machine}}, {{field: parallel, reason: two cards}}]
checklist: {{require: [dtype]}}
measure: {{exact: [timesteps], output: [{{metric: ssim, aggregate: min}}]}}
ci: {{lane: nightly, hardware: {{sku: [CPU], cards: 0}}, timeout_minutes: 5}}
"""
EQUAL = {"timesteps": [9, 5], "settings": {"dtype.unet": "float32", "seed": 3}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project; its case is written anew by each test."""
    root = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert run(["init"]) == ExitCode.OK
    folder = root / "tests/e2e/accuracy/sides"
    (folder / "weights").mkdir(parents=True)
    (folder / "weights/one.txt").write_text("1\n")
    (folder / "engine.py").write_text(ADAPTER)
    return root


@pytest.fixture
def sides(project, monkeypatch, capsys):
    """Run two legs with these options; the exit code, the text and the rows by field of the checklist."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("CI", raising=False)

    def call(reference, candidate):
        digest = hashlib.sha256(f"{hashlib.sha256(b'1' + bytes([10])).hexdigest()}  one.txt\n".encode()).hexdigest()
        text = CASE.format(
            revision=f"sha256:{digest}", reference=json.dumps(reference), candidate=json.dumps(candidate)
        )
        Path("tests/e2e/accuracy/sides/sides.case.yaml").write_text(text)
        run(["run", "sides"])
        capsys.readouterr()
        code = run(["checklist", "sides"])
        shown = capsys.readouterr().out
        assert run(["checklist", "sides", "--json"]) == code
        data = json.loads(capsys.readouterr().out)
        assert data["ok"] == (code == ExitCode.OK)
        return code, shown, {row["field"]: row for row in data["rows"]}

    return call


def test_what_is_equal_is_shown_by_group_and_is_no_failure(sides):
    code, text, rows = sides(EQUAL, EQUAL)
    assert code == ExitCode.OK
    heads = ["Source and inputs", "Randomness and sampling", "Numerical path"]
    assert [line for line in text.splitlines() if line in heads] == heads
    assert {rows[name]["verdict"] for name in ("model", "runner", "seed", "dtype.unet", "timesteps")} == {"equal"}
    assert (rows["dtype.unet"]["reference"], rows["dtype.unet"]["group"]) == ("float32", "numerics")
    assert rows["version of numpy"]["verdict"] == "equal"


def test_every_sort_of_inequality_has_a_word_of_its_own(sides):
    left = {
        "timesteps": [9, 5],
        "settings": {"dtype.unet": "float32", "seed": 3, "threads": 1, "parallel": 1, "noise.device": "cpu"},
    }
    right = {
        "timesteps": [9, 4],
        "settings": {"dtype.unet": "bfloat16", "seed": 3, "threads": 1, "parallel": 2},
        "effects": {"seed": True, "guidance_scale": False},
    }
    code, text, rows = sides(left, right)
    assert code == ExitCode.FAILED
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts["dtype.unet"] == "undeclared"
    assert verdicts["threads"] == "declared-but-equal"
    assert (verdicts["parallel"], rows["parallel"]["note"]) == ("declared", "two cards")
    assert verdicts["noise.device"] == "unreported"
    assert verdicts["timesteps"] == "different"
    assert verdicts["effect of seed"] == "exercised"
    assert verdicts["effect of guidance_scale"] == "not-exercised"
    assert "1 undeclared, 1 different, 1 not-exercised" in text
    assert "declared-but-equal: declared as a difference and in fact equal" in text


def test_a_required_setting_that_a_leg_does_not_report_is_a_failure(sides):
    code, _, rows = sides(EQUAL, {**EQUAL, "settings": {"seed": 3}})
    assert (code, rows["dtype.unet"]["verdict"]) == (ExitCode.FAILED, "unreported")


def test_without_a_run_it_says_how_to_make_one(project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    (project / "tests/e2e/accuracy/sides/sides.case.yaml").write_text(
        CASE.format(revision=f"sha256:{'0' * 64}", reference="{}", candidate="{}")
    )
    assert run(["checklist", "sides", "--artifacts", "elsewhere"]) == ExitCode.USAGE
    assert "run: paritygate run sides" in capsys.readouterr().err
