"""A leg of a few lines, run as a real process."""

import textwrap
from pathlib import Path

import pytest

from paritygate.manifest.case import Case, Ci, Coverage, Item, Leg, Measure, Model, Output
from paritygate.runners.leg import build_job, run_leg

IMAGE = "import numpy as np\nGREY = np.full((4, 4, 3), 0.5, np.float32)\n"


def make_leg(**changes) -> Leg:
    fields = {
        "name": "candidate",
        "runner": "python",
        "adapter": "adapter.py",
        "python": None,
        "timeout_s": 60,
        "requires": {},
        "assets": (),
        "feature": None,
        "spec": {},
    }
    return Leg(**{**fields, **changes})


def make_case(root: Path, leg: Leg) -> Case:
    return Case(
        id="bad-leg",
        base_id="bad-leg",
        variant=None,
        root=root,
        manifest="bad.case.yaml",
        title="A leg",
        claim="native-parity",
        task="t2i",
        model=Model(id="none", revision="0" * 40, weights="trained"),
        initial_latents="seeded",
        inputs=(),
        output=Output(kind="images", width=4, height=4),
        reference=make_leg(name="reference"),
        candidate=leg,
        low_precision=None,
        differences=(),
        measure=Measure(exact=(), parts=(), output=()),
        checklist_require=(),
        coverage=Coverage(),
        ci=Ci(lane="nightly", group=None, sku=("CPU",), cards=0, timeout_minutes=5, sources=(), setup=()),
        document={},
    )


ITEMS = (Item(id="0000", request={"prompt": "a", "seed": 1}), Item(id="0001", request={"prompt": "b", "seed": 2}))


@pytest.fixture
def bad_leg(tmp_path):
    """Runs an adapter's source as a leg and returns its record and its folder."""

    def run(source: str, *, latents=None, **changes):
        (tmp_path / "adapter.py").write_text(IMAGE + textwrap.dedent(source))
        (tmp_path / "run").mkdir(exist_ok=True)
        leg = make_leg(**changes)
        case = make_case(tmp_path, leg)
        record = run_leg(
            case, leg, items=ITEMS, run_dir=tmp_path / "run", model_dir=tmp_path / "model", latents=latents
        )
        return record, tmp_path / "run" / "candidate"

    return run


@pytest.fixture
def make_a_leg():
    """Builds a leg, with changes."""
    return make_leg


@pytest.fixture
def make_job(tmp_path):
    """Builds the job of a leg, with changes to the leg."""

    def build(**changes):
        leg = make_leg(**changes)
        return build_job(
            make_case(tmp_path, leg), leg, items=ITEMS, directory=tmp_path / "run", model_dir=None, latents=None
        )

    return build
