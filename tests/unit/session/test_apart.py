"""Legs that run apart, and what a comparison of them later may say."""

import json
import re
from datetime import datetime, timezone

import pytest

from paritygate.cli.project import open_project
from paritygate.manifest.contract import contract


def test_legs_run_apart_and_are_compared_later(demo):
    assert demo.run("--leg", "reference", "--run-id", "night-1")[0] == 0
    code, out, err = demo.call("run", "demo", "--compare", "--run-id", "night-1")
    assert code == 2
    assert "has no candidate leg" in out + err
    assert "--leg candidate --run-id night-1" in out + err
    code, result = demo.run("--leg", "candidate", "--run-id", "night-1")
    assert (code, result["items"]) == (0, 3)
    code, result = demo.run("--compare", "--run-id", "night-1")
    assert (code, result["status"], result["run_id"]) == (3, "unvalidated", "night-1")
    assert result["measurements"]["output.psnr_db.min"] == "inf"
    code, out, err = demo.call("run", "demo", "--leg", "candidate", "--run-id", "night-1")
    assert code == 2
    assert "has a candidate leg already" in out + err
    assert "reference leg 0/3" not in err


def test_a_leg_that_ran_for_another_contract_is_invalid(demo):
    demo.run("--leg", "reference", "--run-id", "a")
    manifest = demo.root / "cases" / "demo.case.yaml"
    manifest.write_text(manifest.read_text().replace("guidance_scale: 3.0", "guidance_scale: 4.0"))
    demo.run("--leg", "candidate", "--run-id", "a")
    code, result = demo.run("--compare", "--run-id", "a")
    assert (code, result["status"]) == (1, "invalid")
    assert result["reasons"][0]["code"] == "leg-contract"


def test_a_comparison_keeps_when_and_where_its_legs_ran(demo, monkeypatch):
    monkeypatch.setenv("BUILDKITE_STEP_KEY", "reference-step")
    monkeypatch.setenv("BUILDKITE_RETRY_COUNT", "2")
    demo.run("--leg", "reference", "--run-id", "a")
    monkeypatch.setenv("BUILDKITE_STEP_KEY", "candidate-step")
    monkeypatch.delenv("BUILDKITE_RETRY_COUNT")
    demo.run("--leg", "candidate", "--run-id", "a")
    monkeypatch.setenv("BUILDKITE_STEP_KEY", "compare-step")
    between = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    _, result = demo.run("--compare", "--run-id", "a")
    record = demo.record(result)
    assert record.started < between
    assert record.duration_s > sum(leg.duration_s for leg in record.legs)
    assert record.attempt == 3
    assert record.environment["ci"] == {"BUILDKITE_STEP_KEY": "candidate-step"}
    assert record.environment["reference_leg"]["ci"]["BUILDKITE_STEP_KEY"] == "reference-step"


def run_somehow(demo, *, apart: bool):
    if not apart:
        return demo.record(demo.run()[1])
    for leg in ("reference", "candidate"):
        demo.run("--leg", leg, "--run-id", "a")
    return demo.record(demo.run("--compare", "--run-id", "a")[1])


@pytest.mark.parametrize("apart", [False, True])
def test_a_record_says_whether_the_weights_were_verified_however_its_legs_ran(demo, monkeypatch, apart):
    assert run_somehow(demo, apart=False).weights_verified
    manifest = demo.root / "cases" / "demo.case.yaml"
    text = re.sub(r'revision: "[^"]*"', f'revision: "{"a" * 40}"', manifest.read_text())
    manifest.write_text(text.replace("path: model}", "path_env: DEMO_MODEL}"))
    monkeypatch.setenv("DEMO_MODEL", str(demo.root / "cases" / "model"))
    record = run_somehow(demo, apart=apart)
    assert not record.weights_verified
    assert "weights not verified" in record.environment["preflight_notes"][0]


@pytest.mark.parametrize("name", ["leg.json", "../shared/latents.json"])
def test_files_of_a_run_that_are_no_plain_files_are_one_clear_error(demo, name):
    for leg in ("reference", "candidate"):
        demo.run("--leg", leg, "--run-id", "a")
    path = demo.root / "artifacts" / "demo" / "a" / "candidate" / name
    path.unlink()
    path.symlink_to("/dev/zero")
    code, out, err = demo.call("run", "demo", "--compare", "--run-id", "a")
    assert code == 4
    assert "symbolic link" in out + err


def test_latents_swapped_before_the_comparison_are_found(demo):
    for leg in ("reference", "candidate"):
        demo.run("--leg", leg, "--run-id", "a")
    latents = demo.root / "artifacts" / "demo" / "a" / "shared" / "latents.npy"
    latents.write_bytes(latents.read_bytes()[:-4] + b"\0\0\0\0")
    code, result = demo.run("--compare", "--run-id", "a")
    assert (code, result["status"]) == (1, "invalid")
    assert any("when the legs were compared" in reason["message"] for reason in result["reasons"])


def test_an_output_changed_after_its_leg_is_found(demo):
    for leg in ("reference", "candidate"):
        demo.run("--leg", leg, "--run-id", "a")
    folder = demo.root / "artifacts" / "demo" / "a"
    (folder / "candidate/outputs/000/0.png").write_bytes((folder / "reference/outputs/001/0.png").read_bytes())
    code, result = demo.run("--compare", "--run-id", "a")
    assert (code, result["status"]) == (1, "invalid")


def run_both(demo, run_id="a"):
    for leg in ("reference", "candidate"):
        assert demo.run("--leg", leg, "--run-id", run_id)[0] == 0
    return demo.root / "artifacts" / "demo" / run_id


def test_a_leg_that_was_interrupted_is_said_to_be_incomplete_and_a_new_run_is_the_way_on(demo):
    folder = run_both(demo)
    (folder / "candidate" / "leg.json").unlink()
    code, out, err = demo.call("run", "demo", "--compare", "--run-id", "a")
    assert code == 2
    assert "the candidate leg of the run a of demo is incomplete" in out + err
    assert "start a new run: paritygate run demo" in out + err
    code, out, err = demo.call("run", "demo", "--leg", "candidate", "--run-id", "a")
    assert code == 2
    assert "has an incomplete candidate leg already" in out + err


def test_a_leg_of_another_run_is_invalid(demo):
    folder, other = run_both(demo), run_both(demo, "b")
    (other / "candidate").rename(other / "unused")
    (folder / "candidate").rename(other / "candidate")
    code, result = demo.run("--compare", "--run-id", "b")
    assert (code, result["status"]) == (1, "invalid")
    assert "leg-of-another-run" in [reason["code"] for reason in result["reasons"]]


@pytest.mark.parametrize("name", ["effective.json", "outputs.json"])
def test_a_list_of_a_leg_that_was_changed_later_is_invalid(demo, name):
    path = run_both(demo) / "candidate" / name
    path.write_text(path.read_text() + " ")
    code, result = demo.run("--compare", "--run-id", "a")
    assert (code, result["status"]) == (1, "invalid")
    assert f"candidate/{name} is not the file that the leg left" in json.dumps(result["reasons"])


def test_latents_that_the_seeds_do_not_give_are_found_though_their_note_agrees(demo):
    assert demo.run("--leg", "reference", "--run-id", "a")[0] == 0
    other = demo.root / "artifacts" / "demo" / "a" / "shared"
    manifest = demo.root / "cases" / "demo.case.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("seed: 7", "seed: 8"))
    run_both(demo, "b")
    manifest.write_text(text)
    for name in ("latents.npy", "latents.json"):
        (other / name).write_bytes((demo.root / "artifacts" / "demo" / "b" / "shared" / name).read_bytes())
    assert demo.run("--leg", "candidate", "--run-id", "a")[0] == 0
    code, result = demo.run("--compare", "--run-id", "a")
    assert (code, result["status"]) == (1, "invalid")
    assert "is not what the seeds of the suite give" in json.dumps(result["reasons"])


def test_an_outputs_folder_that_became_a_link_is_refused_and_not_walked(demo):
    folder = run_both(demo) / "candidate" / "outputs"
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("/usr")
    code, result = demo.run("--compare", "--run-id", "a")
    assert (code, result["status"]) == (1, "invalid")
    assert "candidate/outputs is a symbolic link" in json.dumps(result["reasons"])


def test_a_new_judgement_of_a_run_keeps_the_earlier_one_and_says_so(demo):
    demo.candidate("pixels = 1 - pixels")
    (case,) = open_project().cases("demo")
    demo.gate(status="accepted", contract=contract(case))
    _, result = demo.run("--run-id", "a")
    assert result["status"] == "failed"
    folder = demo.folder(result)
    before = {name: (folder / name).read_text() for name in ("record.json", "comparison.json")}
    first = demo.record(result)
    gate = demo.root / "cases" / "demo.gate.yaml"
    gate.write_text(gate.read_text().replace("at_least: 60", "at_least: 1"))
    _, result = demo.run("--compare", "--run-id", "a")
    assert result["status"] != "failed"
    assert (folder / "record-1.json").read_text() == before["record.json"]
    assert (folder / "comparison-1.json").read_text() == before["comparison.json"]
    second = demo.record(result)
    assert second.environment["judged_again"] == {"earlier": ["record-1.json"], "last_status": "failed"}
    assert (second.started, second.duration_s) == (first.started, first.duration_s)
    _, out, _ = demo.call("run", "demo", "--compare", "--run-id", "a")
    assert "judged again; kept: record-1.json, record-2.json" in out
    assert demo.record(result).duration_s == first.duration_s
