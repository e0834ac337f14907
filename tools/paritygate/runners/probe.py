"""What an interpreter can do, found from inside it. Standard library only: it runs where nothing is installed.

The harness passes this file's text to ``python -c`` with the distribution names as arguments, and reads one JSON
object from its output. Nothing is imported to find a version, so a probe takes as long as Python takes to start.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys


def version(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    found = {
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in sys.argv[1:]},
        "paritygate": importlib.util.find_spec("paritygate") is not None,
    }
    print(json.dumps(found))
