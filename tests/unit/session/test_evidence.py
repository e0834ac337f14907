"""A run holds its gate against the committed evidence, as ``validate`` does."""

from paritygate.cli.project import open_project
from paritygate.manifest.contract import contract


def test_an_accepted_gate_whose_evidence_was_altered_gives_no_pass(demo, monkeypatch):
    (case,) = open_project().cases("demo")
    demo.gate(status="accepted", contract=contract(case))
    assert demo.run()[1]["status"] == "passed"
    (record,) = (demo.root / "cases" / "evidence").iterdir()
    record.write_bytes(record.read_bytes() + b"\n")
    monkeypatch.setenv("CI", "true")
    code, result = demo.run()
    assert (code, result["status"]) == (1, "provisional")
    (reason,) = result["reasons"]
    assert reason["code"] == "unsupported-bounds"
    assert "the committed record has the digest" in reason["message"]
