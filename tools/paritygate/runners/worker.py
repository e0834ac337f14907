"""The process of one leg: ``python -m paritygate.runners.worker job.json``.

It reads the job, runs the runner, and leaves ``outputs.json``, ``effective.json`` and, when the leg breaks,
``failure.json``. It imports no framework by itself: what a leg imports is what its runner or adapter imports,
and ``effective.json`` says which of the frameworks that was.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from paritygate.errors import ArtifactError, ExitCode
from paritygate.records.codec import dumps, loads
from paritygate.records.store import write_text_atomic
from paritygate.runners import leash
from paritygate.runners.failures import FAILURE_NAME, Failure, classify
from paritygate.runners.job import Job
from paritygate.runners.table import find_runner

if TYPE_CHECKING:
    from paritygate.runners.writer import LegWriter

#: Modules whose presence shows whether a leg is an independent implementation. Sorted.
WATCHED_MODULES = ("diffusers", "onnxruntime", "torch", "transformers")
#: Distributions whose versions are recorded, where installed. Sorted.
VERSIONED = (
    "accelerate",
    "diffusers",
    "huggingface_hub",
    "numpy",
    "onnxruntime",
    "paritygate",
    "pillow",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "vllm",
    "vllm-omni",
)


def main(argv: list[str]) -> int:
    """Run the job of ``argv[1]``; 0 when the leg finished, 4 when it broke."""
    leash.hold()
    path = Path(argv[1])
    job = loads(path.read_bytes(), Job, source=str(path))
    # Imported late: NumPy and Pillow load here, and an adapter must be able to tell what it brought itself.
    from paritygate.runners.writer import LegWriter  # noqa: PLC0415

    writer = LegWriter(job)
    try:
        importlib.import_module(find_runner(job.runner).module).run(job, writer)
        failure = None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the one place where a leg's error becomes data
        with contextlib.suppress(ValueError, OSError):
            traceback.print_exc()
        failure = classify(error, model_dir=job.model_dir)
    return _finish(writer, failure, in_leg_python=find_runner(job.runner).in_leg_python)


def _finish(writer: LegWriter, failure: Failure | None, *, in_leg_python: bool) -> int:
    own = environment()
    try:
        # Where the leg is another process, these are not its versions: that may tell its own under the same names.
        for name, value in own.items() if in_leg_python else [("worker", own)]:
            writer.environment(name, value)
        if failure is not None:
            write_text_atomic(writer.directory / FAILURE_NAME, dumps(failure))
        writer.finish(complete=failure is None)
        if failure is None:
            return int(ExitCode.OK)
    except ArtifactError as error:
        with contextlib.suppress(ValueError, OSError):
            traceback.print_exception(error)
    return int(ExitCode.LEG)


def environment() -> dict[str, object]:
    """Versions, platform, and which frameworks this process has imported. No host name, no path."""
    return {
        "machine": platform.machine(),
        "modules": {name: name in sys.modules for name in WATCHED_MODULES},
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in VERSIONED if (version := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    code = main(sys.argv)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):  # an adapter may have closed them
            stream.flush()
    # No teardown: frameworks take their time, and a thread that an adapter left behind would hang the leg.
    os._exit(code)
