"""A whole run on disk: two legs, a real comparison, and a verdict as the judge would give it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from paritygate.compare.compare import compare_legs
from paritygate.manifest.contract import contract
from paritygate.records.model import BoundResult, DeviceProfile, Finding, Real, RunRecord, Status, Verdict


class Story:
    """One run to report on; tests change a part and render again."""

    def __init__(self, parts: Any, root: Any) -> None:
        self.parts = parts
        self.dir = root / "run"
        document = {"request": {"prompt": "unused", "seed": 40}, "suite": {"prompts": ["a cat", "a dog", "an owl"]}}
        self.case = parts.build_case(root, document=document)
        self.case.folder.mkdir(parents=True)
        for leg in self.case.legs:
            (root / str(leg.adapter)).write_text("adapter", encoding="utf-8")
        self.items = parts.build_items()
        self.reference = self.leg("reference", 0.0)
        self.candidate = self.leg("candidate", 2 / 255)
        self.verdict = Verdict(
            status=Status.PROVISIONAL,
            reasons=(Finding(code="proposed-bounds", message="the bounds are proposed"),),
            scope="the scope",
            gate="cases/demo.gate.yaml, profile CPU, proposed",
            gate_status="proposed",
            bounds=(bound("output.psnr_db.min", "at_least", 30.0, 42.2), bound("gone", "at_most", 1.0, float("nan"))),
        )

    def leg(self, name: str, shift: float) -> Any:
        images = {item.id: [self.parts.picture(i, shift=shift)] for i, item in enumerate(self.items)}
        effective = self.parts.effective(environment={"python": "3.11.7", "packages": {"torch": "2.13.0"}})
        return self.parts.write_leg(self.dir, name, images, effective=effective)

    def record(self, **changes: Any) -> RunRecord:
        comparison = compare_legs(
            self.case, self.items, reference=self.reference, candidate=self.candidate, run_dir=self.dir
        )
        record = RunRecord(
            schema_version=1, run_id="20261130T200000Z-ab12", case=self.case.id, base_case=self.case.base_id,
            variant=None, title=self.case.title, claim=self.case.claim, contract=contract(self.case),
            model_id=self.case.model.id, model_revision=self.case.model.revision,
            weights=self.case.model.weights, purpose="run", started="2026-11-30T20:00:00Z", duration_s=3.2, attempt=1,
            in_ci=False, profile=DeviceProfile(platform="linux", sku="CPU", cards=0, arch="x86_64", name="Some CPU"),
            environment={"paritygate": "0.1.0", "git": {"commit": "f" * 40}}, legs=(self.reference, self.candidate),
            comparison=comparison, verdict=self.verdict,
        )  # fmt: skip
        return msgspec.structs.replace(record, **changes)


def bound(name: str, relation: str, limit: float, value: float) -> BoundResult:
    return BoundResult(
        measurement=name, relation=relation, limit=Real(limit), value=Real(value), satisfied=value >= limit,
        headroom=Real(value - limit),
    )  # fmt: skip


@pytest.fixture
def story(parts, tmp_path):
    return Story(parts, tmp_path)
