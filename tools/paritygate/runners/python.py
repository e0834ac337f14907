"""The ``python`` runner: an adapter file beside the case, or ``entry: module:function``, does the work."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from paritygate.errors import LegError
from paritygate.runners.job import Job, Writer


def run(job: Job, writer: Writer) -> None:
    """Call the adapter's ``run(job, writer)``.

    Raises:
        LegError: when there is no such file, module or function, and for one that did not run when it was called.
    """
    answer: Any = function_of(job)(job, writer)
    if inspect.isawaitable(answer) or inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        message = f"{job.adapter or job.spec['entry']} gave a {type(answer).__name__}, so nothing of it ran"
        raise LegError(message, kind="crash", hint="define a plain run(job, writer); asyncio.run(...) may be inside")


def function_of(job: Job) -> Callable[[Job, Writer], None]:
    """The function that a ``python`` leg names.

    Raises:
        LegError: when it cannot be found.
    """
    if job.adapter is not None:
        module, name = load_file(Path(job.adapter)), "run"
        place = job.adapter
    else:
        place = str(job.spec.get("entry"))
        module_name, _, name = place.partition(":")
        module = importlib.import_module(module_name)
    function: Any = getattr(module, name, None)
    if not callable(function):
        raise LegError(f"{place} defines no function {name!r}", kind="crash", hint="define run(job, writer)")
    return function  # type: ignore[no-any-return]


def load_file(path: Path) -> ModuleType:
    """Import a Python file by its path, without leaving byte code beside it.

    The file's folder does not join ``sys.path``: the contract of a case digests this one file, so code that it
    would import from beside itself would change results without changing the contract.

    Raises:
        LegError: when there is no such file, or its name is not that of a Python file.
    """
    if not path.is_file():
        raise LegError(f"the adapter {path} does not exist", kind="crash")
    spec = importlib.util.spec_from_file_location(f"paritygate_adapter_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise LegError(f"the adapter {path.name} is no Python file", kind="crash", hint="name it with .py at its end")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module
