"""Legs of every runner that misbehave: bounded time, memory and log, the right class of failure, and nothing left."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from paritygate.compare.compare import compare_legs
from paritygate.manifest.case import Measure, Measurement, Output
from paritygate.media.images import encode_png
from paritygate.records.canonical import sha256_bytes, sha256_file
from paritygate.runners.process import MAX_LOG_BYTES

PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
#: The most that the processes of a leg may hold in these tests: none of them loads a model.
MEMORY_BYTES = 400 << 20

HEAD = """
import os, pathlib, resource, signal, socket, subprocess, sys, time
"""
#: name -> what a program does.
DEEDS = {
    "is killed": "print('working', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "is ended as out of memory": "print('working', flush=True); os._exit(137)",
    "runs out of memory": """
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
        print('working', flush=True)
        bytearray(1 << 40)
    """,
    "hangs": "print('working', flush=True); time.sleep(600)",
    "hangs with a tree that ignores SIGTERM": """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        HANG = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        LISTEN = (
            "import signal, socket, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); s = socket.socket(); "
            "s.bind(('127.0.0.1', 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(600)"
        )
        FORK = (
            "import subprocess, sys; p = subprocess.Popen([sys.executable, '-IS', '-c', sys.argv[1]], "
            "start_new_session=True, stdout=subprocess.DEVNULL); print(p.pid)"
        )
        start = lambda code, **more: subprocess.Popen([sys.executable, "-I", "-S", "-c", code], **more)
        server = start(LISTEN, stdout=subprocess.PIPE, text=True, start_new_session=True)
        port = int(server.stdout.readline())
        pids = [os.getpid(), server.pid, start(HANG).pid, start(HANG, start_new_session=True, env={}).pid]
        orphan = subprocess.run([sys.executable, "-IS", "-c", FORK, HANG], stdout=subprocess.PIPE, text=True, env={})
        print('working', flush=True)
        pathlib.Path("part").write_text(" ".join(map(str, [port, *pids, int(orphan.stdout)])))
        os.replace("part", "pids")
        time.sleep(600)
    """,
    "floods its log": """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(1024):
            os.write(1, b'working ' * (1 << 17))
    """,
    "closes its output and fails": "os.close(1); os.close(2); raise RuntimeError('unheard')",
}
#: deed -> class of failure, words of the message, what the log holds.
EXPECTED = {
    "is killed": ("killed", "SIGKILL", "working"),
    "is ended as out of memory": ("killed", "most often because memory ran out", "working"),
    "runs out of memory": ("memory", "MemoryError", "MemoryError"),
    "hangs": ("timeout", "still running after timeout_s", "working"),
    "hangs with a tree that ignores SIGTERM": ("timeout", "still running after timeout_s", "working"),
    "floods its log": ("crash", "printed more than the 64 MiB", "working"),
    "closes its output and fails": ("crash", "RuntimeError|exited with code 1", ""),
}


def as_python(root, deed, run_one, **limits):
    (root / "adapter.py").write_text(f"{HEAD}\ndef run(job, writer):\n{deed}")
    return run_one("python", adapter="adapter.py", **limits)


def as_diffusers(root, deed, run_one, **limits):
    """What stands in for torch does the deed: it is the first thing that the runner loads."""
    (root / "stub/torch").mkdir(parents=True)
    (root / "stub/torch/__init__.py").write_text(f"{HEAD}\ndef deed():\n{deed}\ndeed()\n")
    os.environ["PYTHONPATH"] = str(root / "stub")
    return run_one("diffusers", pipeline="StableDiffusionPipeline", **limits)


def as_command(root, deed, run_one, **limits):
    (root / "program.py").write_text(f"{HEAD}\ndef deed():\n{deed}\ndeed()\n")
    command = ["{python}", str(root / "program.py"), "{request}", "{outputs}"]
    return run_one("command", command=command, **limits)


def as_server(root, deed, run_one, **limits):
    (root / "server.py").write_text(f"{HEAD}\ndef deed():\n{deed}\ndeed()\n")
    server = ["{python}", str(root / "server.py"), "{port}"]
    return run_one("openai", server=server, endpoint="images/generations", **limits)


STARTS = {"python": as_python, "diffusers": as_diffusers, "command": as_command, "openai": as_server}


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.3)
    # Set, so that what a test puts there is taken away again.
    monkeypatch.setenv("PYTHONPATH", "")


def own_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def indented(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip()]
    cut = min(len(line) - len(line.lstrip()) for line in lines)
    return "".join(f"    {line[cut:]}\n" for line in lines)


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("runner", STARTS)
def test_a_leg_that_misbehaves_is_ended_within_bounds_and_told_in_its_class(tmp_path, run_one, left, runner, deed):
    before = own_peak_bytes()
    timeout_s = 4.0 if "tree" in deed else 2.0 if "hangs" in deed else 30.0
    ran = STARTS[runner](tmp_path, indented(DEEDS[deed]), run_one, timeout_s=timeout_s)
    assert own_peak_bytes() - before < 32 << 20
    kind, words, logged = EXPECTED[deed]
    assert ran.record.failure == kind, ran.record.message
    assert re.search(words, ran.record.message), ran.record.message
    assert (ran.record.exit_code is None) == (kind == "timeout" or "floods" in deed)
    assert ran.record.exit_code != 0
    log = ran.folder / "log.txt"
    with log.open("rb") as stream:
        assert logged.encode() in stream.read(1 << 16)
    assert log.stat().st_size <= MAX_LOG_BYTES
    assert ran.seconds < (timeout_s if kind == "timeout" else 0) + 6
    assert ran.peak_bytes < MEMORY_BYTES
    assert left.marked() == []
    assert list((tmp_path / "tmp").iterdir()) == []
    if "tree" in deed:
        port, *pids = map(int, (ran.folder / "pids").read_text().split())
        assert len(pids) == 5
        assert all(left.is_gone(pid) for pid in pids)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)


def seal(folder: Path, name: str, document: dict) -> str:
    """List every file of a folder, with its true digest. Returns the digest of the list."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        files[path.relative_to(folder).as_posix()] = {"sha256": sha256_file(path), "size": path.stat().st_size}
    data = json.dumps({**document, "files": files}).encode()
    (folder / name).write_bytes(data)
    return sha256_bytes(data)


def seal_import(folder: Path) -> dict:
    made = {"made_by": "x", "version": "1", "machine": "m", "made_on": "2026-11-30", "command": "c"}
    model = {"id": "none", "revision": "0" * 40}
    seal(folder, "import.json", {"schema_version": 1, "provenance": made, "model": model})
    return {"runner": "import", "folder": folder.name}


def seal_golden(folder: Path) -> dict:
    items = [
        {"id": item, "request": {"prompt": prompt, "seed": seed}}
        for item, prompt, seed in (("0000", "a", 1), ("0001", "b", 2))
    ]
    document = {
        "schema_version": 1, "name": "digits", "version": 1, "case": "c", "contract": "sha256:" + "c" * 64,
        "claim": "golden-regression", "task": "t2i", "items": items, "output": {}, "inputs": [], "settings": {},
        "model": {"id": "none", "revision": "0" * 40, "weights": "trained", "verified": True}, "environment": {},
        "reference": {"runner": "python", "spec": {}, "requires": {}, "adapter": None, "versions": {}},
        "generator": {"commit": None, "dirty": None, "command": "c", "platform": "l", "made_on": "2026-11-30T00:00:00Z",
                      "python": "3", "paritygate": "0", "profile": {}}, "promotable": True, "reasons": [],
    }  # fmt: skip
    digest = seal(folder, "golden.json", document)
    named = {"name": "digits", "version": 1, "digest": digest}
    return {"runner": "golden", "golden": folder, "named": named}


SEALS = {"import": (seal_import, "crash"), "golden": (seal_golden, "golden")}


@pytest.fixture
def frozen(tmp_path) -> Path:
    folder = tmp_path / "made"
    for item in ("0000", "0001"):
        (folder / "outputs" / item).mkdir(parents=True)
        (folder / "outputs" / item / "0.png").write_bytes(encode_png(PIXELS))
    return folder


def read_frozen(run_one, given: dict, **limits):
    if given["runner"] == "golden":
        return run_one("golden", golden_folder=given["golden"], golden=given["named"], **limits)
    return run_one("import", folder=given["folder"], **limits)


@pytest.mark.parametrize("runner", SEALS)
def test_a_frozen_leg_that_is_whole_is_no_failure(frozen, run_one, runner):
    ran = read_frozen(run_one, SEALS[runner][0](frozen))
    assert (ran.record.failure, ran.record.message) == (None, "")
    assert [item.id for item in ran.record.items] == ["0000", "0001"]


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def sparse(path: Path) -> None:
    os.truncate(path, 1 << 30)


def large(path: Path) -> None:
    """More than an image may have, and little enough to digest."""
    os.truncate(path, 320 << 20)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("runner", SEALS)
@pytest.mark.parametrize(
    ("spoil", "before", "words"),
    [
        (half, True, "0000/0.png: truncated or damaged PNG"),
        (half, False, "outputs/0000/0.png has .* bytes, the list says"),
        (large, True, "0000/0.png has more than the 314572800 bytes"),
        (sparse, False, "outputs/0000/0.png has 1073741824 bytes, the list says"),
        (pipe, False, "outputs/0000/0.png is neither a file nor a folder"),
    ],
)
def test_a_frozen_leg_with_a_bad_file_is_refused_within_bounds(frozen, run_one, left, runner, spoil, before, words):
    seal_it, kind = SEALS[runner]
    if before:
        spoil(frozen / "outputs/0000/0.png")
    given = seal_it(frozen)
    if not before:
        spoil(frozen / "outputs/0000/0.png")
    ran = read_frozen(run_one, given)
    assert ran.record.failure == kind, ran.record.message
    assert re.search(words, ran.record.message), ran.record.message
    assert ran.record.exit_code == 4
    assert ran.peak_bytes < MEMORY_BYTES
    assert ran.seconds < 20
    assert "LegError" in (ran.folder / "log.txt").read_text()
    assert left.marked() == []


@pytest.mark.parametrize("runner", SEALS)
def test_a_list_of_digests_that_is_a_pipe_hangs_nobody(frozen, run_one, runner):
    given = SEALS[runner][0](frozen)
    pipe(frozen / f"{runner}.json")
    ran = read_frozen(run_one, given)
    assert ran.record.failure == SEALS[runner][1]
    assert "is not a regular file" in ran.record.message
    assert ran.seconds < 5


@pytest.mark.parametrize("runner", SEALS)
def test_a_frozen_leg_that_is_killed_is_told_and_leaves_nothing(frozen, run_one, left, runner):
    large(frozen / "outputs/0000/0.png")  # it takes a while to verify
    given = SEALS[runner][0](frozen)

    def kill() -> None:
        while True:
            for process in left.marked():
                # The worker is the guard's child.
                if (parent := process.parent()) and parent.cmdline() == process.cmdline():
                    process.kill()
                    return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    ran = read_frozen(run_one, given)
    killer.join(10)
    assert (ran.record.failure, ran.record.exit_code) == ("killed", -9)
    assert left.marked() == []


HALF = f"""
    half = bytes.fromhex({encode_png(PIXELS).hex()!r})[:60]
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "outputs", "0000")
    folder.mkdir(parents=True)
    (folder / "0.png").write_bytes(half)
    print('working', flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("python", "exited with code 0 before it had finished; log: working"),
        ("diffusers", "exited with code 0 before it had finished; log: working"),
        ("command", "0000/0.png: truncated or damaged PNG"),
        ("openai", "the server exited with code 0 before it had finished; log: working"),
    ],
)
def test_a_leg_that_leaves_half_a_file_and_says_that_all_is_well_is_broken(tmp_path, run_one, left, runner, words):
    ran = STARTS[runner](tmp_path, indented(HALF), run_one)
    assert ran.record.failure == "crash"
    assert words in ran.record.message
    assert ran.record.items == ()
    assert left.marked() == []


STUB = Path(__file__).parents[2] / "unit/runners/stub_server.py"


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("half-image", "crash", "truncated or damaged"),
        ("short", "crash", ""),
        ("die@1", "crash", "the card fell off the bus"),
        ("silent@1", "timeout", "request_timeout_s: 2"),
    ],
)
def test_a_server_that_breaks_off_keeps_what_it_had_answered(run_one, left, fault, kind, words):
    server = ["{python}", str(STUB), "{port}", fault]
    ran = run_one("openai", server=server, endpoint="images/generations", request_timeout_s=2)
    assert ran.record.failure == kind, ran.record.message
    assert words in ran.record.message
    assert [item.id for item in ran.record.items] == (["0000"] if "@1" in fault else [])
    assert left.marked() == []


def test_half_a_file_that_an_adapter_hands_on_is_found_by_the_comparison(tmp_path, run_one, make_case):
    """A file that the engine encoded is taken as it is: whether it is whole shows when it is read."""
    (tmp_path / "adapter.py").write_text(
        "import numpy as np\n"
        "def run(job, writer):\n"
        "    for item in job.items:\n"
        "        np.savez('a.npz', a=np.arange(500.0))\n"
        "        data = open('a.npz', 'rb').read()\n"
        "        open('a.npz', 'wb').write(data[: len(data) // (1 + (item.id == '0001'))])\n"
        "        writer.tensors(item.id, 'a.npz')\n"
    )
    ran = run_one("python", adapter="adapter.py")
    assert ran.record.failure is None, ran.record.message
    measured = Measurement(id="a", metric="relative_l2", aggregate="max", pixels="stored", target=None)
    case, items = make_case(
        tmp_path, output=Output(kind="tensors"), measure=Measure(exact=(), parts=(), output=(measured,))
    )
    found = compare_legs(case, items, reference=ran.record, candidate=ran.record, run_dir=tmp_path / "run")
    assert {(finding.code, finding.item) for finding in found.invalid} == {("unreadable", "0001")}
    assert found.measurements == ()


HARNESS = """
import json, signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sys.path.insert(0, {here!r})
from conftest import ITEMS, case_of
from paritygate.manifest.case import Leg
from paritygate.runners import process
from paritygate.runners.leg import run_leg
process._GRACE_S = 0.3
root = Path({root!r})
leg = Leg(name="candidate", runner={runner!r}, adapter=None, python=None, timeout_s=60, requires={{}}, assets=(),
          feature=None, spec=json.loads({spec!r}))
run_leg(case_of(root, leg), leg, items=ITEMS, run_dir=root / "run", model_dir=None, latents=None)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("runner", ["command", "openai"])
def test_the_tree_of_a_leg_ends_with_a_harness_that_was_ended(tmp_path, left, monkeypatch, runner, number):
    monkeypatch.setenv("PARITYGATE_TEST_MARK", uuid.uuid4().hex)
    (tmp_path / "run").mkdir()
    deed = indented(DEEDS["hangs with a tree that ignores SIGTERM"])
    (tmp_path / "program.py").write_text(f"{HEAD}\ndef deed():\n{deed}\ndeed()\n")
    program = ["{python}", str(tmp_path / "program.py")]
    spec = {"command": program} if runner == "command" else {"server": program, "endpoint": "images/generations"}
    code = HARNESS.format(here=str(Path(__file__).parent), root=str(tmp_path), runner=runner, spec=json.dumps(spec))
    harness = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        told, end = tmp_path / "run/candidate/pids", time.monotonic() + 20
        while not told.exists() and time.monotonic() < end:
            time.sleep(0.05)
        port, *pids = map(int, told.read_text().split())
        assert not any(left.is_gone(pid) for pid in pids)
        harness.send_signal(number)
        harness.wait(20)
    finally:
        harness.kill()
    end = time.monotonic() + 10
    while left.marked() and time.monotonic() < end:
        time.sleep(0.05)
    assert [pid for pid in pids if not left.is_gone(pid)] == []
    assert left.marked() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
