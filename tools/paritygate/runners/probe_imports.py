"""Whether the classes that a pipeline needs can really be imported, found in the interpreter that will need them.

The harness passes this file's text to ``python -c`` with one JSON object as argument: ``classes`` (rows of where it is
named, library and class), ``modules`` (rows of distribution and module), ``attention_backend`` (or empty) and
``device`` (``cpu``, ``cuda``). It prints a JSON list of ``[code, message, fix]``. Classes are imported and looked at,
never called; no weights are read.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Any

#: Backend as Diffusers and Transformers name it -> module, and what to install; others are named like both.
BACKENDS = {
    "bs4": ("bs4", "beautifulsoup4"),
    "cv2": ("cv2", "opencv-python"),
    "note_seq": ("note_seq", "note-seq"),
    "opencv": ("cv2", "opencv-python"),
    "speech": ("torchaudio", "torchaudio"),
    "vision": ("PIL", "pillow"),
}
#: What to do about an attention backend that cannot run.
OTHER = "install what it names in the leg's Python, or declare another attention_backend"
#: What libraries raise while they load.
IMPORT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def class_problem(place: str, library: str, name: str) -> list[str] | None:
    """Why a class cannot be had: no such library or name, an import that fails, or a dummy in its place."""
    diffusers = importlib.import_module("diffusers")
    try:
        if library != "diffusers" and library in vars_of("diffusers.pipelines"):
            module = importlib.import_module(f"diffusers.pipelines.{library}")
        else:
            module = importlib.import_module(library)
        found = getattr(module, remapped(name) if library == "transformers" else name)
    except IMPORT_ERRORS as error:
        version = getattr(sys.modules.get(library, diffusers), "__version__", "")
        text = f"{place}: {name} cannot be imported from {library} {version}: {last_line(error)}"
        return ["import", text, f"install the version of {library} that has it, or what the message names"]
    if "DummyObject" in (type(found).__name__, *(base.__name__ for base in type(found).__mro__)):
        needed = [str(backend) for backend in found._backends]
        lacking = [backend for backend in needed if not is_there(backend)] or needed
        text = f"{place}: {name} of {library} is a dummy that stands for a missing dependency: {', '.join(lacking)}"
        packages = [BACKENDS.get(backend, ("", backend))[1] for backend in lacking]
        return ["dummy", text, f"pip install {' '.join(packages)}"]
    return None


def module_problem(distribution: str, module: str) -> list[str] | None:
    """Why a required distribution that is installed cannot be imported."""
    try:
        importlib.import_module(module)
    except IMPORT_ERRORS as error:
        text = f"requires: {distribution} is installed, and {module} cannot be imported: {last_line(error)}"
        return ["import", text, f"reinstall {distribution} in the leg's Python, or install what the message names"]
    return None


def is_there(backend: str) -> bool:
    """Whether the module of a backend is installed."""
    return importlib.util.find_spec(BACKENDS.get(backend, (backend, ""))[0]) is not None


def vars_of(name: str) -> list[str]:
    """The names that a lazy module offers."""
    return dir(importlib.import_module(name))


def remapped(name: str) -> str:
    """The class that Diffusers would load under a name of an older Transformers."""
    utils = importlib.import_module("diffusers.utils")
    remap = getattr(utils, "_maybe_remap_transformers_class", None)
    return (remap(name) if remap else None) or name


def attention_problem(backend: str) -> list[str] | None:
    """Why the declared attention backend cannot be the one that runs."""
    try:
        dispatch = importlib.import_module("diffusers.models.attention_dispatch")
    except ImportError:
        return None  # Diffusers before 0.35 has no backends
    try:
        known = dispatch.AttentionBackendName(backend.lower())
    except ValueError:
        if backend == "eager" or "Processor" in backend:
            return None  # what the attention processors of older models are called
        names = ", ".join(entry.value for entry in dispatch.AttentionBackendName)
        return ["attention", f"attention_backend: {backend} is none of Diffusers' backends", f"write one of: {names}"]
    check = getattr(dispatch, "_check_attention_backend_requirements", None)
    try:
        if check is not None:
            check(known)
    except (ImportError, RuntimeError) as error:
        return ["attention", f"attention_backend: {backend} cannot run here: {last_line(error)}", OTHER]
    return None


def device_problem(device: str) -> list[str] | None:
    """Why torch cannot use the device on which the case runs."""
    torch = importlib.import_module("torch")
    if device == "cuda" and not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip or "neither CUDA nor ROCm"
        text = f"torch {torch.__version__} sees no card (it is built for {built})"
        return ["device", text, "install the torch build that fits the driver into the leg's Python"]
    return None


def last_line(error: BaseException) -> str:
    """The last line that an exception says, cut."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1][:300]


def main(request: dict[str, Any]) -> list[list[str]]:
    """Everything that cannot be had."""
    found = [module_problem(*row) for row in request["modules"]]
    found += [class_problem(*row) for row in request["classes"]]
    backend, device = request["attention_backend"], request["device"]
    if request["classes"] and not any(found):
        found += [attention_problem(backend)] if backend else []
        found.append(device_problem(device))
    return [problem for problem in found if problem]


if __name__ == "__main__":
    # Libraries print while they load; the answer must stand alone.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(main(json.loads(sys.argv[1]))), file=answer)
