"""Servers of the ``openai`` runner that misbehave as processes: bounded time and log, and no process or port left."""

import re
import socket
from pathlib import Path

import pytest

from paritygate.runners.process import MAX_LOG_BYTES

STUB = str(Path(__file__).parents[2] / "unit" / "runners" / "stub_server.py")


@pytest.fixture
def served(run_one, left, tmp_path):
    """Runs a leg against a stub process with these faults, and sees to it that nothing of it is left."""

    def run(*words: str, **options):
        script = tmp_path / "start.sh"
        script.write_text('echo "$2" > "$1"\nshift\nshift\nexec "$@"\n')
        port = tmp_path / "port"
        command = ["sh", str(script), str(port), "{port}", "{python}", STUB, "{port}", *words]
        ran = run_one("openai", **{"endpoint": "images/generations", "server": command, "probe": [], **options})
        assert left.marked() == []
        assert list((tmp_path / "tmp").iterdir()) == []
        assert not list(ran.folder.glob("download-*"))
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(port.read_text()))) != 0
        return ran

    return run


@pytest.mark.parametrize(
    ("words", "options", "kind", "message", "seconds"),
    [
        (["forks"], {}, None, "", 30),
        (["forks", "silent"], {"timeout_s": 3}, "timeout", r"still running after timeout_s: 3", 30),
        (["closes-output"], {}, None, "", 20),
        (["closes-output", "die"], {}, "crash", "exited with code", 20),
        (["exits"], {}, "crash", "exited with code 0 before it had finished; the log is empty", 20),
        (["never-healthy"], {"startup_timeout_s": 1}, "timeout", r"startup_timeout_s: 1; last: GET /health .*503", 20),
        (["floods", "silent"], {}, "crash", "printed more than the 64 MiB", 20),
        (["leaves-heir"], {"request_timeout_s": 60}, "killed", "the server killed by SIGKILL", 30),
        (["drip"], {"request_timeout_s": 1}, "timeout", "not answered in full", 20),
        (["negative-chunk"], {}, "crash", "more than the", 20),
        (["half-image"], {}, "crash", "truncated or damaged PNG", 20),
    ],
)
def test_a_server_that_misbehaves_is_one_class_of_failure_and_leaves_nothing(
    served, left, words, options, kind, message, seconds
):
    ran = served(*words, **options)
    assert ran.record.failure == kind
    assert re.search(message, ran.record.message), ran.record.message
    assert ran.seconds < seconds
    assert ran.peak_bytes < 400 << 20
    assert (ran.folder / "log.txt").stat().st_size <= MAX_LOG_BYTES
    if "forks" in words:
        pids = (ran.folder / "pids").read_text().split()
        assert len(pids) == 4
        assert all(left.is_gone(int(pid)) for pid in pids)
    if kind is None:
        assert [item.id for item in ran.record.items] == ["0000", "0001"]
