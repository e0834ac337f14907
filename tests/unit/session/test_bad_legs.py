"""Every way in which a leg can be bad ends in one verdict, one documented exit code, and everything kept."""

import json

import pytest

from paritygate.cli.project import open_project
from paritygate.manifest.contract import contract

WRONG = [
    # id, what the candidate does before it stores a picture, status, exit code, class of failure, words of the reasons
    ("wrong-size", "pixels = pixels[:8]", "invalid", 1, "structure", "16x8"),
    ("nan", "pixels[0, 0, 0] = np.nan", "invalid", 1, "structure", "NaN"),
    ("constant", "pixels = np.full_like(pixels, 0.5)", "invalid", 1, "structure", "constant"),
    ("black", "pixels = np.zeros_like(pixels)", "invalid", 1, "structure", ""),
    ("missing", "if index == 1: continue", "invalid", 1, "structure", "001"),
    ("extra-item", "writer.image('999', pixels) if index == 0 else None", "invalid", 1, "structure", "999"),
    ("extra-image", "writer.image(item.id, pixels, index=1)", "invalid", 1, "structure", ""),
    ("another-picture", "pixels = 1 - pixels", "failed", 1, "accuracy", "psnr_db"),
    ("prompt-dropped", "writer.token_ids(item.id, [[0]])", "failed", 1, "accuracy", "token_ids"),
    (
        "other-guidance",
        "writer.setting('config.guidance_scale', 3.1)",
        "failed",
        1,
        "accuracy",
        "config.guidance_scale",
    ),
    (
        "other-device",
        "writer.setting('device', 'cuda:0')",
        "invalid",
        1,
        "structure",
        "ran on cuda:0, the run is for cpu (CPU)",
    ),
    ("exits", "sys.exit(3)", "error", 4, "crash", "SystemExit: 3"),
    ("dies", "os.kill(os.getpid(), 9)", "error", 4, "killed", "memory ran out"),
    ("memory", "raise MemoryError('too big')", "error", 4, "memory", "MemoryError: too big"),
    ("no-weights", "open(job.model_dir + '/unet.safetensors')", "error", 4, "weights", "unet.safetensors"),
    ("hub", "import socket; raise socket.gaierror('no such host')", "error", 75, "infrastructure", "no such host"),
    (
        "fallback",
        "raise RuntimeError('flash attention is not available, falling back to native')",
        "error",
        4,
        "backend",
        "falling back",
    ),
    (
        "golden",
        "from paritygate.errors import GoldenError; raise GoldenError('altered')",
        "error",
        4,
        "golden",
        "altered",
    ),
]


@pytest.fixture
def gated(demo):
    """The demo with an accepted gate that it meets."""

    def accept():
        (case,) = open_project().cases("demo")
        demo.gate(status="accepted", contract=contract(case))

    accept()
    return demo, accept


def test_a_case_that_meets_its_accepted_gate_passes_and_leaves_everything_on_disk(gated):
    demo, _ = gated
    code, result = demo.run()
    assert (code, result["status"]) == (0, "passed"), result
    assert result["measurements"]["output.psnr_db.min"] == "inf"
    folder = demo.folder(result)
    for name in ("preflight.json", "comparison.json", "record.json", "report.md", "shared/latents.npy",
                 "candidate/log.txt", "candidate/effective.json", "candidate/outputs/002/0.npy"):  # fmt: skip
        assert (folder / name).is_file(), name
    record = demo.record(result)
    assert [leg.name for leg in record.legs] == ["reference", "candidate"]
    assert {entry.status for entry in record.comparison.exact} == {"equal"}


@pytest.mark.parametrize(
    ("change", "status", "expected", "failure_class", "words"), [row[1:] for row in WRONG], ids=[r[0] for r in WRONG]
)
def test_a_bad_candidate_is_never_green_and_the_reason_is_said(gated, change, status, expected, failure_class, words):
    demo, accept = gated
    demo.candidate(change)
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (expected, status), result
    assert words.lower() in json.dumps(result["reasons"]).lower()
    folder = demo.folder(result)
    assert (folder / "record.json").is_file()
    assert (folder / "comparison.json").is_file()
    assert (folder / "reference" / "outputs" / "000" / "0.png").is_file()
    verdict = demo.record(result).verdict
    assert (verdict.status.value, verdict.failure_class) == (status, failure_class)


def test_a_leg_that_hangs_is_ended_after_its_timeout_and_what_it_wrote_is_kept(gated, monkeypatch):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.2)
    demo, accept = gated
    demo.write(timeout_s=1.5)
    demo.candidate("time.sleep(600) if index == 1 else None")
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (4, "error")
    assert "timeout_s: 1.5" in json.dumps(result["reasons"])
    assert demo.record(result).verdict.failure_class == "timeout"
    (kept,) = demo.record(result).legs[-1].items
    assert kept.id == "000"
    assert (demo.folder(result) / "candidate" / kept.images[0].path).is_file()


def test_a_broken_reference_is_reported_and_the_candidate_is_not_started(gated):
    demo, accept = gated
    demo.adapter("reference", "def run(job, writer):\n    raise RuntimeError('the reference is ill')")
    accept()
    code, result = demo.run()
    assert code == 4
    assert "the reference is ill" in result["reasons"][0]["message"]
    assert not (demo.folder(result) / "candidate").exists()


def test_latents_swapped_between_the_legs_make_the_run_invalid_and_it_says_so(gated):
    demo, accept = gated
    swap = """
        def run(job, writer):
            for index, item in enumerate(job.items):
                report(job, writer, index, item)
                writer.image(item.id, picture(job, index))
            np.save(job.latents, np.load(job.latents) + np.float32(1))
    """
    demo.adapter("reference", swap)
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (1, "invalid")
    assert {reason["code"] for reason in result["reasons"]} >= {"latents-changed"}
    assert "before the candidate leg" in json.dumps(result["reasons"])
    assert result["measurements"] == {}


def test_latents_exchanged_for_a_pipe_make_the_run_invalid_instead_of_hanging_it(gated):
    demo, accept = gated
    demo.candidate("(os.unlink(job.latents), os.mkfifo(job.latents)) if index == 2 else None")
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (1, "invalid")
    assert "not a regular file" in json.dumps(result["reasons"])


def test_a_proposed_gate_is_provisional_which_is_red_in_ci_only(demo, monkeypatch, gated):
    (case,) = open_project().cases("demo")
    demo.gate(status="proposed", contract=contract(case))
    assert demo.run()[0] == 0
    monkeypatch.setenv("CI", "true")
    code, result = demo.run()
    assert (code, result["status"]) == (1, "provisional")
    lanes = demo.root / ".buildkite" / "lanes.yml"
    lanes.write_text(lanes.read_text().replace("{description", "{allow_provisional: true, description"))
    assert demo.run()[0] == 0


def test_a_case_without_a_gate_is_unvalidated_never_passed(demo):
    code, result = demo.run()
    assert (code, result["status"]) == (3, "unvalidated")
    assert result["reasons"][0]["code"] == "no-gate"


def test_a_broken_gate_file_stops_the_run_before_a_leg_starts(demo):
    (demo.root / "cases" / "demo.gate.yaml").write_text("schema_version: 1\ncase: demo\nprofils: []\n")
    code, out, err = demo.call("run", "demo")
    assert code == 2
    assert "demo.gate.yaml:3:1" in out + err
    assert not list(demo.root.glob("artifacts/demo/*/reference"))


@pytest.mark.parametrize("leg", ["reference", "candidate"])
def test_an_adapter_that_is_edited_while_the_run_goes_on_makes_it_invalid(gated, leg):
    demo, accept = gated
    path = demo.root / "cases" / f"{leg}.py"
    edit = f"open({str(demo.root / 'cases' / 'candidate.py')!r}, 'a').write('#') if index == 2 else None"
    path.write_text(path.read_text().replace("pass", edit))
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (1, "invalid")
    assert "leg-contract" in [reason["code"] for reason in result["reasons"]]
    assert result["measurements"] == {}
    stated = json.dumps(result["reasons"])
    assert ("the candidate leg ran under" in stated) == (leg == "reference")
    assert "files of the case changed while it ran" in stated


def test_an_output_that_shares_its_file_with_the_reference_is_no_output(gated):
    demo, accept = gated
    demo.adapter(
        "candidate",
        """
    def run(job, writer):
        for index, item in enumerate(job.items):
            report(job, writer, index, item)
            writer.image(item.id, picture(job, index))
        for path in Path("outputs").rglob("*.*"):
            path.unlink()
            os.link(Path("../reference") / path, path)
    """,
    )
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (1, "invalid")
    assert "has more than one name" in json.dumps(result["reasons"])


@pytest.mark.parametrize("spoil", ["os.mkfifo('log.txt')", "os.symlink('/dev/zero', 'log.txt')", "os.mkdir('log.txt')"])
def test_a_broken_leg_whose_log_is_no_plain_file_is_reported_without_it(gated, spoil):
    demo, accept = gated
    demo.adapter("candidate", f"def run(job, writer):\n    os.unlink('log.txt')\n    {spoil}\n    os._exit(3)")
    accept()
    code, result = demo.run()
    assert (code, result["status"]) == (4, "error")
    assert "the log cannot be read" in (demo.folder(result) / "report.md").read_text()
