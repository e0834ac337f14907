"""Bad legs, with real processes: each becomes one class of failure, and nothing of it stays alive."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from paritygate.errors import UsageError
from paritygate.runners.leg import Latents, leg_environment


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def wait_for(path: Path, seconds: float = 20) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} did not appear")


GOOD = """
    def run(job, writer):
        print("hello from the leg")
        for item in job.items:
            writer.image(item.id, GREY)
            writer.token_ids(item.id, [[0, 1], [2, 3]])
        writer.setting("config.guidance_scale", np.float32(3.0))
"""


def test_a_good_leg_leaves_outputs_settings_log_and_says_that_it_imported_no_framework(bad_leg):
    record, folder = bad_leg(GOOD)
    assert (record.failure, record.exit_code, record.message) == (None, 0, "")
    assert [item.id for item in record.items] == ["0000", "0001"]
    assert record.effective.settings == {"config.guidance_scale": 3.0}
    assert record.effective.token_ids["0001"] == [[0, 1], [2, 3]]
    modules = record.effective.environment["modules"]
    assert modules == {"diffusers": False, "onnxruntime": False, "torch": False, "transformers": False}
    assert record.effective.environment["versions"]["numpy"] == np.__version__
    assert (folder / "log.txt").read_text() == "hello from the leg\n"
    assert not list(folder.parents[1].rglob("__pycache__"))


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        ("def run(job, writer):\n    import sys; sys.exit(3)", "crash", "SystemExit: 3"),
        ("def run(job, writer):\n    import os; os._exit(7)", "crash", "code 7; the log is empty"),
        (
            "def run(job, writer):\n    import os\n    print('fine')\n    print('CUDA error: busy')\n    os._exit(7)",
            "crash",
            "code 7; log: CUDA error: busy",
        ),
        ("def run(job, writer):\n    import os; os._exit(0)", "crash", "code 0 before it had finished"),
        ("def run(job, writer):\n    raise MemoryError", "memory", "MemoryError"),
        (
            "def run(job, writer):\n    raise RuntimeError('CUDA out of memory. Tried to allocate')",
            "memory",
            "out of memory",
        ),
        ("def run(job, writer):\n    open(job.model_dir + '/unet.safetensors')", "weights", "unet.safetensors"),
        (
            "class SafetensorError(Exception): pass\ndef run(job, writer):\n    raise SafetensorError('too short')",
            "weights",
            "too short",
        ),
        ("def run(job, writer):\n    open('/nowhere/else')", "crash", "/nowhere/else"),
        ("def run(job, writer):\n    import socket; raise socket.gaierror('no such host')", "infrastructure", "host"),
        ("def run(job, writer):\n    raise ConnectionRefusedError('my server')", "crash", "my server"),
        ("import no_such_module", "crash", "No module named 'no_such_module'"),
        ("def ruin(job, writer): pass", "crash", "defines no function 'run'"),
        ("def run(job, writer):\n    import os, signal; os.kill(os.getpid(), 9)", "killed", "memory ran out"),
        ("def run(job, writer):\n    import os; os._exit(137)", "killed", "memory ran out"),
        ("def run(job, writer):\n    import os; os.kill(os.getpid(), 15)", "killed", "SIGTERM"),
        ("def run(job, writer):\n    import ctypes; ctypes.string_at(0)", "crash", "SIGSEGV"),
        (
            "def run(job, writer):\n    import sys, os\n    sys.stdout.close(); sys.stderr.close(); 1 / 0",
            "crash",
            "ZeroDivisionError",
        ),
        ("def run(job, writer):\n    writer.image('0000', GREY * 3)", "crash", r"float pixels lie in \[1.5, 1.5\]"),
    ],
)
def test_a_leg_that_breaks_is_one_class_of_failure_with_one_line(bad_leg, source, kind, words):
    record, folder = bad_leg(source)
    assert record.failure == kind
    assert re.search(words, record.message), record.message
    assert "\n" not in record.message
    assert record.exit_code != 0 or "before it had finished" in record.message
    assert (folder / "log.txt").exists()


def test_a_leg_that_closes_its_output_and_works_is_no_failure(bad_leg):
    record, _ = bad_leg(GOOD.replace('print("hello from the leg")', "import sys, os; sys.stdout.close(); os.close(2)"))
    assert record.failure is None


def test_a_leg_that_dies_half_way_keeps_what_it_wrote(bad_leg):
    record, folder = bad_leg("""
        import os, time
        def run(job, writer):
            writer.setting("device", "cpu")
            writer.image("0000", GREY)
            time.sleep(1.3)
            print("Error: the second item is too much", flush=True)
            os.kill(os.getpid(), 9)
    """)
    assert record.failure == "killed"
    assert "the second item is too much" in record.message
    assert [item.id for item in record.items] == ["0000"]
    assert record.effective.settings == {"device": "cpu"}
    assert (folder / record.items[0].images[0].float_path).exists()


STRAYS = """
    import os, pathlib, signal, subprocess, sys, time
    HANG = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    FORK = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
        "start_new_session=True, stdout=subprocess.DEVNULL); print(p.pid)"
    )
    def run(job, writer):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", HANG])
        apart = subprocess.Popen([sys.executable, "-c", HANG], start_new_session=True)
        bare = subprocess.Popen([sys.executable, "-c", HANG], start_new_session=True, env={})
        orphan = subprocess.run([sys.executable, "-c", FORK, HANG], stdout=subprocess.PIPE, text=True)
        lost = subprocess.run([sys.executable, "-c", FORK, HANG], stdout=subprocess.PIPE, text=True, env={})
        pids = [os.getpid(), child.pid, apart.pid, bare.pid, int(orphan.stdout), int(lost.stdout)]
        pathlib.Path("pids.part").write_text(" ".join(map(str, pids)))
        os.replace("pids.part", "pids")
        LAST
"""


def test_a_hanging_leg_that_ignores_sigterm_is_gone_after_its_timeout_with_every_stray(bad_leg, monkeypatch):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.2)
    record, folder = bad_leg(STRAYS.replace("LAST", "time.sleep(600)"), timeout_s=3)
    assert (record.failure, record.exit_code) == ("timeout", None)
    assert "timeout_s: 3" in record.message
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert len(pids) == 6
    assert all(is_gone(pid) for pid in pids)


def test_a_leg_that_ends_well_leaves_no_server_behind(bad_leg, monkeypatch):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.2)
    own = set(psutil.Process().children())
    record, folder = bad_leg(STRAYS.replace("LAST", "pass"))
    assert record.failure is None
    assert set(psutil.Process().children()) == own
    assert all(is_gone(int(pid)) for pid in (folder / "pids").read_text().split())


HARNESS = """
import signal, sys
from pathlib import Path
# Whoever runs the tests may ignore signals (nohup), and a child inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.path.insert(0, {here!r})
from conftest import ITEMS, make_case, make_leg
from paritygate.runners import process
from paritygate.runners.leg import run_leg
process._GRACE_S = 0.3
root = Path({root!r})
leg = make_leg()
run_leg(make_case(root, leg), leg, items=ITEMS, run_dir=root / "run", model_dir=None, latents=None)
"""


@pytest.fixture
def harness_ended_by(tmp_path):
    """Ends a harness by a signal while its leg is at ``last``: the ids of the leg's processes, and how it ended."""

    def end(number, *, last):
        (tmp_path / "adapter.py").write_text(textwrap.dedent(STRAYS.replace("LAST", last)))
        (tmp_path / "run").mkdir()
        code = HARNESS.format(here=str(Path(__file__).parent), root=str(tmp_path))
        harness = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)
        try:
            pids = [int(pid) for pid in wait_for(tmp_path / "run" / "candidate" / "pids").split()]
            assert not any(is_gone(pid) for pid in pids)
            time.sleep(0.2)
            harness.send_signal(number)
            _, errors = harness.communicate(timeout=30)
        finally:
            harness.kill()
        end = time.monotonic() + 10
        while not all(is_gone(pid) for pid in pids) and time.monotonic() < end:
            time.sleep(0.05)
        return pids, harness.returncode, errors

    return end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whatever_ends_the_harness_ends_the_tree_of_the_leg(harness_ended_by, number):
    pids, code, errors = harness_ended_by(number, last="time.sleep(600)")
    assert all(is_gone(pid) for pid in pids)
    assert code != 0
    assert number == signal.SIGKILL or b"KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    "last",
    ["os.kill(os.getpid(), signal.SIGSTOP)", "import ctypes; ctypes.PyDLL(None).sleep(600)"],
    ids=["stopped", "holding the interpreter lock"],
)
def test_a_worker_that_cannot_act_is_ended_with_a_harness_that_was_killed(harness_ended_by, last):
    pids, _, _ = harness_ended_by(signal.SIGKILL, last=last)
    assert all(is_gone(pid) for pid in pids)


def test_a_leg_that_kills_its_guard_is_killed_itself_and_leaves_nothing(bad_leg, monkeypatch):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.2)
    record, folder = bad_leg(STRAYS.replace("LAST", "os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)"))
    assert record.failure == "killed"
    assert all(is_gone(int(pid)) for pid in (folder / "pids").read_text().split())


def test_one_thread_and_no_network_unless_the_leg_says_more(make_a_leg):
    environment = leg_environment(make_a_leg(), {"OMP_NUM_THREADS": "64", "KEPT": "1"})
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "1"
    assert environment["HF_HUB_OFFLINE"] == environment["KEPT"] == "1"
    assert leg_environment(make_a_leg(spec={"threads": 2}), {})["OMP_NUM_THREADS"] == "2"


def test_a_leg_counts_cards_as_preflight_did(make_a_leg):
    assert leg_environment(make_a_leg(), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_run_never_has_the_same_leg_twice(bad_leg):
    bad_leg(GOOD)
    with pytest.raises(UsageError, match="has a candidate leg already"):
        bad_leg(GOOD)


def test_an_interpreter_that_cannot_start_is_a_failure_of_the_leg(bad_leg):
    record, _ = bad_leg(GOOD, python="no/python")
    assert (record.failure, record.exit_code, record.interpreter) == ("crash", None, "no/python")
    assert re.search(r"cannot start .*no/python: No such file", record.message)


def test_an_interpreter_outside_the_project_is_recorded_without_its_folder(bad_leg):
    record, _ = bad_leg(GOOD)
    assert record.interpreter == Path(sys.executable).name


def test_the_job_tells_a_leg_its_latents_and_nothing_about_the_other_leg(bad_leg, tmp_path):
    np.save(tmp_path / "latents.npy", np.zeros((2, 4, 2, 2), np.float32))
    _, folder = bad_leg(GOOD, latents=Latents(path=tmp_path / "latents.npy", sha256="sha256:0"))
    text = (folder / "job.json").read_text()
    assert str(tmp_path / "latents.npy") in text
    assert "reference" not in text
    assert "gate" not in text


def test_a_secret_in_the_environment_never_reaches_a_message(bad_leg, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hf_secret_value")
    record, _ = bad_leg("import os\ndef run(job, writer):\n    raise ValueError(os.environ['HUB_TOKEN'] + ' refused')")
    assert record.message == "ValueError: *** refused"


def test_a_leg_cannot_wait_for_input(bad_leg):
    record, _ = bad_leg(GOOD.replace("hello", "hello") + "    assert __import__('sys').stdin.read() == ''\n")
    assert record.failure is None, record.message
    assert os.environ.get("PARITYGATE_LEG_TOKEN") is None
