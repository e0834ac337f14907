"""What one leg lacks in its own interpreter, and what it starts or talks to."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from paritygate import __version__
from paritygate.runners import probe
from paritygate.runners.python import load_file

sound = load_file(Path(__file__).with_name("sound_case.py"))


@pytest.fixture
def case(tmp_path):
    return sound.build(tmp_path)


@pytest.fixture
def quick(monkeypatch):
    sound.ask_once(monkeypatch)


def lacking(case, *, environ=None, **changes):
    """The problems of the candidate alone."""
    case = sound.with_candidate(case, **changes)
    report = sound.check(case, legs=(case.candidate,), environ=environ or {"PATH": "/bin:/usr/bin"})
    assert all(problem.fix and problem.leg == "candidate" for problem in report.problems)
    return [(problem.code, problem.message) for problem in report.problems]


def installed(site: Path, name: str, version: str, origin: dict | None = None) -> None:
    """What pip leaves behind."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if origin:
        (folder / "direct_url.json").write_text(json.dumps(origin))


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_distribution_from_git_is_held_against_its_commit(case, tmp_path):
    commit, site = "75e0b4be04f60ec59a75f475837eced720f823b6", tmp_path / "site"
    origin = {"url": "https://example.org/engine", "vcs_info": {"vcs": "git", "commit_id": commit}}
    installed(site, "engine", "1.2", origin)
    installed(site, "wheelonly", "3")
    environ = {"PATH": "/bin:/usr/bin", "PYTHONPATH": str(site)}
    assert lacking(case, environ=environ, requires={"engine": f"@{commit}"}) == []
    ((code, message),) = lacking(case, environ=environ, requires={"engine": f"@{'0' * 40}"})
    assert (code, message) == (
        "version", f"engine is 1.2 @{commit} (in {site}), the leg requires @{'0' * 40}"
    )  # fmt: skip
    ((_, message),) = lacking(case, environ=environ, requires={"wheelonly": f"@{commit}"})
    assert "wheelonly is of no known commit" in message
    report = sound.check(sound.with_candidate(case, requires={"engine": ">=1"}), environ=environ)
    assert report.interpreters["candidate"]["engine"] == f"1.2 @{commit}"


def test_a_checkout_with_changed_files_is_not_its_commit(case, tmp_path):
    sources, site = tmp_path / "sources", tmp_path / "site"
    sources.mkdir()
    (sources / "engine.py").write_text("A = 1\n")
    git(sources, "init", "-q")
    git(sources, "add", ".")
    git(sources, "commit", "-qm", "First")
    commit = git(sources, "rev-parse", "HEAD")
    installed(site, "engine", "1.2", {"url": sources.as_uri(), "dir_info": {"editable": True}})
    environ = {"PATH": "/bin:/usr/bin", "PYTHONPATH": str(site)}
    assert lacking(case, environ=environ, requires={"engine": f"@{commit}"}) == []
    (sources / "engine.py").write_text("A = 2\n")
    ((code, message),) = lacking(case, environ=environ, requires={"engine": f"@{commit}"})
    assert code == "version"
    assert f"engine is 1.2 @{commit} and changed (in {sources})" in message


def test_remains_of_a_distribution_do_not_count(case, tmp_path):
    (tmp_path / "site" / "engine-1.dist-info").mkdir(parents=True)
    environ = {"PATH": "/bin:/usr/bin", "PYTHONPATH": str(tmp_path / "site")}
    assert [code for code, _ in lacking(case, environ=environ, requires={"engine": ">=1"})] == ["distribution"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("no_such_module_here:run", "there is no module no_such_module_here"),
        ("json.no_such_part:run", "there is no module json.no_such_part"),
        ("json.decoder.deeper:run", "there is no module json.decoder.deeper"),
        ("json.decoder:no_such_function", "defines no function 'no_such_function'"),
    ],
)
def test_an_entry_that_cannot_be_called_is_named_without_importing_it(case, entry, words):
    ((code, message),) = lacking(case, spec={"entry": entry})
    assert code == "entry"
    assert words in message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def run(job, writer:\n", "is no Python"),
        ("def ran(job, writer): ...\n", "defines no function 'run'"),
        ("return 1\n", "is no Python"),
        ("\0", "is no Python"),
    ],
)
def test_an_adapter_must_compile_in_the_leg_and_define_its_function(case, source, words):
    (case.root / "adapter.py").write_text(source)
    ((code, message),) = lacking(case, adapter="adapter.py", spec={})
    assert code == "adapter"
    assert words in message


@pytest.mark.parametrize(
    "source", ["def run(job, writer): ...", "from json import dumps as run", "from json import *", "run = print"]
)
def test_an_adapter_may_define_its_function_in_any_way(case, source):
    (case.root / "adapter.py").write_text(source)
    assert lacking(case, adapter="adapter.py", spec={}) == []


def test_what_a_key_needs_besides_is_looked_for_in_the_legs_interpreter(case, monkeypatch):
    monkeypatch.setattr("paritygate.runners.preflight.import_problems", lambda *_, **__: [])
    reference = sound.leg("reference", runner="diffusers", spec={"pipeline": "P", "encode": {"codec": "x"}})
    report = sound.check(msgspec.structs.replace(case, reference=reference))
    assert "av" in report.interpreters["reference"]


COMMANDS = [
    ({"command": ["no-such-program"]}, "command", "'no-such-program' is not on PATH"),
    ({"command": ["/no/such/program"]}, "command", "/no/such/program is not there"),
    ({"command": ["./tool"]}, "command", "is relative, and the leg has no cwd"),
    ({"command": ["./tool"], "cwd": "model"}, "command", "tool is not there"),
    ({"command": ["./unet/config.json"], "cwd": "model"}, "command", "config.json is not executable"),
    ({"command": ["{python}", "run.py"]}, "command", "the script run.py is not in the folder of the run"),
    ({"command": ["{python}", "run.py"], "cwd": "model"}, "command", "the script run.py is not in model"),
    ({"command": ["{python}"], "cwd": "gone"}, "cwd", "cwd: gone is no folder"),
    ({"command": ["{python}"], "pythonpath": ["model", "gone"]}, "pythonpath", "pythonpath: gone is no folder"),
]


@pytest.mark.parametrize(("spec", "code", "words"), COMMANDS)
def test_a_command_that_cannot_start_is_named(case, quick, spec, code, words):
    ((found, message),) = lacking(case, runner="command", spec=spec)
    assert found == code
    assert words in message


def test_a_command_is_looked_for_where_it_will_run(case, quick, tmp_path):
    program = tmp_path / "own" / "tool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    own = {"PATH": str(program.parent)}
    assert lacking(case, runner="command", spec={"command": ["tool"], "env": own}) == []
    assert lacking(case, runner="command", spec={"command": ["./tool"], "cwd": "own"}) == []
    assert lacking(case, runner="command", spec={"command": ["{python}", "-m", "json.tool"]}) == []
    (tmp_path / "own" / "run.py").write_text("")
    for argument, more in (("run.py", {"cwd": "own"}), (str(tmp_path / "own" / "run.py"), {}), ("{request}.py", {})):
        assert lacking(case, runner="command", spec={"command": ["{python}", argument], **more}) == []


def test_what_a_command_requires_is_looked_for_with_its_own_variables(case, tmp_path):
    installed(tmp_path / "site", "engine", "2")
    spec = {"command": ["{python}"], "pythonpath": ["site"]}
    assert lacking(case, runner="command", spec=spec, requires={"engine": "==2"}) == []
    assert [code for code, _ in lacking(case, runner="command", spec=spec, requires={"engine": "==3"})] == ["version"]


def served(**spec) -> dict:
    return {"endpoint": "images/generations", **spec}


def test_a_running_server_must_answer_and_its_key_be_set(case, quick):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        ((code, message),) = lacking(case, runner="openai", spec=served(url=url))
        assert (code, message) == ("server", f"infrastructure: nothing answers at {url}: Connection refused")
        server.listen()
        assert lacking(case, runner="openai", spec=served(url=url)) == []
        spec = served(url=url, api_key_env="ENGINE_KEY")
        assert lacking(case, runner="openai", spec=spec) == [
            ("variable", "api_key_env: the variable ENGINE_KEY is not set")
        ]
        environ = {"PATH": "/bin:/usr/bin", "ENGINE_KEY": "x"}
        assert lacking(case, runner="openai", spec=spec, environ=environ) == []


def test_a_port_that_another_program_holds_is_named_with_its_holder(case, quick):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        taken = [
            served(server=["{python}", "--port", str(port)]),
            served(server=["{python}", f"--port={port}"]),
            served(server=["{python}"], url=f"http://localhost:{port}"),
        ]
        for spec in taken:
            ((code, message),) = lacking(case, runner="openai", spec=spec)
            assert code == "port"
            assert f"cannot have port {port}: it is held by" in message
            assert f"(pid {os.getpid()})" in message
    assert lacking(case, runner="openai", spec=taken[0]) == []
    assert lacking(case, runner="openai", spec=served(server=["{python}", "--port", "{port}"])) == []


def test_an_interpreter_is_asked_once_for_two_legs_with_one_question(case, monkeypatch):
    asked = []
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **more: asked.append(words) or start(*words, **more))
    assert sound.found(case) == []
    assert len(asked) == 1


def test_the_probe_needs_nothing_but_an_old_python():
    compile(Path(probe.__file__).read_text(), "probe.py", "exec", dont_inherit=True)
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", Path(probe.__file__).read_text(),
         '{"distributions": [], "entry": "", "adapter": "", "function": ""}'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["python"] == sys.version.split()[0]


def test_a_leg_with_another_version_of_this_package_cannot_run_its_worker(case, tmp_path):
    installed(tmp_path / "site", "paritygate", "0.0.1")
    ((code, message),) = lacking(case, environ={"PATH": "/bin:/usr/bin", "PYTHONPATH": str(tmp_path / "site")})
    assert code == "version"
    assert message == f"paritygate is 0.0.1 in the leg's Python, the run is of {__version__}"


#: An interpreter that is a script -> what is said of it.
BAD_PYTHONS = {
    "sleep 600 & exec sleep 600": "no answer after 0.3 s",
    "sleep 600 & exit 0": "no answer: ",
    "yes": "printed more than 1 MiB",
    "echo lost >&2; exit 3": "lost",
    "exit 3": "exit code 3",
    "kill -SEGV $$": "ended by SIGSEGV",
    "echo []": "no answer: ",
}


@pytest.mark.parametrize(("script", "words"), BAD_PYTHONS.items())
def test_an_interpreter_that_misbehaves_is_ended_with_all_that_it_started(case, tmp_path, monkeypatch, script, words):
    monkeypatch.setattr("paritygate.runners.preflight_legs._PROBE_TIMEOUT_S", 0.3)
    monkeypatch.setattr("paritygate.runners.asking._MAX_BYTES", 1 << 20)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexport MARK={tmp_path}\n{script}\n")
    python.chmod(0o755)
    ((code, message),) = lacking(case, python=str(python))
    assert code == "interpreter"
    assert words in message
    left = [path for path in Path("/proc").glob("[0-9]*/environ") if marked(path, str(tmp_path))]
    assert left == []


def marked(environ: Path, mark: str) -> bool:
    try:
        return f"MARK={mark}".encode() in environ.read_bytes()
    except OSError:
        return False


def test_an_interpreter_may_print_before_it_answers(case, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('welcome')\n")
    assert lacking(case, environ={"PATH": "/bin:/usr/bin", "PYTHONPATH": str(tmp_path / "site")}) == []


def module(site: Path, name: str, source: str, *, record: str = "") -> None:
    (site / f"{name}.py").write_text(source)
    if record:
        (next(site.glob("*.dist-info")) / "RECORD").write_text(record)


def test_a_required_distribution_that_is_installed_and_broken_is_named(case, tmp_path):
    site = tmp_path / "site"
    installed(site, "some_kernels", "1")
    environ = {"PATH": "/bin:/usr/bin", "PYTHONPATH": str(site)}
    module(site, "kernels_of_some", "raise OSError('libcudart.so.12: cannot open')", record="kernels_of_some.py,,\n")
    for leg in ({}, {"runner": "command", "spec": {"command": ["{python}"]}}):
        ((code, message),) = lacking(case, environ=environ, requires={"some-kernels": ">=1"}, **leg)
        assert code == "import"
        assert "kernels_of_some cannot be imported: libcudart.so.12: cannot open" in message
    module(site, "kernels_of_some", "")
    assert lacking(case, environ=environ, requires={"some-kernels": ">=1"}) == []
