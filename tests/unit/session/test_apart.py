"""Legs that run apart, and what a comparison of them later may say."""

import re
from datetime import datetime, timezone

import pytest


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
    assert code == 4
    assert "has a candidate leg already" in out + err


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
