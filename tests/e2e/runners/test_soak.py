"""Many runs, one after the other and at once, leave no process, no listening port and no temporary file behind."""

import json
import os
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from paritygate.manifest.case import Item
from paritygate.runners.process import run_process

SEQUENTIAL, STUBBORN = 200, 10
CONCURRENT, ROUNDS = 8, 3
SERVED, SERVED_AT_ONCE = 10, 2
REPOSITORY = Path(__file__).resolve().parents[3]

#: A parent, a child that listens, and two grandchildren in sessions of their own; they outlive the parent.
TREE = """
import json, os, signal, socket, sys, tempfile, time
def tree(place, stubborn):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    descriptor, name = tempfile.mkstemp()
    os.close(descriptor)
    told, tell = os.pipe()
    if not os.fork():
        for _ in range(2):
            if not os.fork():
                os.setsid()
                break
        if stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(tell, b"%d " % os.getpid())
        while True:
            time.sleep(600)
    pids = b""
    while pids.count(b" ") < 3:
        pids += os.read(told, 100)
    # What a well-behaved program does; what a leg leaves in a folder for temporary files is nobody's to remove.
    os.unlink(name)
    with open(place + ".part", "w") as stream:
        json.dump([listener.getsockname()[1], *map(int, pids.split()), os.getpid()], stream)
    os.replace(place + ".part", place)
    return listener.getsockname()[1]
"""
ADAPTER = f"""{TREE}
import numpy as np
def run(job, writer):
    port = tree("tree.json", False)
    time.sleep(0.4)
    # No other leg that ended meanwhile took this one's tree with it.
    pids = json.load(open("tree.json"))[1:]
    assert all(open("/proc/%d/stat" % pid).read().split()[2] != "Z" for pid in pids), "a process is gone"
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
    for item in job.items:
        writer.image(item.id, np.full((4, 4, 3), 0.5, np.float32))
"""


class State(NamedTuple):
    """What runs may not change."""

    children: frozenset[int]
    descriptors: int
    threads: int
    files: frozenset[str]


@pytest.fixture
def state(tmp_path):
    """Takes stock of this process and of its folder for temporary files."""

    def take() -> State:
        return State(
            children=frozenset(child.pid for child in psutil.Process().children(recursive=True)),
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            threads=threading.active_count(),
            files=frozenset(path.name for path in (tmp_path / "tmp").iterdir()),
        )

    return take


def listening() -> set[int]:
    return {
        connection.laddr.port
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr
    }


def assert_gone(trees: list[Path], left) -> None:
    ports, pids = set(), []
    for path in trees:
        port, *rest = json.loads(path.read_text())
        ports.add(port)
        pids += rest
    assert len(pids) == 4 * len(trees)
    assert [pid for pid in pids if not left.is_gone(pid)] == []
    assert left.marked() == []
    # A port may be another program's by now, but not one of ours.
    for port in ports & listening():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)


@pytest.mark.usefixtures("run_one")  # for its mark and its folder for temporary files
def test_two_hundred_runs_in_a_row_leave_nothing(tmp_path, state, left, monkeypatch):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.3)
    (tmp_path / "tree.py").write_text(f"{TREE}\ntree(sys.argv[1], sys.argv[2] == 'True')\n")
    before = state()
    for number in range(SEQUENTIAL):
        stubborn = number % (SEQUENTIAL // STUBBORN) == 0
        outcome = run_process(
            [sys.executable, "-I", "-S", "tree.py", f"{number}.json", str(stubborn)],
            cwd=tmp_path,
            env=dict(os.environ),
            log=tmp_path / "log.txt",
            timeout_s=30,
        )
        assert (outcome.exit_code, (tmp_path / "log.txt").read_text()) == (0, "")
        assert outcome.duration_s < 5
    assert_gone([tmp_path / f"{number}.json" for number in range(SEQUENTIAL)], left)
    assert state() == before


def test_eight_legs_at_once_leave_nothing_and_never_touch_each_other(tmp_path, run_one, state, left):
    def run(number: int) -> str:
        root = tmp_path / f"case{number}"
        root.mkdir()
        (root / "adapter.py").write_text(ADAPTER)
        return run_one("python", root=root, adapter="adapter.py").record.message

    before = state()
    numbers = range(CONCURRENT * ROUNDS)
    with ThreadPoolExecutor(CONCURRENT) as pool:
        assert list(pool.map(run, numbers)) == [""] * len(numbers)
    assert_gone([tmp_path / f"case{number}/run/candidate/tree.json" for number in numbers], left)
    assert state() == before


def test_ten_runs_of_the_real_server_leave_nothing(tmp_path, run_one, state, left):
    """A real pipeline behind a real HTTP stack: threads, sockets, temporary files and all."""
    model = REPOSITORY / "tests/e2e/accuracy/tiny_digits/model"
    request = {"prompt": "a digit", "seed": 1, "width": 32, "height": 32, "num_inference_steps": 2}

    def run(number: int) -> tuple[str | None, str]:
        root = tmp_path / f"case{number}"
        root.mkdir()
        ran = run_one(
            "openai", root=root, model_dir=model, side=32, items=(Item(id="0000", request=request),), timeout_s=120,
            server=["{python}", "-m", "openai_server", "--model", "{model}", "--port", "{port}"],
            pythonpath=[str(REPOSITORY / "examples")], endpoint="images/generations", probe=[],
            served_model="model",
        )  # fmt: skip
        return ran.record.failure, ran.record.message

    before = state()
    with ThreadPoolExecutor(SERVED_AT_ONCE) as pool:
        assert list(pool.map(run, range(SERVED))) == [(None, "")] * SERVED
    assert left.marked() == []
    assert state() == before
    for number in range(SERVED):
        assert (tmp_path / f"case{number}/run/candidate/outputs/0000/0.png").exists()
