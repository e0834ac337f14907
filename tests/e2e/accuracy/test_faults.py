"""The cases must be able to fail: known faults on the trained weights, each caught, and the report says where.

The reference leg of a case runs once; each fault runs its own candidate beside a copy of it. A fault leaves the
manifest as it is, because a defect does not announce itself there.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import site
import sysconfig
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from paritygate.gates.files import load_gate
from paritygate.gates.judge import judge
from paritygate.manifest.case import Case, Leg
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import Project, find_project
from paritygate.manifest.registries import load_registries
from paritygate.manifest.suite import items
from paritygate.records.canonical import sha256_file
from paritygate.records.codec import dumps, loads
from paritygate.records.model import RunRecord, Status, Verdict
from paritygate.session.latents import shared_latents
from paritygate.session.legs import LegRun, run_one
from paritygate.session.progress import silent
from paritygate.session.run import compare_run, run_leg_apart

FOLDER = Path(__file__).resolve().parent / "tiny_digits"
PROJECT = find_project(FOLDER)
GRAPHS = PROJECT.root / "build" / "tiny-digits-onnx"


@dataclasses.dataclass(frozen=True)
class Bench:
    """One case whose reference leg has run; candidates are tried beside copies of it."""

    case: Case
    project: Project

    def leg(self, *, fault: str | None = None, **options: str) -> Leg:
        """The candidate leg with other options of its adapter, or with a defective adapter."""
        leg, chosen = self.case.candidate, {**self.case.candidate.spec["options"], **options}
        if fault:
            chosen["fault"] = fault
            leg = msgspec.structs.replace(leg, adapter=str(FOLDER / "faulty_candidate.py"))
        return msgspec.structs.replace(leg, spec={**leg.spec, "options": chosen})

    def run(
        self, name: str, leg: Leg | None = None, *, before: Callable[[Path], None] = lambda _: None
    ) -> tuple[RunRecord, str]:
        """Record and report of a run with ``leg`` in place of the declared candidate."""
        runs, suite = Path(self.project.artifacts) / self.case.id, items(self.case)
        folder = Path(shutil.copytree(runs / "reference", runs / name))
        # The copy is the reference leg of this run: a leg of another run would make it invalid.
        ran = loads((folder / "reference" / "leg.json").read_bytes(), LegRun)
        own = dumps(msgspec.structs.replace(ran, run_id=name))
        (folder / "reference" / "leg.json").write_text(own, encoding="utf-8")
        latents = shared_latents(self.case, suite, folder)
        before(folder)
        run_one(
            self.case,
            leg or self.case.candidate,
            items=suite,
            run_dir=folder,
            model_dir=FOLDER / "model",
            latents=latents,
            setting=ran.setting,
            watch=silent,
        )
        record = compare_run(self.case, self.project, run_id=name, in_ci=False)
        # Without the backslashes that keep Markdown from reading names as emphasis.
        return record, (folder / "report.md").read_text(encoding="utf-8").replace("\\", "")


def build_bench(name: str, artifacts: Path) -> Bench:
    registries = load_registries(PROJECT)
    (case,) = (case for case in load_cases(PROJECT, registries).cases if case.id == name)
    project = msgspec.structs.replace(PROJECT, artifacts=str(artifacts))
    leg = run_leg_apart(case, project, registries, "reference", run_id="reference")
    assert leg.failure is None, leg.message
    return Bench(case, project)


@pytest.fixture(scope="module")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return build_bench("tiny-digits-t2i-onnx", tmp_path_factory.mktemp("parity"))


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return build_bench("tiny-digits-t2i-int8", tmp_path_factory.mktemp("int8"))


@pytest.fixture(scope="module")
def sound(parity: Bench) -> RunRecord:
    """The candidate as it is: without this control, a case that fails everything would look sharp."""
    return parity.run("sound")[0]


def codes(verdict: Verdict) -> list[str]:
    return [finding.code for finding in verdict.reasons]


def missed(record: RunRecord) -> set[str]:
    return {bound.measurement for bound in record.verdict.bounds if not bound.satisfied}


def different(record: RunRecord) -> set[str]:
    return {entry.name for entry in record.comparison.exact if entry.status != "equal"}


def multiply_tensor(folder: Path, *, tensor: str, factor: float) -> None:
    """Change one tensor of a folder's UNet, and list the graph as if the exporter had written it so."""
    model = onnx.load(folder / "unet.onnx")
    (entry,) = (entry for entry in model.graph.initializer if entry.name == tensor)
    entry.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(entry) * np.float32(factor), tensor))
    onnx.save(model, folder / "unet.onnx")
    listed = json.loads((folder / "graphs.json").read_text(encoding="utf-8"))
    listed["graphs"]["unet.onnx"] = sha256_file(folder / "unet.onnx")
    (folder / "graphs.json").write_text(json.dumps(listed), encoding="utf-8")


def test_the_sound_candidate_meets_every_bound(sound: RunRecord) -> None:
    assert sound.verdict.status is Status.PROVISIONAL, sound.verdict.reasons
    assert codes(sound.verdict) == ["proposed-bounds"]
    assert len(sound.verdict.bounds) == 7
    assert not missed(sound)
    assert not different(sound)


def test_the_candidate_process_has_neither_torch_nor_diffusers(sound: RunRecord) -> None:
    modules = {leg.name: leg.effective.environment["modules"] for leg in sound.legs if leg.effective}
    assert {name for name, there in modules["candidate"].items() if there} == {"onnxruntime"}
    # The same question to the reference shows that the answer can be another.
    assert {"diffusers", "torch", "transformers"} <= {name for name, there in modules["reference"].items() if there}


def test_the_graphs_hold_no_path_of_this_machine() -> None:
    paths = {str(PROJECT.root), str(Path.home()), sysconfig.get_path("purelib"), *site.getsitepackages()} - {"/"}
    graphs = sorted(GRAPHS.glob("*.onnx"))
    assert len(graphs) == 4
    for graph in graphs:
        assert not [path for path in paths if path.encode() in graph.read_bytes()], graph.name


@pytest.mark.parametrize(
    "tensor",
    [
        "module.conv_out.weight",
        # The one of all 211 whose scale matters least (measure_room.py): 8-bit pixels hardly show it.
        "module.mid_block.resnets.0.conv1.bias",
    ],
)
def test_one_tensor_of_the_unet_off_by_one_percent_fails(parity: Bench, tmp_path: Path, tensor: str) -> None:
    graphs = tmp_path / "graphs"
    shutil.copytree(GRAPHS, graphs)
    multiply_tensor(graphs, tensor=tensor, factor=1.01)
    record, report = parity.run(f"perturbed-{tensor}", parity.leg(graphs=str(graphs)))
    assert record.verdict.status is Status.FAILED
    # The exact layer is blind to weights: the output layer has to find this.
    assert not different(record)
    assert "output.float.psnr_db.min" in missed(record)
    named = [finding.item for finding in record.verdict.reasons if finding.code == "bound-not-met"]
    assert named[0]
    assert f"worst: {named[0]}/0" in report


def test_guidance_3_1_fails_in_the_exact_layer(parity: Bench) -> None:
    record, report = parity.run("honest-guidance", parity.leg(fault="honest-guidance"))
    assert record.verdict.status is Status.FAILED
    assert different(record) == {"config"}
    assert "config.guidance_scale: reference 3.0, candidate 3.1" in report


def test_guidance_3_1_that_reports_3_0_fails_in_the_output_layer(parity: Bench) -> None:
    record, report = parity.run("lying-guidance", parity.leg(fault="lying-guidance"))
    assert record.verdict.status is Status.FAILED
    assert not different(record)
    assert {"output.psnr_db.min", "output.psnr_db.median", "output.float.psnr_db.min"} <= missed(record)
    assert "output.psnr_db.min is" in report
    assert "pictures/worst-" in report


def test_trailing_spacing_fails_in_the_exact_and_the_output_layer(parity: Bench) -> None:
    record, report = parity.run("trailing", parity.leg(fault="trailing"))
    assert record.verdict.status is Status.FAILED
    assert different(record) == {"timesteps", "sigmas"}
    assert "most at index 0: reference 951, candidate 999" in report
    assert "output.psnr_db.min" in missed(record)


def test_a_prompt_dropped_from_the_candidate_is_invalid_and_named(parity: Bench) -> None:
    record, report = parity.run("dropped-prompt", parity.leg(fault="dropped-prompt"))
    assert record.verdict.status is Status.INVALID
    assert [finding.item for finding in record.comparison.invalid] == ["005"]
    assert record.comparison.invalid[0].message in report
    assert not record.comparison.measurements


def test_prompts_that_moved_up_by_one_fail_and_the_first_is_named(parity: Bench) -> None:
    record, report = parity.run("moved-prompts", parity.leg(fault="moved-prompts"))
    assert record.verdict.status is Status.FAILED
    assert different(record) == {"token_ids"}
    assert "item 000, row 1, position" in report


def test_a_latent_file_swapped_between_the_legs_is_invalid(parity: Bench) -> None:
    def swap(folder: Path) -> None:
        path = folder / "shared" / "latents.npy"
        np.save(path, np.load(path)[::-1])

    record, report = parity.run("swapped", before=swap)
    assert record.verdict.status is Status.INVALID
    assert "latents-changed" in codes(record.verdict)
    assert "shared/latents.npy is not the file that was drawn (before the candidate leg)" in report
    assert "initial_latents" in different(record)


def test_a_candidate_that_starts_from_other_latents_fails_and_names_the_item(parity: Bench) -> None:
    record, report = parity.run("other-latents", parity.leg(fault="other-latents"))
    assert record.verdict.status is Status.FAILED
    assert different(record) == {"initial_latents"}
    assert "initial_latents differ: item 003" in report


def test_a_setting_that_the_candidate_does_not_implement_stops_it_by_name(parity: Bench) -> None:
    record, report = parity.run("unknown-setting", parity.leg(fault="unknown-setting"))
    assert record.verdict.status is Status.ERROR
    assert "guidance_rescale: 0.7 (only 0)" in report


def test_stale_graphs_stop_the_candidate_with_the_command_that_builds_them(parity: Bench, tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    shutil.copytree(GRAPHS, graphs)
    listed = json.loads((graphs / "graphs.json").read_text(encoding="utf-8"))
    (graphs / "graphs.json").write_text(json.dumps({**listed, "model": f"sha256:{'0' * 64}"}), encoding="utf-8")
    record, report = parity.run("stale", parity.leg(graphs=str(graphs)))
    assert (record.verdict.status, record.legs[-1].failure) == (Status.ERROR, "weights")
    assert "run: python tests/e2e/accuracy/tiny_digits/export_onnx.py" in report


@pytest.mark.parametrize(("weights", "status"), [("trained", Status.PASSED), ("random", Status.PROVISIONAL)])
def test_random_weights_are_plumbing_even_with_an_accepted_gate(
    parity: Bench, sound: RunRecord, weights: str, status: Status
) -> None:
    gate = load_gate(parity.case)
    assert gate is not None
    profiles = tuple(dataclasses.replace(profile, status="accepted") for profile in gate.profiles)
    case = msgspec.structs.replace(parity.case, model=msgspec.structs.replace(parity.case.model, weights=weights))
    verdict = judge(
        sound.comparison,
        case,
        legs=sound.legs,
        contract=sound.contract,
        profile=sound.profile,
        gate=dataclasses.replace(gate, profiles=profiles),
        evidence=(),
        weights_verified=True,
        in_ci=True,
        purpose="run",
    )
    assert verdict.status is status
    assert ("plumbing" in codes(verdict)) == (weights == "random")
    assert verdict.scope.startswith("plumbing only: ") == (weights == "random")


def test_the_sound_int8_candidate_meets_every_bound_and_shows_its_kernels(int8: Bench) -> None:
    record, _ = int8.run("sound")
    assert codes(record.verdict) == ["proposed-bounds"], record.verdict.reasons
    assert record.comparison.feature is not None
    assert record.comparison.feature.message == "int8-matmul.quantized_matmul_calls = 50"


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("float-graph", {"unet": "unet.onnx"}, "is 0, and the output is bit-identical to the reference"),
        ("silent-feature", {"fault": "silent-feature"}, "was not reported"),
    ],
)
def test_int8_without_evidence_of_its_kernels_is_invalid(
    int8: Bench, name: str, changes: dict[str, str], said: str
) -> None:
    record, report = int8.run(name, int8.leg(**changes))
    assert record.verdict.status is Status.INVALID
    assert f"the counter int8-matmul.quantized_matmul_calls {said}" in report


def test_int8_with_guidance_3_1_that_reports_3_0_fails(int8: Bench) -> None:
    record, report = int8.run("lying-guidance", int8.leg(fault="lying-guidance"))
    assert record.verdict.status is Status.FAILED
    assert not different(record)
    assert {"output.psnr_db.min", "output.psnr_db.median"} <= missed(record)
    assert "output.psnr_db.median is" in report
