"""An ``openai`` leg of a stub server that runs in a thread of the test: real sockets, no start of a process."""

import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from paritygate.manifest.case import Item, Output
from paritygate.runners import openai
from paritygate.runners.job import Job
from paritygate.runners.python import load_file
from paritygate.runners.writer import LegWriter

stub = load_file(Path(__file__).with_name("stub_server.py"))

REQUEST = {"prompt": "a cat", "seed": 1, "width": 4, "height": 4}
IMAGES = Output(kind="images", width=4, height=4)


@contextmanager
def serving(*words: str, clips=None):
    with stub.Stub(0, words, clips) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.open.set()
            server.shutdown()
            thread.join()


def make_job(directory: Path, *, request=None, items=None, output=IMAGES, inputs=(), **spec) -> Job:
    """A job of one item, or of ``items``; ``spec`` holds the keys of the leg."""
    directory.mkdir(exist_ok=True, parents=True)
    return Job(
        case="a-case",
        leg="candidate",
        runner="openai",
        root=str(directory.parent),
        folder=str(directory.parent),
        directory=str(directory),
        adapter=None,
        spec={"endpoint": "images/generations", "request_timeout_s": 10, "startup_timeout_s": 10, **spec},
        feature=None,
        model_id="a-model",
        model_revision="0" * 40,
        model_dir=None,
        output=output,
        inputs=inputs,
        items=items or (Item(id="000", request=request or REQUEST),),
        latents=None,
        device="cpu",
        python=sys.executable,
    )


def run(job: Job) -> LegWriter:
    """The writer after the leg has run."""
    writer = LegWriter(job)
    try:
        openai.run(job, writer)
    finally:
        writer.finish(complete=True)
    return writer


def ask(directory: Path, *words: str, clips=None, told: bytes = b"{}", **changes):
    """Run a leg against a server with these faults: the server with what it was asked, and the writer."""
    with serving(*words, clips=clips) as server:
        server.effective = told
        job = make_job(directory / "leg", **{"url": f"http://127.0.0.1:{server.server_address[1]}", **changes})
        return server, run(job)
