"""The optional compiled kernel: faster, the same numbers to the digits that the tests state.

The C sources in ``native/`` are compiled when the package is built or installed and a C compiler is at hand. Without
one, NumPy computes everything. The functions are called through ``ctypes``, which releases the interpreter lock.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

#: Set to ``off`` to compute with NumPy although a kernel is there.
SWITCH = "PARITYGATE_KERNEL"
#: Raised with every change of a function's arguments; ``native/version.c`` says the same.
ABI_VERSION = 1

#: Every function that the package calls: a library that was built from other sources may lack one.
FUNCTIONS = ("pg_image_counts", "pg_image_loss", "pg_tensor_row", "pg_threeway")

_LIBRARY = Path(__file__).parent / "native" / "libparitygate.so"


@functools.cache
def _loaded() -> tuple[ctypes.CDLL | None, str]:
    if os.environ.get(SWITCH) == "off":
        return None, f"the compiled kernel is switched off by {SWITCH}"
    if not _LIBRARY.is_file():
        return None, "no C compiler was found when paritygate was installed"
    try:
        library = ctypes.CDLL(str(_LIBRARY))
        version = int(library.pg_abi_version())
        for name in FUNCTIONS:
            getattr(library, name)
    except (AttributeError, OSError) as error:
        return None, f"the compiled kernel cannot be loaded: {error}"
    if version != ABI_VERSION:
        return None, f"the compiled kernel has interface {version}, expected {ABI_VERSION}: install paritygate again"
    return library, ""


def library() -> ctypes.CDLL | None:
    """The compiled functions, or None when NumPy must do."""
    return _loaded()[0]


def engine() -> str:
    """``kernel``, or ``numpy (<why>)``: what computes the metrics in this process."""
    loaded, reason = _loaded()
    return "kernel" if loaded is not None else f"numpy ({reason})"
