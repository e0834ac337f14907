"""All gate files of a project at once, without NumPy and without running anything."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from paritygate.gates.check import check_gates
from paritygate.gates.evidence import evidence_digest, evidence_records
from paritygate.records.codec import dumps


def sound(bench):
    bench.write_gate(status="proposed")
    folder = bench.case.folder / "evidence"
    folder.mkdir(exist_ok=True)
    (folder / "one.json").write_text(dumps(bench.record("one")), encoding="utf-8")
    digest = evidence_digest(evidence_records(bench.case, sku="CPU"))
    bench.write_gate(status="proposed", evidence=digest.removeprefix("sha256:"))
    bench.case.gate_file.with_name("demo.case.yaml").write_text("", encoding="utf-8")


def rules(cases):
    return [problem.rule for problem in check_gates(cases)]


def test_a_sound_gate_and_a_case_without_one_give_no_problem(bench, parts, tmp_path):
    sound(bench)
    other = parts.build_case(tmp_path, id="other", base_id="other", manifest="cases/other.case.yaml")
    assert rules([bench.case, other]) == []


def test_a_bad_file_is_reported_once_for_all_variants(bench):
    sound(bench)
    bench.case.gate_file.write_text("schema_version: 1\n", encoding="utf-8")
    large = msgspec.structs.replace(bench.case, id="demo-large", variant="large")
    problems = check_gates([bench.case, large])
    assert len(problems) == len({problem.message for problem in problems}) > 0


def test_missing_evidence_is_a_problem(bench):
    sound(bench)
    (bench.case.folder / "evidence" / "one.json").unlink()
    assert rules([bench.case]) == ["gate-evidence"]


def test_a_gate_for_an_unknown_variant_is_a_problem_with_the_nearest_name(bench):
    sound(bench)
    text = bench.case.gate_file.read_text(encoding="utf-8")
    extra = text[text.index("  - device") :].replace("status:", "variant: larg\n    status:")
    bench.case.gate_file.write_text(text + extra, encoding="utf-8")
    large = msgspec.structs.replace(bench.case, id="demo-large", variant="large")
    (problem,) = check_gates([bench.case, large])
    assert (problem.rule, problem.hint) == ("gate-variant", "did you mean large?")


def test_a_gate_file_without_a_manifest_judges_nothing_and_is_named(bench):
    sound(bench)
    bench.case.folder.joinpath("demmo.gate.yaml").write_text("", encoding="utf-8")
    (problem,) = check_gates([bench.case])
    assert (problem.rule, problem.path) == ("gate-orphan", "cases/demmo.gate.yaml")


def test_gates_are_checked_in_a_bare_image():
    code = "import sys; import paritygate.gates.check; sys.exit(bool({'numpy', 'PIL', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
