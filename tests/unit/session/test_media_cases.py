"""Cases of clips, sound and tensors, from adapters through the command line to a verdict, on evidence of their own."""

from __future__ import annotations

import shutil

import pytest

from paritygate.cli.project import open_project
from paritygate.gates.evidence import Evidence, evidence_digest
from paritygate.manifest.contract import contract
from paritygate.records.canonical import sha256_file

MANIFEST = """
schema_version: 1
id: demo
title: Demo
claim: native-parity
task: TASK
model: {{id: demo-model, revision: "{revision}", weights: trained, path: model}}
request: {{prompt: a square that moves, seed: 7}}
output: OUTPUT
reference: {{runner: python, adapter: reference.py, timeout_s: {timeout_s}}}
candidate: {{runner: python, adapter: candidate.py, timeout_s: {timeout_s}}}
measure: {{output: MEASURED}}
ci: {{lane: nightly, hardware: {{sku: [{sku}], cards: {cards}}}, timeout_minutes: 5}}
"""

GATE = """
schema_version: 1
case: demo
contract: {contract}
profiles:
  - device: {{sku: CPU}}
    status: accepted
    selected: {{by: someone, on: 2026-12-01, reason: a test}}
    exact: []
    bounds: [{bounds}]
    evidence: {evidence}
"""

CLIP = """
def run(job, writer):
    frames = np.zeros((81, 24, 32, 3), np.float32) + np.linspace(0.2, 0.6, 24, dtype=np.float32)[:, None, None]
    for index in range(81):
        frames[index, 6:14, index % 24 : index % 24 + 8] = (0.9, 0.1, 0.1 + index / 100)
    if job.leg == "candidate" and Path(job.root, "fault").exists():
        frames[40] = frames[39]
    for item in job.items:
        writer.video(item.id, frames, fps=24)
"""

SOUND = """
def run(job, writer):
    steps = np.arange(16000, dtype=np.float32) / 16000
    samples = np.stack([0.5 * np.sin(2 * np.pi * hertz * steps) for hertz in (220, 330)], axis=1).astype(np.float32)
    if job.leg == "candidate" and Path(job.root, "fault").exists():
        samples = samples * np.float32(0.3)
    for item in job.items:
        writer.audio(item.id, samples, sample_rate_hz=16000)
"""

TENSORS = """
def run(job, writer):
    hidden = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    ids = np.arange(12).reshape(2, 6)
    if job.leg == "candidate" and Path(job.root, "fault").exists():
        ids = ids + (ids == 7)
    for item in job.items:
        writer.tensors(item.id, {"hidden": hidden, "ids": ids})
"""


@pytest.fixture
def accepted(demo, monkeypatch):
    """Lay a case of a kind whose good run is its own evidence, behind bounds that a person accepted."""

    def lay(source, *, task, output, bounds):
        measured = [f"{{metric: {name.split('.')[1]}, aggregate: {name.split('.')[2]}}}" for name in bounds]
        manifest = MANIFEST.replace("TASK", task).replace("OUTPUT", output.replace("{", "{{").replace("}", "}}"))
        listed = ", ".join(measured).replace("{", "{{").replace("}", "}}")
        demo.write(manifest=manifest.replace("MEASURED", f"[{listed}]"))
        for leg in ("reference", "candidate"):
            demo.adapter(leg, source)
        code, result = demo.run()
        assert (code, result["status"]) == (3, "unvalidated"), result
        record = demo.record(result)
        path = demo.root / "cases" / "evidence" / f"{record.run_id}.json"
        path.parent.mkdir()
        shutil.copy(demo.folder(result) / "record.json", path)
        evidence = evidence_digest([Evidence(path.parent.parent, sha256_file(path), record)])
        (case,) = open_project().cases("demo")
        shown = ", ".join(f"{{measurement: {name}, {limit}}}" for name, limit in bounds.items())
        text = GATE.format(contract=contract(case), bounds=shown, evidence=evidence)
        (demo.root / "cases" / "demo.gate.yaml").write_text(text)
        code, result = demo.run("--compare", "--run-id", record.run_id)
        assert (code, result["status"]) == (0, "passed"), result
        (demo.root / "fault").write_text("")
        return demo

    return lay


def told(result):
    return " ".join(reason["message"] for reason in result["reasons"])


def test_one_frame_of_81_replaced_by_its_neighbour_fails_the_case_and_is_named(accepted):
    demo = accepted(
        CLIP,
        task="t2v",
        output="{kind: video, width: 32, height: 24, frames: 81, fps: 24}",
        bounds={
            "output.ssim.min": "at_least: 0.99",
            "output.ssim.mean": "at_least: 0.99",
            "output.temporal_error.max": "at_most: 0.001",
        },
    )
    code, result = demo.run()
    assert (code, result["status"]) == (1, "failed")
    assert "output.ssim.min is" in told(result)
    assert "worst: 000/0/40" in told(result)
    assert "output.temporal_error.max is" in told(result)
    assert "output.ssim.mean" not in told(result), "the mean over 81 frames hides one of them"
    record = demo.record(result)
    lowest = next(entry for entry in record.comparison.measurements if entry.id == "output.ssim.min")
    assert [key for key, value in lowest.values.items() if value < 1] == ["000/0/40"]
    assert len(lowest.values) == 81
    report = (demo.folder(result) / "report.md").read_text()
    assert "Item <code>000/0/40</code>" in report
    assert (demo.folder(result) / "pictures" / "worst-000-0-40.png").is_file()
    assert "8-bit pixels of the raw frames" in report


def test_sound_at_a_third_of_its_level_fails_on_the_level_while_cosine_passes(accepted):
    demo = accepted(
        SOUND,
        task="t2a",
        output="{kind: audio, sample_rate_hz: 16000, channels: 2}",
        bounds={"output.cosine.min": "at_least: 0.999", "output.level_difference_abs_db.max": "at_most: 1"},
    )
    code, result = demo.run()
    assert (code, result["status"]) == (1, "failed")
    (reason,) = result["reasons"]
    assert reason["message"].startswith("output.level_difference_abs_db.max is 10.45")
    assert demo.record(result).verdict.bounds[0].satisfied
    assert "compared as raw samples" in (demo.folder(result) / "report.md").read_text()


def test_one_token_id_of_a_tensors_case_fails_it_and_names_the_tensor(accepted):
    demo = accepted(
        TENSORS,
        task="component",
        output="{kind: tensors}",
        bounds={"output.mismatch_count.max": "at_most: 0", "output.cosine.min": "at_least: 0.99",
                "output.relative_l2.max": "at_most: 0.5"},
    )  # fmt: skip
    code, result = demo.run()
    assert (code, result["status"]) == (1, "failed")
    (reason,) = result["reasons"]
    assert reason["message"].startswith("output.mismatch_count.max is 1 ")
    assert reason["message"].endswith("required at most 0; worst: 000/0/ids")
    assert "worst at <code>000/0/ids</code>" in (demo.folder(result) / "report.md").read_text()


FRAMES = "frames = np.linspace(0, 1, 16 * 24 * 32 * 3, dtype=np.float32).reshape(16, 24, 32, 3)"
SAMPLES = "samples = np.linspace(-0.5, 0.5, 32000, dtype=np.float32).reshape(16000, 2)"
SIXTEEN = ("t2v", "{{kind: video, width: 32, height: 24, frames: 16, fps: 24}}", "ssim", FRAMES,
           "writer.video(item.id, frames, fps=24)")  # fmt: skip
SECOND = ("t2a", "{{kind: audio, sample_rate_hz: 16000, channels: 2}}", "relative_l2", SAMPLES,
          "writer.audio(item.id, samples, sample_rate_hz=16000)")  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fault", "words"),
    [
        (SIXTEEN, "writer.video(item.id, frames[:8], fps=24)", "8 frames"),  # field trap B75
        (SIXTEEN, "writer.video(item.id, frames, fps=16)", "16 frames a second, declared 24"),
        (SIXTEEN, "writer.video(item.id, frames[:, :, :24], fps=24)", "24x24"),  # B70
        (SECOND, "writer.audio(item.id, samples, sample_rate_hz=48000)", "48000"),  # B77
        (SECOND, "writer.audio(item.id, samples[:, :1], sample_rate_hz=16000)", "channel"),
    ],
)
def test_media_of_another_shape_or_rate_are_invalid_without_a_number_and_it_is_named(demo, kind, fault, words):
    task, output, metric, made, given = kind
    manifest = MANIFEST.replace("TASK", task).replace("OUTPUT", output)
    demo.write(manifest=manifest.replace("MEASURED", f"[{{{{metric: {metric}, aggregate: min}}}}]"))
    for leg, write in (("reference", given), ("candidate", fault)):
        demo.adapter(leg, f"def run(job, writer):\n    {made}\n    for item in job.items:\n        {write}\n")
    code, result = demo.run()
    assert (code, result["status"]) == (1, "invalid"), result
    assert words in told(result)
    record = demo.record(result)
    assert (record.verdict.failure_class, record.comparison.measurements) == ("structure", ())
