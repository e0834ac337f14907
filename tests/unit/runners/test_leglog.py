"""The log of a leg: everything that is printed, in order, up to a limit that holds at any speed."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paritygate.errors import ArtifactError
from paritygate.runners.leglog import leg_log


def run(log: Path, code: str, *, limit: int) -> bool:
    """Whether a child flooded a log; it is ended when it did, as a leg is."""
    with leg_log(log, limit=limit) as stream:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=stream.target, stderr=subprocess.STDOUT)
        stream.handed_over()
        while child.poll() is None and not stream.flooded:
            time.sleep(0.01)
        child.kill()
        child.wait()
    return stream.flooded


def without_splice(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "splice", refuse)


@pytest.fixture(params=["splice", "refused", "absent"])
def mover(request, monkeypatch):
    """Every way in which bytes get from the pipe into the file."""
    if request.param == "refused":
        without_splice(monkeypatch)
    if request.param == "absent":
        monkeypatch.delattr(os, "splice", raising=False)


@pytest.mark.usefixtures("mover")
def test_all_that_is_printed_arrives_in_order(tmp_path):
    assert not run(tmp_path / "log", "for i in range(50_000): print(i)", limit=1 << 20)
    assert (tmp_path / "log").read_text() == "".join(f"{index}\n" for index in range(50_000))


@pytest.mark.usefixtures("mover")
@pytest.mark.parametrize(("printed", "flooded"), [(1000, False), (1001, True), (1 << 22, True)])
def test_the_limit_holds_to_the_byte(tmp_path, printed, flooded):
    assert run(tmp_path / "log", f"import os; os.write(1, b'x' * {printed})", limit=1000) is flooded
    assert (tmp_path / "log").stat().st_size == 1000


def test_a_full_disk_does_not_stop_the_leg_and_is_told_at_its_end(tmp_path):
    with pytest.raises(ArtifactError, match="cannot write /dev/full: No space left on device"):
        run(Path("/dev/full"), f"print('x' * (1 << 20)); open({str(tmp_path / 'done')!r}, 'w')", limit=1 << 22)
    assert (tmp_path / "done").exists()


def test_a_log_that_cannot_be_opened_is_told(tmp_path):
    with pytest.raises(ArtifactError, match=r"cannot write .*: No such file"), leg_log(tmp_path / "no/log", limit=1):
        pass


def test_a_process_that_escaped_does_not_hold_the_log_open(tmp_path):
    with leg_log(tmp_path / "log", limit=1 << 20) as stream:
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], stdout=stream.target
        )
        stream.handed_over()
        while not (tmp_path / "log").stat().st_size:
            time.sleep(0.01)
        began = time.monotonic()
    assert time.monotonic() - began < 1
    child.kill()
    child.wait()


def test_no_file_descriptor_and_no_thread_stays(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        run(tmp_path / "log", "print(1)", limit=100)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_was_printed_before_stands_in_the_log_once_it_has_settled(tmp_path):
    code = (
        "import os, sys\nfrom paritygate.runners.leglog import settle\n"
        "wrong = 0\n"
        "for size in range(1, 100_000, 997):\n"
        "    os.write(1, b'x' * 997)\n    settle()\n"
        f"    wrong += os.stat({str(tmp_path / 'log')!r}).st_size != size // 997 * 997 + 997\n"
        f"open({str(tmp_path / 'wrong')!r}, 'w').write(str(wrong))"
    )
    run(tmp_path / "log", code, limit=1 << 20)
    assert (tmp_path / "wrong").read_text() == "0"
