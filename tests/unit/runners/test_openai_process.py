"""Servers that the ``openai`` runner starts, as real processes under the real harness."""

import json
import socket
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from paritygate.errors import LegError
from paritygate.runners.failures import classify
from paritygate.runners.python import load_file

STUB = str(Path(__file__).with_name("stub_server.py"))
leg = load_file(Path(__file__).with_name("openai_leg.py"))


@pytest.fixture
def served(bad_leg):
    """Runs a leg against a stub process with these faults; afterwards nothing of it may be left."""

    def run(*words: str, **spec):
        before = set(psutil.Process().children(recursive=True))
        whole = {"endpoint": "images/generations", "server": ["{python}", STUB, "{port}", *words], "probe": [], **spec}
        record, folder = bad_leg("", runner="openai", spec=whole)
        assert set(psutil.Process().children(recursive=True)) == before
        assert not list(folder.glob("download-*"))
        return record, folder

    return run


WRAPPER = """
    import json, os, sys
    import beside
    seen = {"argv": sys.argv[1:], "cwd": os.getcwd(), "beside": beside.__file__, "set": os.environ.get("STUB_SET")}
    open(sys.argv[3], "w").write(json.dumps(seen))
    sys.argv[:] = [sys.argv[4], sys.argv[1], "says-bye"]
    print("a line of the server", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv])
"""


def test_a_server_is_started_as_the_leg_says_answers_and_is_ended(served, tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "beside.py").write_text("")
    (tmp_path / "start.py").write_text(textwrap.dedent(WRAPPER))
    seen = tmp_path / "seen.json"
    command = ["{python}", "start.py", "{port}", "{model}/{x}", str(seen), STUB]
    record, folder = served(server=command, cwd=".", pythonpath=["library"], env={"STUB_SET": "{port}"})
    assert (record.failure, record.message) == (None, "")
    assert [item.id for item in record.items] == ["0000", "0001"]
    told = json.loads(seen.read_text())
    assert told["argv"][1] == f"{tmp_path / 'model'}/{{x}}"
    assert told["cwd"] == str(tmp_path)
    assert told["beside"] == str(tmp_path / "library" / "beside.py")
    assert told["set"] == "{port}"
    assert (folder / "log.txt").read_text() == "a line of the server\nbye\n"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(told["argv"][0]))) != 0


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (
            ["says-and-exits"],
            "weights",
            "the server exited with code 3; log: OSError: no file named model-00002-of-00003.safetensors in the folder",
        ),
        (["die@1"], "crash", "the server exited with code 9; log: RuntimeError: the card fell off the bus"),
    ],
)
def test_a_server_that_dies_says_why_with_the_first_error_line_of_its_log(served, words, kind, message):
    record, folder = served(*words)
    assert (record.failure, record.message) == (kind, f"LegError: {message}")
    assert len(record.items) == (words == ["die@1"])
    assert message.rpartition("log: ")[2] in (folder / "log.txt").read_text()


def test_a_server_that_is_never_ready_is_a_timeout_with_the_first_error_line_of_its_log(served):
    record, _ = served("says-and-hangs", startup_timeout_s=0.8)
    assert record.failure == "timeout"
    expected = "the server was not ready within startup_timeout_s: 0.8; log: ERROR: shard 2 of 3 is missing"
    assert expected in record.message
    assert record.duration_s < 6


def test_a_server_that_is_dead_at_the_end_was_perhaps_not_the_one_that_answered(tmp_path, monkeypatch):
    def end(*_arguments):
        [child] = psutil.Process().children()
        child.kill()
        while child.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)

    monkeypatch.setattr("paritygate.runners.openai.probe", end)
    job = leg.make_job(tmp_path / "leg", server=["{python}", STUB, "{port}"])
    with pytest.raises(LegError, match="the server killed by SIGKILL"):
        leg.run(job)


def test_a_program_that_is_not_there_cannot_be_started(tmp_path):
    job = leg.make_job(tmp_path / "leg", server=["no/such/program", "{port}"])
    with pytest.raises(LegError, match=r"cannot start the server no/such/program in .*leg: No such file"):
        leg.run(job)


def test_a_model_that_is_nowhere_is_not_handed_to_a_server(tmp_path):
    job = leg.make_job(tmp_path / "leg", server=["{python}", "{model}", "{port}"])
    with pytest.raises(LegError, match=r"names \{model\}, and the model is in no local folder") as caught:
        leg.run(job)
    assert classify(caught.value).kind == "weights"


def test_something_else_on_the_port_is_never_taken_for_the_server(tmp_path, monkeypatch):
    with leg.serving() as other:
        port = other.server_address[1]
        monkeypatch.setattr("paritygate.runners.openai.free_port", lambda: port)
        job = leg.make_job(tmp_path / "leg", server=[sys.executable, "-c", "import time; time.sleep(60)", "{port}"])
        stale = leg.make_job(tmp_path / "leg", url=f"http://localhost:{port}", server=["no/such/program"])
        for each in (job, stale):
            with pytest.raises(LegError, match=f"something else answers on port {port} already"):
                leg.run(each)
        monkeypatch.setattr("paritygate.runners.openai.refuse_taken", lambda _base: None)
        with pytest.raises(LegError, match=f"port {port} was taken by another process than the server"):
            leg.run(job)
        assert other.generations == 0
    assert not psutil.Process().children()
