"""The case of the example server must be able to fail: a server with a defect is found out, and the record says how.

The reference leg runs once; each defect runs its own candidate beside a copy of it. The sound server is in the cases.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from paritygate.manifest.case import Case
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import Project, find_project
from paritygate.manifest.registries import load_registries
from paritygate.manifest.suite import items
from paritygate.records.codec import dumps, loads
from paritygate.records.model import RunRecord, Status
from paritygate.session.legs import LegRun, run_one
from paritygate.session.progress import silent
from paritygate.session.run import compare_run, run_leg_apart

PROJECT = find_project(Path(__file__))
FAULTY = Path(__file__).with_name("faulty_server.py")


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> tuple[Case, Project]:
    """The case and a project whose artifacts hold its reference leg."""
    registries = load_registries(PROJECT)
    (case,) = (case for case in load_cases(PROJECT, registries).cases if case.id == "tiny-digits-t2i-server")
    project = msgspec.structs.replace(PROJECT, artifacts=str(tmp_path_factory.mktemp("artifacts")))
    leg = run_leg_apart(case, project, registries, "reference", run_id="reference")
    assert leg.failure is None, leg.message
    return case, project


@pytest.fixture
def run(bench) -> Callable[[str], RunRecord]:
    """Runs the case with a defective server."""
    case, project = bench

    def run(defect: str) -> RunRecord:
        runs = Path(project.artifacts) / case.id
        folder = Path(shutil.copytree(runs / "reference", runs / defect))
        # The copy is the reference leg of this run: a leg of another run would make it invalid.
        ran = loads((folder / "reference" / "leg.json").read_bytes(), LegRun)
        own = dumps(msgspec.structs.replace(ran, run_id=defect))
        (folder / "reference" / "leg.json").write_text(own, encoding="utf-8")
        server = ["{python}", str(FAULTY), defect, *case.candidate.spec["server"][3:]]
        leg = msgspec.structs.replace(case.candidate, spec={**case.candidate.spec, "server": server})
        run_one(
            case, leg, items=items(case), run_dir=folder, model_dir=case.root / case.model.path, latents=None,
            setting=ran.setting, watch=silent,
        )  # fmt: skip
        return compare_run(case, project, run_id=defect, in_ci=False)

    return run


def missed(record: RunRecord) -> set[str]:
    return {bound.measurement for bound in record.verdict.bounds if not bound.satisfied}


def different(record: RunRecord) -> set[str]:
    return {entry.name for entry in record.comparison.exact if entry.status != "equal"}


def ignored(record: RunRecord) -> set[str]:
    return {effect.field for effect in record.comparison.effects if not effect.exercised}


def test_a_server_that_ignores_the_seed_starts_from_other_noise_and_shows_no_effect(run) -> None:
    record = run("ignores_seed")
    assert record.verdict.status in (Status.INVALID, Status.FAILED)
    assert different(record) == {"initial_latents"}
    assert ignored(record) == {"seed"}


def test_a_server_that_ignores_a_field_with_the_right_value_built_in_is_found_by_the_probe_alone(run) -> None:
    record = run("ignores_guidance_and_claims_it")
    assert record.verdict.status is Status.INVALID
    assert (missed(record), different(record)) == (set(), set())
    assert ignored(record) == {"guidance_scale"}


def test_a_server_that_tells_other_settings_than_it_used_is_found_by_its_pictures(run) -> None:
    record = run("guides_more")
    assert record.verdict.status is Status.FAILED
    assert (different(record), ignored(record)) == (set(), set())
    assert {"output.psnr_db.min", "output.abs_diff_max.max"} <= missed(record)


def test_pixels_that_are_cut_off_for_rounded_are_found_by_their_mean_and_psnr(run) -> None:
    record = run("floors")
    assert record.verdict.status is Status.FAILED
    assert (different(record), ignored(record)) == (set(), set())
    assert "output.psnr_db.min" in missed(record)
    assert "output.abs_diff_max.max" not in missed(record)
