"""Gate files: read strictly, and refused when a bound could not do its work."""

from __future__ import annotations

import pytest

from paritygate.errors import ManifestError
from paritygate.gates.files import load_gate


def test_a_gate_file_is_read_with_all_its_parts(bench):
    gate = load_gate(bench.case)
    (profile,) = gate.profiles
    assert gate.path == "cases/demo.gate.yaml"
    assert (profile.sku, profile.arch, profile.variant, profile.status) == ("CPU", None, None, "accepted")
    assert profile.contract == bench.contract
    assert profile.exact == ("token_ids", "timesteps")
    assert [(bound.measurement, bound.relation, bound.limit) for bound in profile.bounds] == [
        ("output.psnr_db.min", "at_least", 30.0), ("output.abs_diff_max.max", "at_most", 0.1)]  # fmt: skip


def test_no_file_is_no_gate(bench):
    bench.case.gate_file.unlink()
    assert load_gate(bench.case) is None


PSNR = "{measurement: output.psnr_db.min, at_least: 30}"
DIFF = "{measurement: output.abs_diff_max.max, at_most: 0.1}"
SSIM = "{measurement: output.ssim.min, "

BAD = {
    "never-fails-low": (DIFF, "{measurement: output.abs_diff_max.max, at_most: 1}", "nothing can fail it"),
    "never-fails-huge": (DIFF, "{measurement: output.abs_diff_max.max, at_most: 1.0e10}", "outside the range"),
    "never-fails-ssim": (PSNR, SSIM + "at_least: -1}", "nothing can fail it"),
    "never-fails-psnr": (PSNR, "{measurement: output.psnr_db.min, at_least: 0}", "nothing can fail it"),
    "not-measured": (PSNR, "{measurement: output.psnr_db.mim, at_least: 30}", "did you mean 'output.psnr_db.min'?"),
    "never-met": (PSNR, SSIM + "at_least: 1.01}", "outside the range of ssim, -1 to 1"),
    "never-met-low": (DIFF, "{measurement: output.abs_diff_max.max, at_most: -0.1}", "outside the range"),
    "wrong-direction": (PSNR, SSIM + "at_most: 0.9}", "write at_least"),
    "not-a-number": (PSNR, "{measurement: output.psnr_db.min, at_least: .nan}", "nan"),
    "infinite": (PSNR, "{measurement: output.psnr_db.min, at_least: .inf}", "inf"),
    "twice": (DIFF, PSNR, "output.psnr_db.min has two bounds"),
    "unknown-key": (PSNR, "{measurement: output.psnr_db.min, at_lest: 30}", "at_lest"),
    "other-case": ("case: demo", "case: other", "write case: demo"),
    "no-bounds": ("bounds:", "bounds: []\n    bonds:", "bonds"),
    "unknown-status": ("status: accepted", "status: ok", "accepted"),
    "from-the-future": ("schema_version: 1", "schema_version: 2", "newer"),
}


@pytest.mark.parametrize("fault", sorted(BAD))
def test_a_gate_that_could_not_do_its_work_is_refused_at_its_line(bench, fault):
    old, new, message = BAD[fault]
    text = bench.case.gate_file.read_text(encoding="utf-8")
    assert old in text
    text = text.replace(old, new, 1)
    bench.case.gate_file.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        load_gate(bench.case)
    assert message in str(caught.value)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if new.splitlines()[0] in row)
    assert caught.value.problems[0].line in (line, line + 1)
    assert caught.value.problems[0].path == "cases/demo.gate.yaml"


def test_trap_12_a_misspelt_limit_is_an_error_that_suggests_the_right_word(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    bench.case.gate_file.write_text(text.replace("at_least", "at_lest"), encoding="utf-8")
    with pytest.raises(ManifestError, match="at_least"):
        load_gate(bench.case)


def test_one_device_and_contract_has_one_profile(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    bench.case.gate_file.write_text(text + text[text.index("  - device") :], encoding="utf-8")
    with pytest.raises(ManifestError, match="an earlier profile is for the same variant, contract and device"):
        load_gate(bench.case)


def test_a_gate_out_of_the_project_is_refused(bench, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "demo.gate.yaml"
    outside.write_text(bench.case.gate_file.read_text())
    bench.case.gate_file.unlink()
    bench.case.gate_file.symlink_to(outside)
    with pytest.raises(ManifestError):
        load_gate(bench.case)


def test_profiles_for_other_numbers_of_cards_stand_side_by_side(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8").replace("sku: CPU", "sku: H100, cards: 1")
    bench.case.gate_file.write_text(
        text + text[text.index("  - device") :].replace("cards: 1", "cards: 8"), encoding="utf-8"
    )
    assert [profile.device for profile in load_gate(bench.case).profiles] == ["H100 x1", "H100 x8"]
