"""Verdicts: the precedence, and every way in which a gate does not pass."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from paritygate.gates.evidence import check_evidence
from paritygate.gates.files import load_gate
from paritygate.gates.judge import judge
from paritygate.manifest.case import Difference
from paritygate.records.model import ChecklistRow, Effective, EffectResult, ExactResult, Finding, Status


def codes(verdict):
    return [finding.code for finding in verdict.reasons]


def test_an_accepted_gate_that_is_met_passes(bench):
    verdict = bench.judge()
    assert verdict.status is Status.PASSED
    assert codes(verdict) == ["bounds-met"]
    assert [(bound.measurement, bound.satisfied) for bound in verdict.bounds] == [
        ("output.psnr_db.min", True), ("output.abs_diff_max.max", True)]  # fmt: skip
    assert verdict.bounds[0].headroom == 10.0
    assert verdict.bounds[1].headroom == pytest.approx(0.05)
    assert verdict.gate_status == "accepted"
    assert verdict.gate == ("cases/demo.gate.yaml, profile CPU, accepted, selected by Ada on 2026-12-01: twenty runs")


def test_a_proposed_gate_that_is_met_is_provisional_and_says_why(bench):
    bench.write_gate(status="proposed")
    verdict = bench.judge()
    assert verdict.status is Status.PROVISIONAL
    assert codes(verdict) == ["proposed-bounds"]
    assert "not yet accepted by a person" in verdict.reasons[0].message


# One change -> (status, code of the first reason). Each stands alone on a run that would pass.


def break_leg(bench):
    broken = msgspec.structs.replace(bench.legs[1], exit_code=137, failure="memory", message="killed by the kernel")
    bench.legs = (bench.legs[0], broken)


def exit_code_only(bench):
    bench.legs = (bench.legs[0], msgspec.structs.replace(bench.legs[1], exit_code=1))


def lose_leg(bench):
    bench.legs = bench.legs[:1]


def nothing_compared(bench):
    bench.change(invalid=(Finding(code="nothing-compared", message="empty"),), measurements=())


def invalid_output(bench):
    bench.change(invalid=(Finding(code="size", message="wrong size", item="001"),), measurements=())


def idle_feature(bench):
    bench.change(feature=Finding(code="feature-not-exercised", message="feature not exercised"))


def shown_item_missing(bench):
    bench.change(exact=(ExactResult(name="token_ids", status="unreported", detail=""), *bench.comparison.exact[1:]))


def shown_item_dropped(bench):
    bench.change(exact=bench.comparison.exact[1:])


def exact_difference(bench):
    bench.change(exact=(*bench.comparison.exact[:1], ExactResult(name="timesteps", status="different", detail="at 0")))


def value_below(bench):
    bench.measure("output.psnr_db.min", 29.999)


def value_above(bench):
    bench.measure("output.abs_diff_max.max", 0.1001)


def value_nan(bench):
    bench.measure("output.psnr_db.min", math.nan)


def not_computed(bench):
    bench.measure("output.psnr_db.min", math.nan, problem="000/0: no float pixels")


def not_computed_without_a_bound(bench):
    bench.measure("output.ssim.min", math.nan, problem="000/0: not applicable")


def measurement_missing(bench):
    bench.change(measurements=bench.comparison.measurements[1:])


def required_unreported(bench):
    row = ChecklistRow(
        field="seed", reference="", candidate="1", verdict="unreported", note="not reported by the reference leg"
    )
    bench.change_case(checklist_require=("seed",))
    bench.change(checklist=(row,))


def required_unknown(bench):
    bench.change_case(checklist_require=("seed",))


def undeclared(bench):
    bench.change(checklist=(ChecklistRow(field="dtype", reference="a", candidate="b", verdict="undeclared", note=""),))


def undeclared_in_ci(bench):
    undeclared(bench)
    bench.in_ci = True


def no_gate(bench):
    bench.case.gate_file.unlink()


def other_device(bench):
    bench.profile = msgspec.structs.replace(bench.profile, sku="H100")


def more_cards(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8").replace("sku: CPU", "sku: H100, cards: 1")
    bench.case.gate_file.write_text(text, encoding="utf-8")
    bench.profile = msgspec.structs.replace(bench.profile, sku="H100", cards=8)


def uncounted_cards(bench):
    bench.profile = msgspec.structs.replace(bench.profile, cards=1)


def longer_device_name(bench):
    bench.profile = msgspec.structs.replace(bench.profile, sku="CPUX")


def other_contract(bench):
    bench.write_gate(contract="sha256:" + "c" * 64)


def other_variant(bench):
    bench.change_case(variant="large", id="demo-large")


def random_weights(bench):
    bench.change_case(model=msgspec.structs.replace(bench.case.model, weights="random"))


def diagnostic(bench):
    bench.purpose = "diagnostic"


def latents_unshown(bench):
    bench.change_case(initial_latents="shared")
    bench.change(exact=(*bench.comparison.exact, ExactResult(name="initial_latents", status="unreported", detail="")))


def latents_not_compared(bench):
    bench.change_case(initial_latents="shared")


def proposed(bench):
    bench.write_gate(status="proposed")


TABLE = {
    break_leg: ("error", "leg-memory"),
    exit_code_only: ("error", "leg-crash"),
    lose_leg: ("error", "leg-missing"),
    nothing_compared: ("error", "nothing-compared"),
    invalid_output: ("invalid", "size"),
    idle_feature: ("invalid", "feature-not-exercised"),
    shown_item_missing: ("invalid", "exact-missing"),
    shown_item_dropped: ("invalid", "exact-missing"),
    exact_difference: ("failed", "exact-different"),
    value_below: ("failed", "bound-not-met"),
    value_above: ("failed", "bound-not-met"),
    value_nan: ("failed", "bound-not-met"),
    not_computed: ("failed", "not-computed"),
    not_computed_without_a_bound: ("failed", "not-computed"),
    measurement_missing: ("failed", "not-computed"),
    required_unreported: ("failed", "required-unreported"),
    required_unknown: ("failed", "required-unreported"),
    undeclared_in_ci: ("failed", "undeclared-difference"),
    no_gate: ("unvalidated", "no-gate"),
    other_device: ("unvalidated", "no-profile"),
    more_cards: ("unvalidated", "no-profile"),
    uncounted_cards: ("unvalidated", "no-profile"),
    longer_device_name: ("unvalidated", "no-profile"),
    other_contract: ("unvalidated", "other-contract"),
    other_variant: ("unvalidated", "no-profile"),
    proposed: ("provisional", "proposed-bounds"),
    undeclared: ("provisional", "undeclared-difference"),
    latents_unshown: ("provisional", "latents-unshown"),
    latents_not_compared: ("provisional", "latents-unshown"),
    random_weights: ("provisional", "plumbing"),
    diagnostic: ("provisional", "diagnostic"),
}


@pytest.mark.parametrize("change", TABLE, ids=lambda change: change.__name__)
def test_one_fault_decides_the_verdict(bench, change):
    change(bench)
    verdict = bench.judge()
    status, code = TABLE[change]
    assert verdict.status.value == status
    assert codes(verdict)[0] == code


WORST_FIRST = (break_leg, invalid_output, exact_difference, no_gate, random_weights)


@pytest.mark.parametrize(
    ("worse", "milder"), list(itertools.combinations(WORST_FIRST, 2)), ids=lambda change: change.__name__
)
def test_the_worst_reason_is_the_verdict_and_stands_first(bench, worse, milder):
    milder(bench)
    worse(bench)
    verdict = bench.judge()
    assert verdict.status.value == TABLE[worse][0]
    assert codes(verdict)[0] == TABLE[worse][1]


@pytest.mark.parametrize("change", [no_gate, other_device, other_contract])
def test_an_exact_mismatch_fails_even_without_a_gate(bench, change):
    exact_difference(bench)
    change(bench)
    assert bench.judge().status is Status.FAILED


def test_trap_1_a_metric_that_could_not_be_computed_is_failed_and_keeps_its_reason(bench):
    not_computed(bench)
    verdict = bench.judge()
    assert verdict.status is Status.FAILED
    assert verdict.reasons[0].message == "output.psnr_db.min could not be computed: 000/0: no float pixels"
    assert math.isnan(verdict.bounds[0].value)
    assert not verdict.bounds[0].satisfied


def test_trap_5_an_absent_or_broken_reference_is_an_error_never_a_skip(bench):
    reference, candidate = bench.legs
    for legs in ((candidate,), (msgspec.structs.replace(reference, failure="weights", exit_code=1), candidate)):
        bench.legs = legs
        assert bench.judge().status is Status.ERROR


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_trap_7_not_a_number_satisfies_nothing(bench, value):
    for name in ("output.psnr_db.min", "output.abs_diff_max.max"):
        bench.measure(name, math.nan)
    bench.measure("output.psnr_db.min", value)
    verdict = bench.judge()
    assert verdict.status is Status.FAILED
    assert [bound.satisfied for bound in verdict.bounds] == [False, False]


def test_trap_9_an_infinite_psnr_satisfies_its_bound(bench):
    bench.measure("output.psnr_db.min", math.inf)
    verdict = bench.judge()
    assert verdict.status is Status.PASSED
    assert verdict.bounds[0].headroom == math.inf


def test_trap_14_a_device_is_matched_by_its_whole_name_and_its_architecture(bench):
    text = (bench.case.gate_file.read_text()).replace("sku: CPU", "sku: CPU, arch: aarch64")
    bench.case.gate_file.write_text(text)
    verdict = bench.judge()
    assert codes(verdict) == ["no-profile"]
    assert "only for CPU aarch64" in verdict.reasons[0].message
    bench.profile = msgspec.structs.replace(bench.profile, arch="aarch64")
    assert bench.judge().status is Status.PASSED


def test_the_architecture_profile_goes_before_the_general_one(bench):
    text = bench.case.gate_file.read_text()
    first = text[text.index("  - device") :]
    strict = first.replace("sku: CPU", "sku: CPU, arch: x86_64").replace("at_least: 30", "at_least: 45")
    bench.case.gate_file.write_text(text + strict)
    assert bench.judge().status is Status.FAILED


def test_a_bounded_measurement_that_the_comparison_lacks_fails(bench):
    bench.change(measurements=bench.comparison.measurements[1:])
    verdict = bench.judge()
    assert verdict.status is Status.FAILED
    assert verdict.reasons[0].message == "output.psnr_db.min is bounded by the gate and was not measured"


def test_a_failed_bound_names_value_limit_and_worst_item(bench):
    value_below(bench)
    reason = bench.judge().reasons[0]
    assert reason.message == "output.psnr_db.min is 29.999 dB, required at least 30; worst: 001/0"
    assert reason.item == "001"


def test_a_broken_leg_is_the_only_reason_whatever_else_is_missing_then(bench):
    break_leg(bench)
    bench.legs = bench.legs[1:]
    bench.change(exact=(), checklist=(), measurements=())
    required_unknown(bench)
    assert codes(bench.judge()) == ["leg-memory"]


def test_many_reasons_of_one_kind_are_counted_not_listed(bench):
    findings = tuple(Finding(code="size", message=f"wrong size {index}") for index in range(16))
    bench.change(invalid=findings, measurements=())
    verdict = bench.judge()
    assert [finding.message for finding in verdict.reasons] == [
        "wrong size 0", "wrong size 1", "wrong size 2", "and 13 more of this kind"]  # fmt: skip


def test_no_bound_is_applied_to_outputs_that_cannot_be_compared(bench):
    invalid_output(bench)
    verdict = bench.judge()
    assert verdict.bounds == ()
    assert "not-computed" not in codes(verdict)


def test_random_weights_never_pass_and_the_scope_says_plumbing(bench):
    random_weights(bench)
    assert bench.judge().scope.startswith("plumbing only")


def test_the_scope_names_model_workload_device_and_what_did_not_run(bench):
    shown = ExactResult(name="sigmas", status="unreported", detail="")
    bench.change(exact=(*bench.comparison.exact, shown))
    assert bench.judge().scope == (
        "native-parity of org/demo@0000000000000000000 (trained weights); 3 requests, images of 24x24 RGB; "
        "compared as 8-bit pixels from lossless files; on CPU (x86_64, Some CPU); exact layer: token_ids, timesteps; "
        "exact items not shown: sigmas; output layer: 3 of 3 measurements; layers not run: parts; "
        "measured without a bound: output.ssim.min; not covered: batch > 1"
    )


def test_a_gate_whose_profile_has_no_bounds_is_unvalidated(bench):
    gate = load_gate(bench.case)
    empty = type(gate)(
        path=gate.path, document=gate.document,
        profiles=(type(gate.profiles[0])(**{**vars(gate.profiles[0]), "bounds": ()}),),
    )  # fmt: skip
    verdict = judge(bench.comparison, bench.case, legs=bench.legs, contract=bench.contract, profile=bench.profile,
                    gate=empty, evidence=(), weights_verified=True, in_ci=False, purpose="run")  # fmt: skip
    assert verdict.status is Status.UNVALIDATED
    assert codes(verdict) == ["no-bounds"]


def test_the_scope_says_when_the_weights_were_not_verified(bench):
    assert "not verified" not in bench.judge().scope
    bench.weights_verified = False
    assert "org/demo@0000000000000000000 (trained weights) (weights not verified); " in bench.judge().scope


def test_shared_latents_that_both_legs_show_pass(bench):
    bench.change_case(initial_latents="shared")
    bench.change(exact=(*bench.comparison.exact, ExactResult(name="initial_latents", status="equal", detail="")))
    assert bench.judge().status is Status.PASSED


def test_the_scope_is_silent_about_bounds_where_every_measurement_has_one(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    line = "    bounds:\n      - {measurement: output.ssim.min, at_least: 0.9}\n"
    bench.case.gate_file.write_text(text.replace("    bounds:\n", line), encoding="utf-8")
    assert "without a bound" not in bench.judge().scope
    bench.case.gate_file.unlink()
    assert "without a bound" not in bench.judge().scope


def test_an_undeclared_difference_names_the_declaration_that_misspells_it(bench):
    def row(name, verdict, value):
        return ChecklistRow(field=name, reference=value, candidate=value, verdict=verdict, note="")

    bench.change_case(differences=(Difference(field="devise", reason="two devices"),))
    rows = (row("device.unet", "undeclared", "x"), row("devise", "unreported", ""), row("threads", "undeclared", "1"))
    bench.change(checklist=rows)
    messages = [reason.message for reason in bench.judge().reasons]
    assert messages[0].endswith("candidate x; is differences.field devise meant to be device?")
    assert messages[1].endswith("candidate 1")


def test_another_contract_is_named_in_full(bench):
    other_contract(bench)
    message = bench.judge().reasons[0].message
    assert bench.contract in message
    assert "sha256:" + "c" * 64 in message


def test_an_accepted_gate_without_its_evidence_gives_no_pass(bench):
    bench.evidence = check_evidence(bench.case, load_gate(bench.case))
    verdict = bench.judge()
    assert verdict.status is Status.PROVISIONAL
    assert codes(verdict) == ["unsupported-bounds"]
    assert "there are no records of demo on CPU in evidence/" in verdict.reasons[0].message
    value_below(bench)
    assert bench.judge().status is Status.FAILED


def test_the_evidence_of_another_profile_does_not_concern_a_run(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    other = text[text.index("  - device") :].replace("sku: CPU", "sku: H100")
    bench.case.gate_file.write_text(text + other, encoding="utf-8")
    bench.evidence = tuple(p for p in check_evidence(bench.case, load_gate(bench.case)) if "on H100" in p.message)
    assert len(bench.evidence) == 1
    assert bench.judge().status is Status.PASSED


def test_one_bound_is_one_bound(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    line = "      - {measurement: output.abs_diff_max.max, at_most: 0.1}\n"
    bench.case.gate_file.write_text(text.replace(line, ""), encoding="utf-8")
    assert bench.judge().reasons[0].message == "the accepted bound is met"


def test_a_limit_is_spelled_as_exactly_as_it_was_written(bench):
    text = bench.case.gate_file.read_text(encoding="utf-8")
    bench.case.gate_file.write_text(text.replace("at_most: 0.1", "at_most: 0.0499999999"), encoding="utf-8")
    assert "required at most 0.0499999999; worst" in bench.judge().reasons[0].message


def test_the_scope_names_settings_that_a_leg_did_not_report_and_counts_the_rest(bench):
    def row(name):
        return ChecklistRow(field=name, reference="1", candidate="", verdict="unreported", note="")

    bench.change(checklist=(row("device"),))
    assert "; 1 setting not reported: device; " in bench.judge().scope
    bench.change(checklist=tuple(row(f"s{index}") for index in range(7)))
    assert "; 7 settings not reported: s0, s1, s2, s3, s4 and 2 more; " in bench.judge().scope


def test_a_gate_holds_for_its_number_of_cards(bench):
    more_cards(bench)
    assert "has no bounds for H100 x8 (x86_64), only for H100 x1" in bench.judge().reasons[0].message
    bench.profile = msgspec.structs.replace(bench.profile, cards=1)
    verdict = bench.judge()
    assert verdict.status is Status.PASSED
    assert ", profile H100 x1, accepted, " in verdict.gate


def with_leg(bench, name, **changes):
    legs = tuple(msgspec.structs.replace(leg, **changes) if leg.name == name else leg for leg in bench.legs)
    bench.legs = legs


def test_a_request_field_that_changes_nothing_makes_the_run_invalid_and_is_named(bench):
    effects = (EffectResult(leg="candidate", field="guidance_scale", exercised=False, detail="0 of 3 outputs differ"),
               EffectResult(leg="candidate", field="seed", exercised=True, detail="3 of 3 outputs differ"))  # fmt: skip
    bench.change(effects=effects)
    verdict = bench.judge()
    assert (verdict.status.value, verdict.failure_class, verdict.bounds) == ("invalid", "structure", ())
    assert verdict.reasons[0].code == "not-exercised"
    words = "the candidate ignores guidance_scale: another value changed nothing (0 of 3 outputs differ)"
    assert verdict.reasons[0].message == words
    assert "effects shown: seed;" in f"{verdict.scope};"


def test_only_a_server_that_nobody_probed_narrows_the_scope(bench):
    assert "effects" not in bench.judge().scope
    with_leg(bench, "candidate", runner="openai")
    verdict = bench.judge()
    assert verdict.status.value == "passed"
    assert "effects of request fields not probed" in verdict.scope


def test_a_pending_item_that_the_gate_needs_is_missing_and_the_reason_says_what_to_deliver(bench):
    with_leg(bench, "reference", effective=Effective(pending=("token_ids", "text_encoder")))
    exact = (ExactResult(name="token_ids", status="pending", detail=""), *bench.comparison.exact[1:])
    bench.change(exact=exact)
    verdict = bench.judge()
    assert (verdict.status.value, verdict.reasons[0].code) == ("invalid", "exact-missing")
    assert "token_ids was shown when the gate was selected and is pending now: deliver it" in verdict.reasons[0].message
    assert "pending: token_ids, text_encoder" in verdict.scope
    assert "exact items not shown" not in verdict.scope


def test_a_declared_difference_that_the_legs_do_not_have_narrows_the_scope(bench):
    bench.change_case(differences=(Difference(field="dtype", reason="x"), Difference(field="threads", reason="y")))
    rows = [("dtype.unet", "declared"), ("dtype.vae", "declared-but-equal"), ("threads", "declared-but-equal")]
    bench.change(checklist=tuple(
        ChecklistRow(field=field, reference="a", candidate="b", verdict=verdict, note="x") for field, verdict in rows
    ))  # fmt: skip
    verdict = bench.judge()
    assert verdict.status.value == "passed"
    assert "declared as differences and in fact equal: threads" in verdict.scope


def test_other_noise_takes_the_worth_from_every_pixel_measure(bench):
    different = ExactResult(name="initial_latents", status="different", detail="item 000: a, b")
    bench.change(exact=(*bench.comparison.exact, different))
    verdict = bench.judge()
    assert verdict.status.value == "failed"
    assert verdict.reasons[0].message.endswith("so no measure of their pixels says anything about accuracy")


@pytest.mark.parametrize(
    ("failures", "expected"),
    [({"candidate": "memory"}, "memory"), ({"reference": "backend"}, "backend"), ({"reference": "golden"}, "golden"),
     ({"candidate": "infrastructure"}, "infrastructure"), ({"candidate": "killed"}, "killed"),
     ({"reference": "infrastructure", "candidate": "timeout"}, "timeout")],
)  # fmt: skip
def test_the_class_of_an_error_is_that_of_the_leg_that_no_retry_mends(bench, failures, expected):
    for name, failure in failures.items():
        with_leg(bench, name, failure=failure, exit_code=4)
    verdict = bench.judge()
    assert (verdict.status.value, verdict.failure_class) == ("error", expected)


def test_a_verdict_that_is_not_red_has_no_class_of_failure(bench):
    assert bench.judge().failure_class == ""
    bench.measure("output.psnr_db.min", 3.0)
    assert bench.judge().failure_class == "accuracy"
