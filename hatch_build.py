"""Compile the optional metric kernel into the package. Without a C compiler the package is built without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = "tools/paritygate/metrics/native"
LIBRARY = "libparitygate.so"
# No -march: the wheel runs on any processor of its kind, and the sources pick wider instructions at run time.
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-Wall", "-Wextra")


class KernelHook(BuildHookInterface):
    """Build ``libparitygate.so`` beside its sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatch's signature
        """Compile, then mark the wheel as one for this platform."""
        folder = Path(self.root) / SOURCES
        library = folder / LIBRARY
        library.unlink(missing_ok=True)
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None or sys.platform == "win32":
            self.app.display_warning("no C compiler: paritygate is built without its kernel and measures with NumPy")
            return
        sources = [str(path) for path in sorted(folder.glob("*.c"))]
        done = subprocess.run(
            [compiler, *FLAGS, "-o", str(library), *sources, "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.app.display_warning(f"{compiler} failed; paritygate measures with NumPy:\n{done.stderr}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{SOURCES}/{LIBRARY}")
