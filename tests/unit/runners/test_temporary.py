"""Temporary files of a leg go with it, however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from paritygate.errors import ArtifactError
from paritygate.runners.process import run_process

LITTER = """
    import os, pathlib, tempfile, time
    def run(job, writer):
        tempfile.mkdtemp()
        handle, name = tempfile.mkstemp()
        pathlib.Path("name").write_text(name)
        LAST
"""


@pytest.mark.parametrize(("last", "failure"), [("pass", None), ("os.kill(os.getpid(), 9)", "killed")])
def test_temporary_files_of_a_leg_go_with_it(bad_leg, last, failure):
    record, folder = bad_leg(LITTER.replace("LAST", last))
    assert record.failure == failure
    own = Path((folder / "name").read_text()).parent
    assert own.name.startswith("paritygate-leg-")
    assert not own.exists()


def test_a_place_without_room_for_temporary_files_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ArtifactError, match="cannot make a folder for temporary files: No such file"):
        run_process(["true"], cwd=tmp_path, env={}, log=tmp_path / "log", timeout_s=5)


def test_temporary_files_go_with_a_harness_that_was_killed(tmp_path):
    code = f"""
import os, sys
from pathlib import Path
from paritygate.runners.process import run_process
inner = "import os, sys; from paritygate.runners.leash import hold; hold(); import tempfile, time; " \\
    "open('name', 'w').write(tempfile.mkdtemp()); os.rename('name', 'told'); time.sleep(60)"
here = Path({str(tmp_path)!r})
run_process([sys.executable, "-c", inner], cwd=here, env=dict(os.environ), log=here / "log", timeout_s=60)
"""
    harness = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        end = time.monotonic() + 20
        while not (tmp_path / "told").exists() and time.monotonic() < end:
            time.sleep(0.02)
        own = Path((tmp_path / "told").read_text()).parent
        assert own.name.startswith("paritygate-leg-")
        os.kill(harness.pid, signal.SIGKILL)
        while own.exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert not own.exists()
    finally:
        harness.kill()
        harness.wait()
