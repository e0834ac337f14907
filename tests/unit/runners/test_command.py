"""The command runner with real programs: what it is told, what is taken, and how its end is told."""

import json
import re
import sys
import textwrap
from pathlib import Path

import pytest

from paritygate.errors import LegError
from paritygate.runners.command import environment, filled

#: Begins every program: it reads its request and can make pictures.
HEAD = """
import json, os, sys
from pathlib import Path
from PIL import Image
request = json.loads(Path(sys.argv[1]).read_text())
outputs = Path(sys.argv[2])
def picture(item, shade=128):
    (outputs / item).mkdir(exist_ok=True)
    Image.new("RGB", (4, 4), (shade, 1, 2)).save(outputs / item / "0.png")
"""
GOOD = "for item in request['items']: picture(item['id'], item['request']['seed'])\n"


@pytest.fixture
def program(bad_leg, tmp_path):
    """Runs a program's source as a command leg and returns its record and its folder."""

    def run(source: str, *, command=("{python}", "program.py", "{request}", "{outputs}"), python=None, **spec):
        (tmp_path / "program.py").write_text(HEAD + textwrap.dedent(source))
        return bad_leg(
            "", runner="command", adapter=None, python=python, spec={"command": list(command), "cwd": ".", **spec}
        )

    return run


def test_a_program_gets_its_request_as_a_file_and_its_outputs_are_taken(program, tmp_path):
    record, folder = program(
        GOOD + "print('made', len(request['items']))\nos.replace(sys.argv[1], 'seen.json')",
        options={"fast": True},
        threads=2,
    )
    assert (record.failure, record.message) == (None, "")
    assert [item.id for item in record.items] == ["0000", "0001"]
    assert (folder / "outputs/0001/0.png").exists()
    assert not (folder / "delivery").exists()
    assert (folder / "log.txt").read_text() == "made 2\n"
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen == {
        "schema_version": 1,
        "case": "bad-leg",
        "leg": "candidate",
        "task": "t2i",
        "model": {"id": "none", "revision": "0" * 40, "dir": str(tmp_path / "model")},
        "output": seen["output"],
        "inputs": [],
        "items": [
            {"id": "0000", "request": {"prompt": "a", "seed": 1}},
            {"id": "0001", "request": {"prompt": "b", "seed": 2}},
        ],
        "latents": None,
        "device": "cpu",
        "threads": 2,
        "options": {"fast": True},
        "feature": None,
        "outputs": str(folder / "delivery"),
    }
    assert (seen["output"]["kind"], seen["output"]["width"]) == ("images", 4)


def test_what_the_program_says_took_effect_is_kept_apart_from_what_our_own_worker_is(program):
    record, _ = program(
        GOOD
        + """
effective = {
    "settings": {"config.steps": 4, "device": "cuda"}, "token_ids": {"0000": [[1, 2]]}, "timesteps": [3, 2.5],
    "sigmas": [1.0, "inf"], "initial_latents": {"0000": "sha256:" + "a" * 64}, "features": {"cache": {"hits": 3}},
    "environment": {"versions": {"engine": "1.2"}}, "effects": {"seed": {"exercised": True, "detail": "yes"}},
    "pending": ["config"],
}
(outputs / "effective.json").write_text(json.dumps(effective))
"""
    )
    assert record.failure is None, record.message
    found = record.effective
    assert found.settings == {"config.steps": 4, "device": "cuda"}
    assert (found.token_ids, found.timesteps, found.sigmas) == ({"0000": [[1, 2]]}, [3, 2.5], [1.0, float("inf")])
    assert found.initial_latents == {"0000": "sha256:" + "a" * 64}
    assert (found.features, found.pending) == ({"cache": {"hits": 3}}, ("config",))
    assert found.effects["seed"].exercised
    assert found.environment["versions"] == {"engine": "1.2"}
    assert "numpy" in found.environment["worker"]["versions"]


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        ("sys.exit(3)", "crash", "exited with code 3; the log is empty"),
        ("print('CUDA error: busy'); sys.exit(3)", "crash", "exited with code 3; log: CUDA error: busy"),
        ("os.kill(os.getpid(), 9)", "killed", "killed by SIGKILL"),
        ("os._exit(137)", "killed", "killed by SIGKILL"),
        ("os.kill(os.getpid(), 11)", "crash", "ended by SIGSEGV"),
        ("pass", "crash", "nothing was delivered into delivery/"),
        ("outputs.rmdir()", "crash", "nothing was delivered into delivery/"),
        (
            "picture('0000'); os.rename(outputs, 'moved'); os.symlink('moved', outputs)",
            "crash",
            "nothing was delivered",
        ),
        ("picture('0000'); os.truncate(outputs / '0000/0.png', 60)", "crash", "0000/0.png: truncated or damaged PNG"),
    ],
)
def test_a_program_that_ends_badly_or_delivers_nothing_is_one_class_of_failure(program, source, kind, words):
    record, _ = program(source)
    assert record.failure == kind
    assert re.search(words, record.message), record.message


def test_a_program_that_is_not_there_is_told_with_its_folder(program):
    record, _ = program("", command=["no-such-program", "{outputs}"])
    assert record.failure == "crash"
    assert re.search(r"cannot start no-such-program in .*: No such file", record.message)


def test_a_program_without_a_shell_gets_its_arguments_as_they_are(program, tmp_path):
    record, _ = program(
        GOOD + "Path('seen').write_text(sys.argv[3])",
        command=["{python}", "program.py", "{request}", "{outputs}", "$(touch hacked); `x` {other} {{outputs}}"],
    )
    assert record.failure is None, record.message
    assert not (tmp_path / "hacked").exists()
    outputs = tmp_path / "run/candidate/delivery"
    assert (tmp_path / "seen").read_text() == f"$(touch hacked); `x` {{other}} {{{outputs}}}"


def test_a_wrapper_such_as_uv_or_a_container_names_the_folders_inside_longer_arguments(program, tmp_path):
    (tmp_path / "wrapper.py").write_text(
        "import subprocess, sys\nout = sys.argv[1].removeprefix('--volume=').removesuffix(':/outputs')\n"
        "sys.exit(subprocess.run([*sys.argv[3:], out]).returncode)"
    )
    wrapped = ["--volume={outputs}:/outputs", "--", "{python}", "program.py", "{request}"]
    record, _ = program(GOOD, command=[sys.executable, "wrapper.py", *wrapped])
    assert record.failure is None, record.message


def test_a_program_runs_in_its_own_environment_and_imports_what_pythonpath_names(program, tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/special.py").write_text("SHADE = 7")
    (tmp_path / "beside.py").write_text("")
    record, _ = program(
        "import special, beside\npicture('0000', special.SHADE)\nassert os.environ['MODE'] == 'a b'",
        env={"MODE": "a b"}, pythonpath=["engine"],
    )  # fmt: skip
    assert record.failure is None, record.message


def test_a_program_runs_in_the_interpreter_of_the_leg_and_the_worker_in_ours(program, tmp_path):
    (tmp_path / "venv").mkdir()
    own = tmp_path / "venv/python"
    own.write_text(f'#!/bin/sh\nOWN=yes exec {sys.executable} "$@"\n')
    own.chmod(0o755)
    record, _ = program(GOOD + "assert os.environ['OWN'] == 'yes'", python="venv/python")
    assert record.failure is None, record.message
    assert record.interpreter == "venv/python"


def test_the_environment_puts_named_folders_before_an_inherited_path(make_job):
    job = make_job(spec={"command": ["x"], "env": {"A": "1"}, "pythonpath": ["lib", "other"]})
    found = environment(job, {"PYTHONPATH": "/kept", "PYTHONSAFEPATH": "1", "B": "2"})
    assert found == {"A": "1", "B": "2", "PYTHONPATH": f"{job.root}/lib:{job.root}/other:/kept"}
    assert environment(make_job(spec={"command": ["x"]}), {"PYTHONPATH": "/kept"}) == {"PYTHONPATH": "/kept"}


def test_a_model_in_no_folder_cannot_be_named():
    with pytest.raises(LegError, match=r"names \{model\}") as caught:
        filled(["{model}/unet"], {"outputs": "/o"})
    assert caught.value.kind == "weights"


def test_a_value_with_braces_is_not_filled_again():
    assert filled(["{request}"], {"request": "/{outputs}", "outputs": "/o"}) == ["/{outputs}"]


def test_a_program_that_leaves_another_one_behind_is_not_waited_for(program, monkeypatch, tmp_path):
    monkeypatch.setattr("paritygate.runners.process._GRACE_S", 0.2)
    record, folder = program(
        GOOD
        + """
import subprocess
late = f"import time; time.sleep(30); open({str(outputs / '0000' / '1.png')!r}, 'w')"
Path("pid").write_text(str(subprocess.Popen([sys.executable, "-c", late], start_new_session=True).pid))
"""
    )
    assert record.failure is None, record.message
    assert record.duration_s < 15
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()
    assert not (folder / "outputs/0000/1.png").exists()
