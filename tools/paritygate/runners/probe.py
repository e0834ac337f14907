"""What an interpreter can do, found from inside it. Standard library only: it runs where nothing is installed.

The harness passes this file's text to ``python -c`` with one JSON object as argument: ``distributions`` (names),
``entry`` (``module:function`` or empty), ``adapter`` (a path or empty) and the ``function`` that it must define. It
reads one JSON object from its output.
Nothing is imported to find a version, so a probe takes as long as Python takes to start.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from typing import Any


def installed(name: str) -> dict[str, Any] | None:
    """Version, folder and commit of a distribution, or None; of a source checkout also whether files are changed."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if not found.version:
        return None  # remains of an uninstall
    facts: dict[str, Any] = {
        "version": found.version,
        "folder": str(found.locate_file("")),
        "commit": "",
        "changed": False,
        "module": module_of(name, found.read_text("RECORD") or ""),
    }
    try:
        origin = json.loads(found.read_text("direct_url.json") or "{}")
        facts["commit"] = origin.get("vcs_info", {}).get("commit_id", "")
        url = urllib.parse.urlsplit(origin.get("url", ""))
    except (AttributeError, TypeError, ValueError):
        return facts
    if url.scheme == "file" and origin.get("dir_info", {}).get("editable"):
        facts["folder"] = urllib.request.url2pathname(url.path)
        facts["commit"] = git(facts["folder"], "rev-parse", "HEAD")
        facts["changed"] = bool(git(facts["folder"], "status", "--porcelain", "--untracked-files=no"))
    return facts


def module_of(name: str, record: str) -> str:
    """The module of a distribution: its own name, or the only one that it brought; empty when there are several."""
    own = re.sub(r"[-_.]+", "_", name)
    for guess in (own, own.lower()):
        if importlib.util.find_spec(guess) is not None:
            return guess
    brought = set(re.findall(r"^([A-Za-z]\w*)(?:/__init__)?\.py,", record, re.MULTILINE))
    return brought.pop() if len(brought) == 1 else ""


def git(folder: str, *words: str) -> str:
    """What git says about a checkout; nothing where there is no git or no checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words],  # noqa: S607 - the git of the leg's own PATH
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def own_version() -> str:
    """The version of the package whose worker will run here; ``unknown`` without metadata, empty when it is absent."""
    if importlib.util.find_spec("paritygate") is None:
        return ""
    try:
        return importlib.metadata.version("paritygate")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def entry_problem(entry: str) -> str:
    """Why ``module:function`` cannot be called; the module is read, not run."""
    module, _, function = entry.partition(":")
    top, *rest = module.split(".")
    found = importlib.util.find_spec(top)
    for part in rest:
        if found is None or found.submodule_search_locations is None:
            break
        name = f"{found.name}.{part}"
        found = importlib.machinery.PathFinder.find_spec(name, found.submodule_search_locations)
    if found is None or found.name != module:
        return f"there is no module {module}"
    if not found.origin or not found.origin.endswith(".py"):
        return ""
    return source_problem(found.origin, function)


def source_problem(path: str, function: str) -> str:
    """Why a file of Python does not compile here or cannot give a function of that name."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib takes longer to load than the whole probe
            source = stream.read()
        tree = ast.parse(source, path)
        compile(source, path, "exec", dont_inherit=True)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError) as error:
        return f"{path} is no Python {sys.version.split()[0]}: {error}"
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    if not function or function in names or names & {"*", "__getattr__"}:
        return ""
    return f"{path} defines no function {function!r}"


def packages_digest(folders: list[str]) -> str:
    """A digest over what is installed: names and times of distributions, and of every source file of checkouts."""
    total = hashlib.sha256()
    for folder in sys.path:
        if os.path.isdir(folder):  # noqa: PTH112 - pathlib takes longer to load than the whole probe
            for item in sorted(os.scandir(folder), key=lambda item: item.name):
                if item.name != "__pycache__":
                    changed = item.stat(follow_symlinks=False).st_mtime_ns
                    total.update(f"{folder}/{item.name} {changed}\n".encode("utf-8", "backslashreplace"))
    for folder in folders:
        for place, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if not name.startswith(".") and name != "__pycache__")
            for name in sorted(names):
                if name.endswith((".py", ".so")):
                    state = os.lstat(f"{place}/{name}")
                    line = f"{place}/{name} {state.st_size} {state.st_mtime_ns}\n"
                    total.update(line.encode("utf-8", "backslashreplace"))
    return total.hexdigest()


def main(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    found = {name: installed(name) for name in request["distributions"]}
    editable = [facts["folder"] for facts in found.values() if facts and facts["folder"] not in sys.path]
    return {
        "python": sys.version.split()[0],
        "distributions": found,
        "paritygate": own_version(),
        "entry": entry_problem(request["entry"]) if request["entry"] else "",
        "adapter": source_problem(request["adapter"], request["function"]) if request["adapter"] else "",
        "packages": packages_digest(editable),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
