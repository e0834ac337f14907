"""What the disk holds beside the manifests, looked up once a load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from paritygate.records.canonical import sha256_file


class Files:
    """Answers about project-relative paths. Answers are kept, so use one instance for one load."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self._kinds: dict[str, Literal["file", "folder", "nothing"]] = {}
        self._inside: dict[str, bool] = {}
        self._digests: dict[str, str] = {}

    def kind(self, path: str) -> Literal["file", "folder", "nothing"]:
        """What is at a path; a link counts as what it leads to, and a dangling one as nothing."""
        if path not in self._kinds:
            full = self._prefix + path
            self._kinds[path] = "file" if os.path.isfile(full) else "folder" if os.path.isdir(full) else "nothing"  # noqa: PTH112, PTH113 - thousands of look-ups
        return self._kinds[path]

    def is_inside(self, path: str) -> bool:
        """Whether a path stays in the project, through links too."""
        if path not in self._inside:
            self._inside[path] = not path.startswith("..") and self._real_is_inside(path)
        return self._inside[path]

    def _real_is_inside(self, path: str) -> bool:
        real = os.path.realpath(self._prefix + path)
        return real == str(self.root) or real.startswith(self._prefix)

    def digest(self, path: str) -> str:
        """``sha256:<64 hex>`` of a file.

        Raises:
            OSError: when it cannot be read.
        """
        if path not in self._digests:
            self._digests[path] = sha256_file(self.root / path)
        return self._digests[path]
