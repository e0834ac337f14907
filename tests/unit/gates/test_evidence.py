"""Evidence: the committed records are the ones the gate names, and they support it."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from paritygate.errors import ManifestError
from paritygate.gates import evidence
from paritygate.gates.evidence import (
    check_all_evidence,
    check_contract,
    check_evidence,
    evidence_digest,
    evidence_records,
)
from paritygate.gates.files import load_gate
from paritygate.manifest.contract import contract
from paritygate.records.codec import dumps
from paritygate.records.model import ChecklistRow, Status


@pytest.fixture
def shelf(bench):
    folder = bench.case.folder / "evidence"
    folder.mkdir()
    bench.write_gate(status="proposed")
    for index in range(3):
        (folder / f"run-{index}.json").write_text(dumps(bench.record(f"run-{index}")), encoding="utf-8")
    settle(bench)
    return folder


def settle(bench):
    bench.write_gate(status="proposed", evidence=digest(bench).removeprefix("sha256:"))


def digest(bench):
    return evidence_digest(evidence_records(bench.case, sku="CPU"))


def messages(bench):
    return [problem.message for problem in check_evidence(bench.case, load_gate(bench.case))]


def rewrite(bench, path, **changes):
    path.write_text(dumps(bench.record(path.stem, **changes)), encoding="utf-8")
    settle(bench)


def test_records_that_support_the_gate_give_no_problem(bench, shelf):
    assert messages(bench) == []


def test_the_digest_depends_on_content_not_on_names(bench, shelf):
    before = digest(bench)
    (shelf / "run-0.json").rename(shelf / "z.json")
    assert digest(bench) == before
    (shelf / "z.json").unlink()
    assert digest(bench) != before


def test_a_changed_missing_or_added_record_is_noticed(bench, shelf):
    first = shelf / "run-0.json"
    content = first.read_text()
    first.write_text(content + "\n")
    assert "have the digest" in messages(bench)[0]
    first.unlink()
    assert "the 2 committed records have the digest" in messages(bench)[0]


def test_no_record_at_all_is_noticed(bench, shelf):
    for path in shelf.iterdir():
        path.unlink()
    assert messages(bench) == ["there are no records of demo on CPU in evidence/"]


def test_a_problem_points_at_the_line_and_gives_the_right_digest(bench, shelf):
    (shelf / "run-0.json").unlink()
    (problem,) = check_evidence(bench.case, load_gate(bench.case))
    line = bench.case.gate_file.read_text().splitlines()[problem.line - 1]
    assert line.strip().startswith("evidence:")
    assert digest(bench) in problem.hint


def test_records_of_other_cases_and_devices_are_left_out(bench, shelf):
    other = bench.record("other", case="else")
    (shelf / "other.json").write_text(dumps(other))
    for cards in (1, 8):
        gpu = msgspec.structs.replace(bench.cpu, sku="H100", cards=cards)
        (shelf / f"gpu-{cards}.json").write_text(dumps(bench.record(f"gpu-{cards}", profile=gpu)))
    assert [entry.path.stem for entry in evidence_records(bench.case, sku="H100", cards=8)] == ["gpu-8"]
    assert messages(bench) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [({"contract": "sha256:" + "d" * 64}, "its contract is"), ({"purpose": "diagnostic"}, "it is a diagnostic run")],
)  # fmt: skip
def test_a_record_of_another_kind_is_no_evidence(bench, shelf, changes, fault):
    rewrite(bench, shelf / "run-1.json", **changes)
    assert len(messages(bench)) == 1
    assert f"run-1.json does not support the bounds: {fault}" in messages(bench)[0]


def test_a_record_that_misses_a_bound_is_no_evidence_for_it(bench, shelf):
    bench.measure("output.psnr_db.min", 29.0)
    rewrite(bench, shelf / "run-2.json")
    assert messages(bench) == [
        "run-2.json does not support the bounds: output.psnr_db.min was 29, the bound is at least 30"]  # fmt: skip


def test_an_incomplete_or_different_record_is_no_evidence(bench, shelf):
    broken = msgspec.structs.replace(bench.legs[1], failure="timeout", exit_code=-9)
    bench.legs = (bench.legs[0], broken)
    rewrite(bench, shelf / "run-2.json")
    assert "it is error: the candidate leg broke (timeout)" in messages(bench)[0]


def test_a_run_that_missed_other_bounds_supports_the_ones_it_meets(bench, shelf):
    bench.write_gate(status="proposed", evidence="b" * 64)
    gate = bench.case.gate_file.read_text(encoding="utf-8")
    bench.case.gate_file.write_text(gate.replace("at_least: 30", "at_least: 45"), encoding="utf-8")
    missed = bench.record("run-2")
    assert missed.verdict.status is Status.FAILED
    rewrite(bench, shelf / "run-2.json", verdict=missed.verdict)
    assert messages(bench) == []


def undeclared(bench):
    bench.in_ci = True
    row = ChecklistRow(field="dtype", reference="a", candidate="b", verdict="undeclared", note="")
    bench.change(checklist=(row,))
    return "dtype differs and is not declared"


def required(bench):
    bench.change_case(checklist_require=("seed",))
    return "seed must be reported"


def not_computed(bench):
    bench.measure("output.ssim.min", float("nan"), problem="000/0: no float pixels")
    return "output.ssim.min could not be computed"


@pytest.mark.parametrize("fault", [undeclared, required, not_computed], ids=lambda fault: fault.__name__)
def test_a_run_that_failed_by_anything_but_a_bound_is_no_evidence(bench, shelf, fault):
    words = fault(bench)
    bench.write_gate(status="accepted")
    verdict = bench.judge()
    assert verdict.status is Status.FAILED
    rewrite(bench, shelf / "run-2.json", verdict=verdict)
    assert len(messages(bench)) == 1
    assert f"run-2.json does not support the bounds: it is failed: {words}" in messages(bench)[0]


@pytest.mark.parametrize("status", [Status.ERROR, Status.INVALID])
def test_an_edited_record_without_reasons_is_a_problem_not_a_crash(bench, shelf, status):
    verdict = msgspec.structs.replace(bench.judge(), status=status, reasons=())
    rewrite(bench, shelf / "run-2.json", verdict=verdict)
    assert "it gives no reason" in messages(bench)[0]


def test_links_and_pipes_are_no_evidence_and_nothing_waits_for_them(bench, shelf, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "run-9.json"
    outside.write_text(dumps(bench.record("run-9")), encoding="utf-8")
    (shelf / "run-9.json").symlink_to(outside)
    assert "symbolic link" in messages(bench)[0]
    (shelf / "run-9.json").unlink()
    os.mkfifo(shelf / "run-9.json")
    assert "not a regular file" in messages(bench)[0]


def test_a_linked_folder_is_no_evidence(bench, shelf, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("outside") / "evidence"
    shelf.rename(elsewhere)
    shelf.symlink_to(elsewhere)
    assert "symbolic link" in messages(bench)[0]


def test_a_record_too_large_to_be_one_is_not_read(bench, shelf, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_BYTES", 100)
    assert "run-0.json has more than 100 bytes" in messages(bench)[0]


def test_one_run_counts_once(bench, shelf):
    (shelf / "copy.json").write_text((shelf / "run-0.json").read_text())
    settle(bench)
    assert messages(bench) == ["one run is committed twice"]


def test_an_unreadable_record_is_a_problem_not_a_crash(bench, shelf):
    (shelf / "run-0.json").write_text("{")
    assert "run-0.json" in messages(bench)[0]


def test_an_exact_item_that_every_record_shows_equal_stands_in_the_gate(bench, shelf):
    def list_exact(items):
        text = bench.case.gate_file.read_text(encoding="utf-8")
        bench.case.gate_file.write_text(text.replace("exact: [token_ids, timesteps]", f"exact: {items}"))

    settle(bench)
    list_exact("[timesteps]")
    (problem,) = check_evidence(bench.case, load_gate(bench.case))
    assert problem.message == "every record shows token_ids equal, and exact does not list it"
    assert problem.hint == "write: exact: [timesteps, token_ids]"
    bench.change(exact=bench.comparison.exact[1:])
    bench.write_gate(status="proposed")
    list_exact("[timesteps]")
    silent = dumps(bench.record("run-0"))
    (shelf / "run-0.json").write_text(silent, encoding="utf-8")
    settle(bench)
    list_exact("[timesteps]")
    assert messages(bench) == []


def test_an_exact_item_can_not_be_left_unsaid(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    bench.case.gate_file.write_text(text.replace("    exact: [token_ids, timesteps]\n", ""), encoding="utf-8")
    with pytest.raises(ManifestError, match="misses the key 'exact'"):
        load_gate(bench.case)


@pytest.fixture
def current(bench):
    """The contract of the case as it is now."""
    bench.change_case(document={"request": {"prompt": "a cat", "seed": 1}})
    for leg in bench.case.legs:
        (bench.case.root / leg.adapter).write_text("adapter", encoding="utf-8")
    return contract(bench.case)


def test_a_gate_for_another_contract_is_a_problem_that_gives_the_current_one(bench, current):
    (problem,) = check_contract(bench.case, load_gate(bench.case))
    assert problem.message.endswith(f"that of the case as it is now is {current}")
    assert "run it again" in problem.hint
    assert bench.case.gate_file.read_text().splitlines()[problem.line - 1].startswith("contract:")
    bench.write_gate(contract=current)
    assert check_contract(bench.case, load_gate(bench.case)) == ()


def test_one_profile_for_the_current_contract_is_enough_and_an_own_contract_is_pointed_at(bench, current):
    other = "sha256:" + "d" * 64
    bench.write_gate(contract=current)
    text = bench.case.gate_file.read_text(encoding="utf-8")
    bench.case.gate_file.write_text(text.replace("    status:", f"    contract: {other}\n    status:"))
    (problem,) = check_contract(bench.case, load_gate(bench.case))
    assert bench.case.gate_file.read_text().splitlines()[problem.line - 1] == f"    contract: {other}"
    bench.case.gate_file.write_text(bench.case.gate_file.read_text() + text[text.index("  - device") :])
    assert check_contract(bench.case, load_gate(bench.case)) == ()


def test_digests_are_given_in_full(bench, shelf):
    (shelf / "run-0.json").unlink()
    assert messages(bench)[0].endswith(
        f"have the digest {digest(bench)}, not {load_gate(bench.case).profiles[0].evidence}"
    )


def test_all_gates_of_a_project_are_checked_without_numpy(bench, current):
    bench.write_gate(status="proposed")
    rules = [problem.rule for problem in check_all_evidence([bench.case])]
    assert rules == ["gate-contract", "gate-evidence"]
    code = "import sys; import paritygate.gates.evidence; sys.exit(bool({'numpy', 'PIL', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_contract_that_cannot_be_known_is_a_problem_of_the_gate_not_a_bug(bench, monkeypatch):
    def unreadable(_):
        raise PermissionError(13, "Permission denied", "engine.py")

    monkeypatch.setattr(evidence, "contract", unreadable)
    (problem,) = check_contract(bench.case, load_gate(bench.case))
    assert problem.rule == "gate-contract"
    assert "engine.py cannot be read: Permission denied" in problem.message
