"""A comparison that would pass, a gate that it meets, and the run that they belong to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from paritygate.errors import Problem
from paritygate.gates.files import load_gate
from paritygate.gates.judge import judge
from paritygate.records.model import (
    ChecklistRow,
    Comparison,
    DeviceProfile,
    ExactResult,
    LegRecord,
    MeasurementResult,
    OutputItem,
    Real,
    RunRecord,
    Verdict,
)

CONTRACT = "sha256:" + "a" * 64
CPU = DeviceProfile(platform="linux", sku="CPU", cards=0, arch="x86_64", name="Some CPU")

GATE = """\
schema_version: 1
case: demo
contract: {contract}
profiles:
  - device: {{sku: CPU}}
    status: {status}
    exact: [token_ids, timesteps]
    bounds:
      - {{measurement: output.psnr_db.min, at_least: 30}}
      - {{measurement: output.abs_diff_max.max, at_most: 0.1}}
    evidence: sha256:{evidence}
    selected: {{by: Ada, on: 2026-12-01, reason: twenty runs}}
"""


class Bench:
    """One run to judge; tests change one thing and ask for the verdict."""

    contract = CONTRACT
    cpu = CPU

    def __init__(self, parts: Any, root: Any) -> None:
        self.case = parts.build_case(root)
        self.case.folder.mkdir(parents=True)
        self.comparison = Comparison(
            exact=tuple(ExactResult(name=name, status="equal", detail="") for name in ("token_ids", "timesteps")),
            checklist=(ChecklistRow(field="device", reference="cpu", candidate="cpu", verdict="equal", note=""),),
            measurements=(measured("output.psnr_db.min", 40.0), measured("output.ssim.min", 0.99),
                          measured("output.abs_diff_max.max", 0.05)),
        )  # fmt: skip
        items = tuple(OutputItem(id=item.id, images=()) for item in parts.build_items())
        self.legs = tuple(
            LegRecord(name=name, runner="python", interpreter="python", duration_s=1, exit_code=0, failure=None,
                      message="", log=f"{name}/log.txt", items=items, effective=None)
            for name in ("reference", "candidate")
        )  # fmt: skip
        self.profile = CPU
        self.in_ci = False
        self.purpose = "run"
        self.evidence: tuple[Problem, ...] = ()
        self.weights_verified = True
        self.write_gate()

    def write_gate(self, text: str = GATE, **changes: str) -> None:
        values = {"contract": CONTRACT, "status": "accepted", "evidence": "b" * 64, **changes}
        self.case.gate_file.write_text(text.format(**values), encoding="utf-8")

    def change(self, **changes: Any) -> None:
        self.comparison = msgspec.structs.replace(self.comparison, **changes)

    def change_case(self, **changes: Any) -> None:
        self.case = msgspec.structs.replace(self.case, **changes)

    def measure(self, name: str, value: float, *, problem: str = "") -> None:
        """Replace one measured value."""
        entries = (
            measured(name, value, problem=problem) if entry.id == name else entry
            for entry in self.comparison.measurements
        )
        self.change(measurements=tuple(entries))

    def judge(self) -> Verdict:
        return judge(
            self.comparison, self.case, legs=self.legs, contract=CONTRACT, profile=self.profile,
            gate=load_gate(self.case), evidence=self.evidence, weights_verified=self.weights_verified,
            in_ci=self.in_ci, purpose=self.purpose,
        )  # fmt: skip

    def record(self, run_id: str, **changes: Any) -> RunRecord:
        """This run as a record."""
        record = RunRecord(
            schema_version=1, run_id=run_id, case=self.case.id, base_case=self.case.base_id, variant=None, title="Demo",
            claim=self.case.claim, contract=CONTRACT, model_id="org/demo", model_revision="0" * 40, weights="trained",
            purpose="run", started="2026-11-30T20:00:00Z", duration_s=3.0,
            attempt=1, in_ci=False, profile=CPU, environment={}, legs=self.legs,
            comparison=self.comparison, verdict=self.judge(),
        )  # fmt: skip
        return msgspec.structs.replace(record, **changes)


def measured(name: str, value: float, *, problem: str = "") -> MeasurementResult:
    _, metric, how = name.split(".")
    return MeasurementResult(
        id=name, metric=metric, aggregate=how, pixels="stored", unit="dB" if metric == "psnr_db" else "1",
        direction="lower" if metric.startswith("abs") else "higher", value=Real(value), typical=Real(value),
        worst_item="001/0", values={"000/0": Real(value), "001/0": Real(value)}, problem=problem,
    )  # fmt: skip


@pytest.fixture
def bench(parts, tmp_path):
    return Bench(parts, tmp_path)
