"""Legs of every runner as real processes, watched by the harness that users run."""

import contextlib
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
import pytest

from paritygate.manifest.case import Case, Ci, Coverage, Item, Leg, Measure, Model, Output
from paritygate.records.model import LegRecord
from paritygate.runners.leg import run_leg

ITEMS = (Item(id="0000", request={"prompt": "a", "seed": 1}), Item(id="0001", request={"prompt": "b", "seed": 2}))
#: Inherited by every process of a leg that does not empty its environment.
MARK = "PARITYGATE_TEST_MARK"


class Ran(NamedTuple):
    """A leg that has run: its record, its folder, and the most memory that its processes held at a time."""

    record: LegRecord
    folder: Path
    seconds: float
    peak_bytes: int


def case_of(root: Path, leg: Leg) -> Case:
    other = Leg(name="reference", runner="python", adapter="a.py", python=None, timeout_s=9, requires={}, assets=(),
                feature=None, spec={})  # fmt: skip
    return Case(
        id="leg", base_id="leg", variant=None, root=root, manifest="leg.case.yaml", title="A leg",
        claim="native-parity", task="t2i", model=Model(id="none", revision="0" * 40, weights="trained"),
        initial_latents="seeded", inputs=(), output=Output(kind="images", width=4, height=4), reference=other,
        candidate=leg, low_precision=None, differences=(), measure=Measure(exact=(), parts=(), output=()),
        checklist_require=(), coverage=Coverage(), document={},
        ci=Ci(lane="nightly", group=None, sku=("CPU",), cards=0, timeout_minutes=5, sources=(), setup=()),
    )  # fmt: skip


@pytest.fixture
def run_one(tmp_path, monkeypatch) -> Callable[..., Ran]:
    """Runs a leg below a folder, the test's own by default; nothing of it may be left when it returns."""
    monkeypatch.setenv(MARK, uuid.uuid4().hex)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))

    def run(
        runner: str,
        *,
        root: Path = tmp_path,
        adapter: str | None = None,
        timeout_s: float = 60,
        golden_folder: Path | None = None,
        model_dir: Path | None = None,
        items: tuple[Item, ...] = ITEMS,
        side: int = 4,
        **spec,
    ):
        leg = Leg(name="candidate", runner=runner, adapter=adapter, python=None, timeout_s=timeout_s, requires={},
                  assets=(), feature=None, spec=spec)  # fmt: skip
        (root / "run").mkdir(exist_ok=True)
        peak = 0

        def watch(_done: int) -> None:
            nonlocal peak
            peak = max(peak, held_bytes())

        began = time.monotonic()
        record = run_leg(
            msgspec.structs.replace(case_of(root, leg), output=Output(kind="images", width=side, height=side)), leg,
            items=items, run_dir=root / "run", model_dir=model_dir, latents=None, golden=golden_folder, progress=watch,
        )  # fmt: skip
        return Ran(record, root / "run" / "candidate", time.monotonic() - began, peak)

    return run


def held_bytes() -> int:
    """Memory of every process below this one."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def marked() -> list[psutil.Process]:
    """Living processes of the legs of this test, whoever their parent is now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            mine = process.environ().get(MARK) == os.environ[MARK]
            if mine and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def is_gone(pid: int) -> bool:
    """Whether no process runs under an id."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


class Left:
    """What legs may not leave, handed to tests as one fixture (test folders are no packages)."""

    is_gone = staticmethod(is_gone)
    marked = staticmethod(marked)


@pytest.fixture
def left() -> type[Left]:
    return Left


@pytest.fixture
def make_case() -> Callable[..., tuple[Case, tuple[Item, ...]]]:
    """Builds the case of these legs, with changes, and its suite."""

    def build(root: Path, **changes):
        leg = Leg(name="candidate", runner="python", adapter="a.py", python=None, timeout_s=9, requires={}, assets=(),
                  feature=None, spec={})  # fmt: skip
        return msgspec.structs.replace(case_of(root, leg), **changes), ITEMS

    return build
