"""Runs beside each other, apart, again, and without the machine, the disk or the files they need."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from paritygate.cli.project import open_project
from paritygate.errors import ExitCode
from paritygate.records.model import Comparison, DeviceProfile, LegRecord, RunRecord, Status, Verdict
from paritygate.session import conclude
from paritygate.session.run import exit_code, run_case


def test_two_runs_of_one_case_at_once_do_not_disturb_each_other(demo):
    code = "import sys; from paritygate.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "run", "demo", "--json"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    results = [json.loads(run.communicate(timeout=60)[0])["cases"][0] for run in runs]
    assert {result["status"] for result in results} == {"unvalidated"}
    assert len({result["run_id"] for result in results}) == 2
    for result in results:
        record = demo.record(result)
        assert [leg.failure for leg in record.legs] == [None, None]
        assert record.run_id == result["run_id"]


def test_a_cancelled_run_ends_its_leg_and_says_so(demo):
    demo.candidate("Path('pid').write_text(str(os.getpid())); time.sleep(600)")
    code = "import sys; from paritygate.cli.main import main; main(sys.argv[1:])"
    run = subprocess.Popen([sys.executable, "-c", code, "run", "demo"], stderr=subprocess.PIPE, text=True)
    end, found = time.monotonic() + 30, []
    while not found and time.monotonic() < end:
        time.sleep(0.05)
        found = [path for path in demo.root.glob("artifacts/demo/*/candidate/pid") if path.read_text()]
    run.send_signal(signal.SIGTERM)
    _, errors = run.communicate(timeout=30)
    assert run.returncode == 130
    assert errors.splitlines()[-1] == "interrupted"
    assert not psutil.pid_exists(int(found[0].read_text()))


def test_a_run_in_a_thread_works_without_signal_handlers(demo):
    opened, found = open_project(), []
    (case,) = opened.cases("demo")
    thread = threading.Thread(
        target=lambda: found.append(run_case(case, opened.project, opened.registries, in_ci=False))
    )
    thread.start()
    thread.join()
    assert found[0].verdict.status is Status.UNVALIDATED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--leg", "candidate"], "need --run-id"),
        (["demo", "--compare"], "need --run-id"),
        (["demo", "--compare", "--leg", "candidate", "--run-id", "a"], "exclude each other"),
        (["demo", "--run-id", "../../etc"], "is no run id"),
        (["demo", "--run-id", "run.json"], "is no run id"),
        (["dmo"], "no case 'dmo'"),
    ],
)
def test_words_that_make_no_sense_are_usage_errors(demo, words, message):
    code, out, err = demo.call("run", *words)
    assert code == 2
    assert message in out + err


def test_a_run_id_is_used_once(demo):
    assert demo.run("--run-id", "a")[0] == 3
    code, out, err = demo.call("run", "demo", "--run-id", "a")
    assert code == 2
    assert "exists already" in out + err
    assert "preflight" not in err


def test_absent_hardware_is_unvalidated_with_everything_that_is_missing(demo):
    demo.write(sku="H100", cards=1)
    (demo.root / "cases" / "candidate.py").unlink()
    (demo.root / "cases" / "candidate.py").symlink_to("reference.py")
    code, result = demo.run()
    assert (code, result["status"]) == (3, "unvalidated")
    assert result["reasons"][0]["code"] == "hardware"
    assert "queue gpu_h100" in result["reasons"][0]["message"]
    assert demo.record(result).legs == ()


def test_everything_that_is_missing_is_listed_at_once_with_its_fix(demo):
    manifest = demo.root / "cases" / "demo.case.yaml"
    text = manifest.read_text()
    text = text.replace(
        "reference: {runner: python,",
        "reference: {runner: python, python: no/python, assets: [{path: graph.onnx, made_by: make graphs}],",
    )
    manifest.write_text(text.replace("candidate: {runner: python,", "candidate: {runner: python, requires: "
                                     '{numpy: "<1", no-such-dist: ">=2"},'))  # fmt: skip
    (demo.root / "cases" / "model" / "weights.bin").write_bytes(b"other")
    code, out, err = demo.call("run", "demo")
    assert code == 3
    for words in ("no/python cannot be used", "graph.onnx does not exist; fix: run: make graphs", "numpy is ",
                  "requires <1", "pip install 'no-such-dist>=2'", "tree digest"):  # fmt: skip
        assert words in out + err, words
    code, out, _ = demo.call("preflight", "demo", "--json")
    assert code == 3
    (report,) = json.loads(out)
    assert sorted(problem["code"] for problem in report["problems"]) == [
        "asset", "distribution", "interpreter", "revision", "version",
    ]  # fmt: skip


def test_an_artifact_folder_that_cannot_be_written_is_found_before_any_leg(demo):
    (demo.root / "file").write_text("")
    code, out, err = demo.call("run", "demo", "--artifacts", "file/below")
    assert code == 3
    assert "cannot write to" in out + err
    assert "--artifacts" in out + err


def test_a_disk_that_is_too_small_is_found_before_any_leg(demo, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 1 << 20})())
    code, out, err = demo.call("run", "demo")
    assert code == 3
    assert "1 MiB free" in out + err


def test_a_disk_that_fills_up_after_the_legs_is_one_message_and_loses_nothing(demo, monkeypatch):
    real = os.fsync

    def full(handle):
        if "record.json" in str(Path(f"/proc/self/fd/{handle}").readlink()):
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    code, out, err = demo.call("run", "demo")
    assert code == 4
    assert "record.json: No space left on device" in out + err
    (folder,) = (demo.root / "artifacts" / "demo").iterdir()
    assert (folder / "comparison.json").is_file()
    assert (folder / "candidate" / "outputs" / "002" / "0.png").is_file()
    assert not (folder / "record.json").exists()
    monkeypatch.undo()
    monkeypatch.chdir(demo.root)
    code, result = demo.run("--compare", "--run-id", folder.name)
    assert (code, result["status"]) == (3, "unvalidated")


def test_a_file_that_the_system_refuses_to_let_grow_is_one_message_with_its_fix(demo):
    code = (
        "import resource, sys; from paritygate.cli.main import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)); main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", code, "run", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "latents.npy: File too large" in done.stdout
    assert "fix: free space" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert not [path for path in demo.root.glob("artifacts/demo/*/shared/*") if path.is_file()]


def test_the_report_can_be_rendered_again_from_the_record(demo):
    _, result = demo.run()
    report = demo.folder(result) / "report.md"
    before = report.read_text()
    folder = demo.folder(result)
    names = ("demo", result["run_id"], *map(str, (folder, folder / "record.json", folder.relative_to(demo.root))))
    for name in names:
        report.unlink()
        code, out, _ = demo.call("report", name)
        assert (code, out.strip()) == (0, str(report))
        assert report.read_text() == before
    code, out, _ = demo.call("report", "demo", "--json")
    assert json.loads(out)["run_id"] == result["run_id"]
    assert demo.call("report", "no-such-run")[0] == 2


def test_a_record_has_the_attempt_and_no_host_name_and_no_secret(demo, monkeypatch):
    monkeypatch.setenv("BUILDKITE_RETRY_COUNT", "2")
    monkeypatch.setenv("BUILDKITE_STEP_KEY", "demo")
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    _, result = demo.run()
    text = (demo.folder(result) / "record.json").read_text()
    record = demo.record(result)
    assert record.attempt == 3
    assert record.environment["ci"] == {"BUILDKITE_RETRY_COUNT": "2", "BUILDKITE_STEP_KEY": "demo"}
    assert "hf_very_secret" not in text
    assert len(socket.gethostname()) < 4 or socket.gethostname() not in text
    assert str(demo.root) not in text


def test_the_shared_latents_of_an_item_depend_on_its_own_seed_only(demo):
    _, result = demo.run()
    latents = np.load(demo.folder(result) / "shared" / "latents.npy")
    assert (latents.shape, latents.dtype) == ((3, 4, 8, 8), np.dtype("<f4"))
    expected = np.random.Generator(np.random.PCG64(8)).standard_normal((4, 8, 8), dtype=np.float32)
    assert np.array_equal(latents[1], expected)


def test_a_broken_case_does_not_keep_the_next_one_from_running_and_the_worst_code_decides(demo):
    text = (demo.root / "cases" / "demo.case.yaml").read_text()
    (demo.root / "cases" / "other.case.yaml").write_text(
        text.replace("id: demo\n", "id: other\n").replace("adapter: candidate.py", "adapter: broken.py")
    )
    demo.adapter("broken", "def run(job, writer):\n    1 / 0")
    code, out, err = demo.call("run", "other", "demo")
    assert code == 4
    assert "ZeroDivisionError" in out
    assert "demo: unvalidated" in out
    assert "demo: reference leg 3/3" in err


@pytest.mark.parametrize(
    ("status", "failures", "in_ci", "allowed", "expected"),
    [
        (Status.PASSED, [None, None], True, False, ExitCode.OK),
        (Status.PROVISIONAL, [None, None], False, False, ExitCode.OK),
        (Status.PROVISIONAL, [None, None], True, True, ExitCode.OK),
        (Status.PROVISIONAL, [None, None], True, False, ExitCode.FAILED),
        (Status.FAILED, [None, None], True, True, ExitCode.FAILED),
        (Status.INVALID, [None, None], False, False, ExitCode.FAILED),
        (Status.UNVALIDATED, [None, None], False, True, ExitCode.PREFLIGHT),
        (Status.ERROR, ["crash"], False, False, ExitCode.LEG),
        (Status.ERROR, ["infrastructure"], False, False, ExitCode.INFRASTRUCTURE),
        (Status.ERROR, ["infrastructure", "crash"], False, False, ExitCode.LEG),
        (Status.ERROR, [None, None], False, False, ExitCode.LEG),
    ],
)
def test_exit_codes_are_the_documented_ones(status, failures, in_ci, allowed, expected):
    legs = tuple(
        LegRecord(name=f"leg{index}", runner="python", interpreter="python", duration_s=1, exit_code=0, failure=failure,
                  message="", log="", items=(), effective=None)
        for index, failure in enumerate(failures)
    )  # fmt: skip
    record = RunRecord(
        schema_version=1, run_id="a", case="c", base_case="c", variant=None, title="", claim="native-parity",
        contract="", model_id="", model_revision="", weights="trained",
        purpose="run", started="", duration_s=1, attempt=1, in_ci=in_ci,
        profile=DeviceProfile(platform="cpu", sku="CPU", cards=0, arch="x86_64", name="cpu"), environment={}, legs=legs,
        comparison=Comparison(),
        verdict=Verdict(status=status, reasons=(), scope="", gate="", gate_status="none"),
    )  # fmt: skip
    assert exit_code(record, in_ci=in_ci, allow_provisional=allowed) is expected


def test_a_report_of_a_run_that_did_not_finish_speaks_of_the_run(demo):
    demo.run("--leg", "reference", "--run-id", "night-1")
    for name in ("night-1", "artifacts/demo/night-1", "artifacts/demo/night-1/record.json"):
        code, _, err = demo.call("report", name)
        assert code == 2
        assert "the run night-1 of demo has no record" in err
        assert "--compare --run-id night-1" in err
    assert "no case 'night-2'" in demo.call("report", "night-2")[2]


def test_latents_that_no_machine_holds_are_refused_before_a_leg_starts(demo):
    manifest = demo.root / "cases" / "demo.case.yaml"
    manifest.write_text(manifest.read_text().replace("latent_shape: [4, 8, 8]", "latent_shape: [4, 8192, 8192]"))
    code, out, err = demo.call("run", "demo")
    assert code in (2, 3)
    assert "latent" in out + err
    assert not list(demo.root.glob("artifacts/demo/*/reference"))


def test_a_bug_belongs_to_its_case_and_the_next_one_still_runs(demo, monkeypatch, tmp_path):
    text = (demo.root / "cases" / "demo.case.yaml").read_text()
    (demo.root / "cases" / "other.case.yaml").write_text(text.replace("id: demo\n", "id: other\n"))
    (demo.root / "cases" / "bad.case.yaml").write_text("schema_version: 1\n")
    real = conclude.compare_legs

    def broken(case, *words, **options):
        if case.id == "demo":
            raise MemoryError("no room\x1b[31m for this")
        return real(case, *words, **options)

    monkeypatch.setattr("paritygate.session.conclude.compare_legs", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = demo.call("run", "demo", "other")
    assert code == 70
    assert "demo: bug in paritygate: MemoryError: no room for this" in out
    assert "other: unvalidated" in out
    assert "1 problem in other manifests" in err or "problems in other manifests" in err


def test_what_a_run_prints_names_its_scope_and_the_way_to_a_gate(demo):
    _, out, _ = demo.call("run", "demo")
    assert "  fix: repeat the run, commit its records under evidence/" in out
    assert "write the bounds they meet to cases/demo.gate.yaml" in out
    assert "  scope: native-parity of demo-model@sha256:" in out


def test_what_a_leg_says_reaches_the_terminal_inert_and_its_log_opens_from_here(demo):
    demo.adapter("candidate", "def run(job, writer):\n    raise ValueError('\\x1b[2Jboo \\u202egone\\n::error::x')")
    _, out, err = demo.call("run", "demo")
    assert "ValueError: boo" in out
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err
    assert not [line for line in out.splitlines() if line.lstrip().startswith("::")]
    log = out.partition("log: artifacts/")[2].partition("\n")[0]
    assert (demo.root / "artifacts" / log).is_file()
