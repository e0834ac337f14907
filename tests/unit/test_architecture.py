"""The import table of the design and the sizes of rooms, held against the code itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tools" / "paritygate"

#: Top line first. A room may import rooms on lower lines, never one on its own line or above.
TABLE = (
    ("cli", "pytest_plugin"),
    ("session",),
    ("ci", "report", "skills", "runners", "stages", "faults", "calibration", "gates", "goldens"),
    ("compare",),
    ("manifest",),
    ("media", "records"),
    ("metrics",),
)
OPEN_TO_ALL = {"errors"}
LEVEL = {room: level for level, rooms in enumerate(reversed(TABLE)) for room in rooms}
#: Rooms and modules that a bare CI image must be able to load.
LIGHT = (
    "paritygate.manifest",
    "paritygate.ci",
    "paritygate.metrics.specs",
    "paritygate.cli",
    "paritygate.pytest_plugin",
)
HEAVY = ("torch", "diffusers", "transformers", "skimage", "matplotlib", "numpy", "PIL", "onnxruntime")

#: The last lines before the user: they keep the traceback in a file and exit with the code for a bug, the second one
#: for one of several cases.
OUTERMOST_HANDLERS = ["cli/main.py", "cli/run.py"]


def modules() -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if "__pycache__" not in path.parts)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            if node.module == "paritygate":
                yield from (f"paritygate.{alias.name}" for alias in node.names)
            else:
                yield node.module


def forbidden(room: str, target: str) -> bool:
    """Whether ``room`` may not import the dotted module ``target``."""
    parts = target.split(".")
    if parts[0] != "paritygate" or len(parts) == 1 or parts[1] in OPEN_TO_ALL or parts[1] == room:
        return False
    return parts[1] in LEVEL and (room not in LEVEL or LEVEL[parts[1]] >= LEVEL[room])


@pytest.mark.parametrize(
    ("room", "target"),
    [
        ("cli", "paritygate.pytest_plugin"),
        ("errors", "paritygate.manifest.case"),
        ("metrics", "paritygate.media.images"),
        ("report", "paritygate.session.run"),
        ("runners", "paritygate.gates.judge"),
    ],
)
def test_the_table_refuses_imports_upwards_and_sideways(room: str, target: str) -> None:
    assert forbidden(room, target)


def test_every_import_goes_down_the_table() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {target}"
        for path in modules()
        for target in imported_modules(ast.parse(path.read_text(encoding="utf-8")))
        if forbidden(room_of(path), target)
    ]
    assert wrong == []


def test_every_room_stands_in_the_table() -> None:
    rooms = {room_of(path) for path in modules()} - {"__init__", "__main__"} - OPEN_TO_ALL
    assert rooms <= set(LEVEL)


def test_light_rooms_load_without_heavy_packages() -> None:
    names = [
        ".".join(("paritygate", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in modules()
    ]
    light = [name for name in names if name.startswith(LIGHT) and not name.endswith("__main__")]
    assert len(light) > len(LIGHT)
    script = (
        "import sys, importlib\n"
        f"for name in {light!r}: importlib.import_module(name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_modules_and_functions_stay_small() -> None:
    large = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 300:
            large.append(f"{path.relative_to(PACKAGE)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > 50:
                    large.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}: {length} lines")
    assert large == []


def test_no_handler_swallows_every_exception() -> None:
    """A bare or catch-all handler must end in ``raise``: anything else turns a bug into a silent pass."""
    wrong = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ExceptHandler):
                continue
            catch_all = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            if catch_all and not isinstance(node.body[-1], ast.Raise):
                wrong.append(path.relative_to(PACKAGE).as_posix())
    assert wrong == OUTERMOST_HANDLERS
