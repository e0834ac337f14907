"""The ``python`` runner: an adapter file beside the case, or ``entry: module:function``, does the work."""

from __future__ import annotations

import importlib
import importlib.util
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
        LegError: when there is no such file, module or function.
    """
    function_of(job)(job, writer)


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
        LegError: when there is no such file.
    """
    if not path.is_file():
        raise LegError(f"the adapter {path} does not exist", kind="crash")
    spec = importlib.util.spec_from_file_location(f"paritygate_adapter_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module
