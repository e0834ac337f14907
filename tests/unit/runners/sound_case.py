"""A sound case on a copy of the trained weights, and what preflight says of it."""

import json
import shutil
from pathlib import Path

import msgspec

from paritygate.manifest.case import Case, Ci, Coverage, Leg, Measure, Model, Output
from paritygate.media.digests import tree_digest
from paritygate.runners import preflight, preflight_legs
from paritygate.runners.asking import ask_python
from paritygate.runners.problems import PreflightReport

TINY_DIGITS = Path(__file__).resolve().parents[3] / "tests" / "e2e" / "accuracy" / "tiny_digits" / "model"


def leg(name="candidate", **changes) -> Leg:
    fields = {"runner": "python", "adapter": None, "python": None, "timeout_s": 60, "requires": {}, "assets": (),
              "feature": None, "spec": {"entry": "json:dumps", "pipeline": "StableDiffusionPipeline"}}  # fmt: skip
    return Leg(**{"name": name, **fields, **changes})


def build(root: Path) -> Case:
    """The case; its two legs are functions of this interpreter."""
    shutil.copytree(TINY_DIGITS, root / "model")
    return Case(
        id="c", base_id="c", variant=None, root=root, manifest="c.case.yaml", title="", claim="native-parity",
        task="t2i", initial_latents="seeded", inputs=(), output=Output(kind="images", width=8, height=8),
        model=Model(id="org/m", revision=tree_digest(root / "model"), weights="trained", path="model"),
        reference=leg("reference"), candidate=leg(), low_precision=None, differences=(),
        measure=Measure(exact=(), parts=(), output=()), checklist_require=(), coverage=Coverage(),
        document={"request": {"prompt": "7"}},
        ci=Ci(lane="nightly", group=None, sku=("CPU",), cards=0, timeout_minutes=5, sources=(), setup=()),
    )  # fmt: skip


def check(case: Case, **changes) -> PreflightReport:
    given = {"legs": case.legs, "artifacts": case.root / "artifacts", "items": 2, "environ": {"PATH": "/nowhere"}}
    return preflight.check(case, **{**given, **changes})


def found(case: Case, **changes) -> list[tuple[str, str]]:
    return [(problem.code, problem.message) for problem in check(case, **changes).problems]


def with_candidate(case: Case, **changes) -> Case:
    return msgspec.structs.replace(case, candidate=leg(**changes))


_ANSWERS = {}


def ask_once(monkeypatch) -> None:
    """Ask an interpreter only once in all tests for what it has installed, for tests of something else."""

    def ask(python, module, question, answer, *, environment, **more):
        key = json.dumps([python, question, sorted(environment.items())])
        if key not in _ANSWERS:
            _ANSWERS[key] = ask_python(python, module, question, answer, environment=environment, **more)
        return _ANSWERS[key]

    monkeypatch.setattr(preflight_legs, "ask_python", ask)
