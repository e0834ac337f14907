"""``paritygate preflight``: its report, when it is gone back to, and the goldens that it finds."""

import json
import os
import platform
import time
from pathlib import Path

import pytest

from paritygate.errors import InfrastructureError

REUSED = "files and imports as in the last preflight"


def report_of(demo) -> Path:
    return demo.root / "artifacts" / "demo" / "preflight.json"


def preflight(demo, code: int = 0) -> str:
    found, out, _ = demo.call("preflight", "demo")
    assert found == code, out
    return out


def test_a_report_is_kept_and_gone_back_to_while_nothing_changed(demo):
    assert preflight(demo).startswith("demo: ready\n")
    first = report_of(demo).read_bytes()
    assert json.loads(first)["problems"] == []
    assert REUSED in preflight(demo)
    assert report_of(demo).read_bytes() == first, "a report that was gone back to is not made younger"
    _, result = demo.run()
    assert json.loads((demo.folder(result) / "preflight.json").read_text())["reused"] is True


def touch(demo) -> None:
    path = demo.root / "cases" / "model" / "weights.bin"
    path.write_bytes(path.read_bytes())


def variable(demo) -> None:
    os.environ["HF_HUB_CACHE"] = "/elsewhere"


def age(demo) -> None:
    os.utime(report_of(demo), (time.time() - 4000,) * 2)


def alter(demo) -> None:
    data = json.loads(report_of(demo).read_text())
    report_of(demo).write_text(json.dumps({**data, "fingerprint": "sha256:" + "0" * 64}))


CHANGES = {
    "a file of the weights was written": touch,
    "an adapter changed": lambda demo: demo.candidate("pixels = pixels * 1"),
    "the manifest changed": lambda demo: demo.write(timeout_s=61),
    "a variable changed": variable,
    "the report is too old": age,
    "the report was altered": alter,
    "the report is of the future": lambda demo: os.utime(report_of(demo), (time.time() + 4000,) * 2),
    "the report is damaged": lambda demo: report_of(demo).write_text("{"),
    "the report is a link": lambda demo: (
        report_of(demo).rename(report_of(demo).with_name("x")) and report_of(demo).symlink_to("x")
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_everything_is_checked_anew_when_something_changed(demo, change, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "/here")
    preflight(demo)
    assert REUSED in preflight(demo)
    change(demo)
    assert preflight(demo).startswith("demo: ready\n")


def test_a_report_with_problems_is_never_gone_back_to(demo):
    path = demo.root / "cases" / "model" / "weights.bin"
    path.write_bytes(b"altered")
    assert "tree digest" in preflight(demo, 3)
    assert json.loads(report_of(demo).read_text())["problems"]
    assert "tree digest" in preflight(demo, 3)
    path.write_bytes(b"weights")
    assert preflight(demo).startswith("demo: ready\n")


def test_a_report_whose_problems_were_struck_out_is_not_believed(demo):
    (demo.root / "cases" / "model" / "weights.bin").write_bytes(b"altered")
    preflight(demo, 3)
    forged = {**json.loads(report_of(demo).read_text()), "problems": [], "weights_verified": True}
    report_of(demo).write_text(json.dumps(forged))
    assert "tree digest" in preflight(demo, 3)


def test_what_may_change_by_the_minute_is_looked_at_each_time(demo, monkeypatch):
    preflight(demo)
    monkeypatch.setattr(
        "paritygate.runners.preflight_case.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1 << 20})
    )
    assert "[disk]" in preflight(demo, 3)


def test_the_report_of_a_case_is_no_run(demo):
    preflight(demo)
    code, _, err = demo.call("report", "artifacts/demo")
    assert code == 2
    assert "did not finish" not in err


def golden_reference(demo) -> None:
    path = demo.root / "cases" / "demo.case.yaml"
    digest = "sha256:" + "1" * 64
    text = path.read_text().replace(
        "reference: {runner: python, adapter: reference.py, timeout_s: 60}",
        f'reference: {{runner: golden, golden: {{name: demo, version: 1, digest: "{digest}"}}}}',
    )
    path.write_text(text.replace("claim: native-parity", "claim: golden-regression"))


def test_a_golden_that_is_not_there_is_a_problem_of_its_leg(demo):
    golden_reference(demo)
    out = preflight(demo, 3)
    assert "[golden] reference: " in out
    assert "fix: " in out


@pytest.mark.parametrize(("is_whole", "code"), [(True, 75), (False, 3)])
def test_a_server_of_goldens_that_is_away_is_infrastructure_unless_more_is_missing(demo, monkeypatch, is_whole, code):
    def away(*_):
        raise InfrastructureError("the server of goldens is away", hint="try again")

    monkeypatch.setattr("paritygate.session.preflight.resolve_for", away)
    if not is_whole:
        (demo.root / "cases" / "model" / "weights.bin").unlink()
    found, out, err = demo.call("preflight", "demo")
    assert found == code
    assert "the server of goldens is away" in out + err


def test_a_run_with_a_missing_commit_ends_with_3_and_lists_it(demo):
    path = demo.root / "cases" / "demo.case.yaml"
    commit = "7" * 40
    path.write_text(path.read_text().replace("candidate.py,", f'candidate.py, requires: {{numpy: "@{commit}"}},'))
    code, out, _ = demo.call("run", "demo")
    assert code == 3
    assert "[version] candidate: numpy is of no known commit" in out
    assert commit in out


def test_what_each_leg_has_installed_is_printed_in_a_fixed_form(demo):
    # Field trap B122: reports could not find the version of a library in the log.
    rows = [line.strip() for line in preflight(demo).splitlines() if "environment" in line]
    assert [row.partition(":")[0] for row in rows] == ["environment reference", "environment candidate"]
    facts = dict(word.split("=", 1) for word in rows[0].partition(": ")[2].split(" "))
    assert facts["python"] == platform.python_version()
    assert facts["msgspec"]
