"""Goldens of clips with sound, and of tensors: frozen, and read back by the golden runner to the last bit."""

import json

import numpy as np
import pytest

VIDEO = """
import numpy as np

def run(job, writer):
    for item in job.items:
        rng = np.random.default_rng(item.request["seed"])
        writer.video(item.id, rng.random((3, 8, 8, 3), dtype=np.float32), fps=12.5)
        writer.audio(item.id, rng.random((480, 2), dtype=np.float32) - np.float32(0.5), sample_rate_hz=8000)
"""
TENSORS = """
import numpy as np

def run(job, writer):
    for item in job.items:
        rng = np.random.default_rng(item.request["seed"])
        writer.tensors(item.id, {"hidden": rng.random((4, 5), dtype=np.float32), "mask": np.arange(6)})
"""
KINDS = {
    "video_audio": (
        VIDEO, "t2va",
        "{kind: video_audio, frames: 3, fps: 12.5, width: 8, height: 8, sample_rate_hz: 8000, channels: 2}",
        "[{metric: psnr_db, aggregate: min}, {metric: abs_error_max, aggregate: max}]",
    ),
    "tensors": (
        TENSORS, "component\ncomponent: {name: vae_decoder}", "{kind: tensors}",
        "[{metric: abs_error_max, aggregate: max}]",
    ),
}  # fmt: skip


def write_case(demo, kind, *, name, reference):
    _, task, output, measure = KINDS[kind]
    demo.write(name=name, reference=reference)
    path = demo.root / "cases" / f"{name}.case.yaml"
    text = path.read_text().replace("task: t2i", f"task: {task}")
    lines = [
        f"output: {output}" if line.startswith("output:")
        else f"  output: {measure}" if line.startswith("  output:")
        else "" if line.startswith("  exact:") else line
        for line in text.splitlines()
    ]  # fmt: skip
    path.write_text("\n".join(lines))


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_frozen_is_what_is_compared(demo, kind):
    for leg in ("reference", "candidate"):
        (demo.root / "cases" / f"{leg}.py").write_text(KINDS[kind][0])
    pinned = f'{{runner: python, adapter: reference.py, requires: {{numpy: "=={np.__version__}"}}}}'
    write_case(demo, kind, name="demo", reference=pinned)
    demo.commit()
    code, created = demo.json("golden", "create", "demo")
    assert (code, created["reasons"]) == (0, [])
    _, result = demo.json("golden", "promote", created["draft"], "--reason", "r")
    golden = result["golden"]
    named = f'{{name: demo, version: 1, digest: "{golden["digest"]}"}}'
    write_case(demo, kind, name="frozen", reference=f"{{runner: golden, golden: {named}}}")
    _, out, err = demo.call("run", "frozen", "--json")
    (result,) = json.loads(out)["cases"]
    assert result["status"] == "unvalidated", (result["reasons"], err)
    assert result["measurements"]["output.abs_error_max.max"] == 0.0
    assert result["measurements"].get("output.psnr_db.min", "inf") == "inf"

    demo.commit()
    other = KINDS[kind][0].replace('item.request["seed"]', '1000 + item.request["seed"]')
    (demo.root / "cases" / "reference.py").write_text(other)
    demo.commit()
    _, created = demo.json("golden", "create", "demo")
    _, result = demo.json("golden", "promote", created["draft"], "--reason", "r", "--oracle", "o")
    assert len(result["moved"]) == {"video_audio": 4, "tensors": 2}[kind]
    assert all(entry["largest"] > 0.1 and not entry["problem"] for entry in result["moved"]), result["moved"]
