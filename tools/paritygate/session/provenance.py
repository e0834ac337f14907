"""Where and from what a run was made: by allow-list, so that no host name and no secret gets into a record."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paritygate import __version__

#: Environment variables that identify a CI run. Sorted; nothing else of the environment is recorded.
CI_VARIABLES = (
    "BUILDKITE_BUILD_NUMBER",
    "BUILDKITE_COMMIT",
    "BUILDKITE_JOB_ID",
    "BUILDKITE_PIPELINE_SLUG",
    "BUILDKITE_RETRY_COUNT",
    "BUILDKITE_STEP_KEY",
    "GITHUB_JOB",
    "GITHUB_RUN_ATTEMPT",
    "GITHUB_RUN_ID",
    "GITHUB_SHA",
)
_GIT_TIMEOUT_S = 20


def environment(root: Path, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The harness's own environment: versions, platform, commit, CI run."""
    return {
        "ci": {name: environ[name] for name in CI_VARIABLES if name in environ},
        "git": git_state(root),
        "paritygate": __version__,
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def attempt(environ: Mapping[str, str] = os.environ) -> int:
    """Which try of the CI step this is, from 1."""
    count = environ.get("BUILDKITE_RETRY_COUNT", "")
    return int(count) + 1 if count.isdigit() else 1


def in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in CI: the variable ``CI`` says anything but no."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false", "no", "off")


def git_state(root: Path) -> dict[str, str | bool | None]:
    """The commit of the project and whether tracked files differ from it; None where git cannot say."""
    commit = git(root, "rev-parse", "HEAD")
    changes = git(root, "status", "--porcelain", "--untracked-files=no") if commit else None
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def git(root: Path, *arguments: str) -> str | None:
    """What git says in a folder; None where it cannot."""
    tool = shutil.which("git")
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool, "-C", str(root), *arguments], capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
