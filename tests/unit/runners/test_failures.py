"""One line of a log says why a leg broke, and one class decides whether CI retries it."""

import os

import pytest

from paritygate.errors import GoldenError, InfrastructureError, LegError
from paritygate.runners.failures import classify, classify_exit, first_error_line

LOG = """loading
Traceback (most recent call last):
  File "server.py", line 1, in <module>
    raise ValueError("error in a source line")
KeyError: 'text_model'
Server did not start: error
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOG, "KeyError: 'text_model'"),
        ("one\ntwo\n\n", "two"),
        ("", ""),
        ("x\n[worker 3] CUDA error: out of memory\nshutting down", "[worker 3] CUDA error: out of memory"),
        ("\xff\xfe odd bytes\nFatal: gone", "Fatal: gone"),
    ],
)
def test_the_first_line_that_speaks_of_an_error_is_found_and_source_lines_are_not_it(tmp_path, text, line):
    (tmp_path / "log.txt").write_bytes(text.encode("latin-1"))
    assert first_error_line(tmp_path / "log.txt") == line


def test_a_missing_log_has_no_line(tmp_path):
    assert "the log is empty" in classify_exit(3, tmp_path / "gone").message


class Response:
    def __init__(self, status: int, url: str = "") -> None:
        self.status_code = status
        self.url = url


class HTTPStatusError(Exception):
    def __init__(self, status: int, url: str) -> None:
        super().__init__(f"{status} from {url}")
        self.response = Response(status, url)


class HfHubHTTPError(OSError):
    def __init__(self, status: int, url: str = "") -> None:
        super().__init__(f"{status} from the hub")
        self.response = Response(status, url)


class RepositoryNotFoundError(HfHubHTTPError):
    pass


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (HfHubHTTPError(429), "infrastructure"),
        (HfHubHTTPError(502), "infrastructure"),
        (HfHubHTTPError(403), "crash"),
        (RepositoryNotFoundError(404), "weights"),
        (HfHubHTTPError(502, "http://127.0.0.1:8000/api"), "crash"),
        (HTTPStatusError(503, "https://hub.example.org/api"), "infrastructure"),
        (HTTPStatusError(404, "https://hub.example.org/api"), "crash"),
        (HTTPStatusError(500, "http://localhost:8000/v1"), "crash"),
        (HTTPStatusError(500, "http://[::1]:8000/v1"), "crash"),
        (HTTPStatusError(500, "http://0.0.0.0:8000/v1"), "crash"),
        (HTTPStatusError(500, "http://10.1.2.3/v1"), "crash"),
        (HTTPStatusError(500, "http://gpu-node-7/v1"), "crash"),
        (HTTPStatusError(500, "http://server.svc.local/v1"), "crash"),
        (HTTPStatusError(500, "http://[broken/v1"), "crash"),
        (HTTPStatusError(500, ""), "crash"),
        (InfrastructureError("lost"), "infrastructure"),
        (LegError("x", kind="weights"), "weights"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory"),
        (OSError("Error no file named diffusion_pytorch_model.safetensors found"), "weights"),
        (RuntimeError("size mismatch for conv_in.weight"), "weights"),
        (TimeoutError("the server did not answer"), "crash"),
        (GoldenError("altered"), "golden"),
        (LegError("x", kind="backend"), "backend"),
        (ModuleNotFoundError("No module named 'flash_attn'", name="flash_attn"), "backend"),
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "crash"),
        (RuntimeError("Flash Attention backend '_flash_3' is not usable because of missing package"), "backend"),
        (RuntimeError("attention backend flash is not available, falling back to native"), "backend"),
        (ValueError("`attn_mask` is not yet understood"), "crash"),
    ],
)
def test_only_what_the_code_under_test_cannot_have_caused_is_infrastructure(error, kind):
    assert classify(error).kind == kind


def test_a_long_message_is_cut_to_one_line():
    failure = classify(ValueError("a\nb " + "x" * 5000))
    assert "\n" not in failure.message
    assert len(failure.message) == 400


def test_a_secret_of_several_lines_is_blanked_before_the_message_becomes_one_line(monkeypatch):
    monkeypatch.setenv("PRIVATE_KEY", "BEGIN\nabcdef\nEND")
    assert classify(ValueError("bad key BEGIN\nabcdef\nEND")).message == "ValueError: bad key ***"


def test_an_error_at_the_end_of_a_long_log_is_found(tmp_path):
    (tmp_path / "log.txt").write_text("warning: error in a cache\n" + "x" * (1 << 20) + "\nCUDA error: busy\n")
    assert first_error_line(tmp_path / "log.txt") == "CUDA error: busy"


def test_a_log_that_a_leg_made_a_link_or_a_pipe_is_not_read(tmp_path):
    (tmp_path / "log.txt").symlink_to("/dev/zero")
    assert first_error_line(tmp_path / "log.txt") == ""
    os.mkfifo(tmp_path / "pipe.txt")
    assert first_error_line(tmp_path / "pipe.txt") == ""


def test_the_message_keeps_the_hint_of_an_error_that_has_one():
    failure = classify(LegError("a.py defines no function 'run'", kind="crash", hint="define run(job, writer)"))
    assert failure.message == "LegError: a.py defines no function 'run'; fix: define run(job, writer)"


@pytest.mark.parametrize(
    ("code", "line", "kind"),
    [(-9, "loading", "killed"), (-9, "worker: CUDA error: out of memory", "memory"), (137, "Killed", "killed"),
     (1, "ERROR: attention backend flash3 is not installed", "backend"), (1, "error: port is used", "crash"),
     (1, "Error: no file named model.safetensors", "weights")],
)  # fmt: skip
def test_a_process_that_does_not_say_why_it_ended_is_told_by_its_log(tmp_path, code, line, kind):
    (tmp_path / "leg").mkdir()
    log = tmp_path / "leg" / "log.txt"
    log.write_text(f"{line}\n")
    assert classify_exit(code, log).kind == kind
