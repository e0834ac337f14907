"""The exact layer and the checklist: equality with the first difference named."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from paritygate.compare.checklist import checklist, counted
from paritygate.compare.exact import EXACT, Context, compare_exact
from paritygate.compare.groups import group_of
from paritygate.manifest.case import Difference
from paritygate.records.canonical import sha256_bytes

IDS = ("000", "001", "002")
LATENTS = {item: sha256_bytes(item.encode()) for item in IDS}


def one(name, reference, candidate, **context):
    (result,) = compare_exact((name,), reference, candidate, Context(item_ids=IDS, **context))
    assert result.name == name
    return result.status, result.detail


def changed(parts, **changes):
    return parts.effective(**changes)


def test_the_table_is_sorted():
    assert list(EXACT) == sorted(EXACT)


@pytest.mark.parametrize("name", ["config", "sigmas", "timesteps", "token_ids"])
def test_equal_legs_are_equal(parts, name):
    assert one(name, parts.effective(), parts.effective())[0] == "equal"


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize("silent", ["reference", "candidate", "both"])
def test_what_a_leg_cannot_show_is_unreported_never_equal(parts, name, silent):
    full = parts.effective(initial_latents=LATENTS)
    reference = None if silent != "candidate" else full
    candidate = None if silent != "reference" else full
    assert one(name, reference, candidate)[0] == "unreported"


def test_only_the_listed_items_are_judged(parts):
    context = Context(item_ids=IDS)
    assert compare_exact((), parts.effective(), parts.effective(timesteps=[1]), context) == ()


def test_the_first_unequal_token_is_named(parts):
    tokens = {item: [[1, 2, 3], [1, 9, 3]] for item in IDS}
    other = {**tokens, "001": [[1, 2, 3], [1, 9, 4]], "002": [[1, 2, 3], [0, 9, 3]]}
    status, detail = one("token_ids", parts.effective(), parts.effective(token_ids=other))
    assert status == "different"
    assert detail == "item 001, row 1, position 2: reference 3, candidate 4 (first of 2 items that differ)"


@pytest.mark.parametrize(
    ("rows", "detail"),
    [([[1, 2, 3]], "the reference has 2 rows of token ids, the candidate 1"),
     ([[1, 2, 3], [1, 9]], "row 1, length: the reference has 3 entries, the candidate 2")],
)  # fmt: skip
def test_shorter_token_lists_do_not_win(parts, rows, detail):
    other = {**parts.effective().token_ids, "002": rows}
    status, found = one("token_ids", parts.effective(), parts.effective(token_ids=other))
    assert status == "different"
    assert detail in found


def test_a_partly_shown_item_is_unreported_but_a_difference_in_it_counts(parts):
    some = {"000": [[1, 2, 3], [1, 9, 3]]}
    status, detail = one("token_ids", parts.effective(), parts.effective(token_ids=some))
    assert (status, detail) == ("unreported", "of 3 items the reference shows 3, the candidate 1")
    assert one("token_ids", parts.effective(), parts.effective(token_ids={"000": [[7], [7]]}))[0] == "different"


def test_token_ids_of_an_unknown_item_are_different(parts):
    more = {**parts.effective().token_ids, "999": [[1]]}
    assert one("token_ids", parts.effective(), parts.effective(token_ids=more)) == (
        "different", "item 999 is reported and not in the suite")  # fmt: skip


@pytest.mark.parametrize(
    ("timesteps", "detail"),
    [([999, 749, 499, 249], "4 of 4 timesteps differ, most at index 0: reference 751, candidate 999"),
     ([751, 501, 251], "the reference has 4 timesteps, the candidate 3"),
     ([751, 501, 251, math.nan], "most at index 3"),
     ([751, 502, 251, 1], "1 of 4 timesteps differ, most at index 1: reference 501, candidate 502"),
     ([751, 501, 251, 10**400], "most at index 3: reference 1, candidate 1000"),
     ([751.0, 501.0, 251.0, 10**400], "most at index 3: reference 1, candidate 1000")],
    ids=["trailing-for-leading", "one-step-less", "nan", "off-by-one", "huge", "huge-among-floats"],
)  # fmt: skip
def test_an_unequal_schedule_is_different_at_its_worst_index(parts, timesteps, detail):
    status, found = one("timesteps", parts.effective(), parts.effective(timesteps=timesteps))
    assert status == "different"
    assert detail in found


def test_integers_and_floats_of_one_value_are_equal_timesteps(parts):
    assert one("timesteps", parts.effective(), parts.effective(timesteps=[751.0, 501.0, 251.0, 1.0]))[0] == "equal"


def flow_timesteps(dtype, *, shift=3.0):
    sigmas = np.linspace(1, 0.05, 20, dtype=dtype)
    return [float(value) for value in dtype(shift) * sigmas / (1 + dtype(shift - 1) * sigmas) * dtype(1000)]


def test_flow_matching_timesteps_in_float32_and_float64_are_equal_within_rounding(parts):
    left, right = flow_timesteps(np.float32), flow_timesteps(np.float64)
    assert left != right
    status, detail = one("timesteps", parts.effective(timesteps=left), parts.effective(timesteps=right))
    assert status == "equal"
    assert "20 timesteps within float32 rounding" in detail


@pytest.mark.parametrize("shift", [3.001, 2.9])
def test_another_shift_of_the_flow_is_no_rounding(parts, shift):
    left, right = flow_timesteps(np.float32), flow_timesteps(np.float32, shift=shift)
    assert one("timesteps", parts.effective(timesteps=left), parts.effective(timesteps=right))[0] == "different"


def test_large_integer_timesteps_have_no_tolerance(parts):
    left, right = parts.effective(timesteps=[1_000_000]), parts.effective(timesteps=[1_000_001])
    assert one("timesteps", left, right)[0] == "different"


def ddpm_sigmas(dtype, *, beta_end=0.02):
    betas = np.linspace(1e-4, beta_end, 1000, dtype=dtype)
    product = np.cumprod(1 - betas, dtype=dtype)
    return [float(value) for value in np.sqrt((1 - product) / product)[::-50]]


def test_sigmas_in_float32_and_float64_are_equal_within_the_tolerance(parts):
    left, right = ddpm_sigmas(np.float32), ddpm_sigmas(np.float64)
    assert left != right
    assert one("sigmas", parts.effective(sigmas=left), parts.effective(sigmas=right))[0] == "equal"


@pytest.mark.parametrize("fault", ["beta_end", "one_step_less", "shifted_by_one", "nan", "infinite"])
def test_a_real_difference_of_sigmas_names_the_worst_index(parts, fault):
    left = ddpm_sigmas(np.float32)
    right = {
        "beta_end": ddpm_sigmas(np.float32, beta_end=0.02001),
        "one_step_less": left[:-1],
        "shifted_by_one": [*left[1:], left[-1] * 0.999],
        "nan": [*left[:-1], math.nan],
        "infinite": [*left[:-1], math.inf],
    }[fault]
    status, detail = one("sigmas", parts.effective(sigmas=left), parts.effective(sigmas=right))
    assert status == "different"
    if fault in ("nan", "infinite"):
        assert f"most at index {len(left) - 1}" in detail


def test_sigmas_that_are_not_a_number_on_both_sides_are_different(parts):
    broken = parts.effective(sigmas=[math.nan])
    assert one("sigmas", broken, broken)[0] == "different"


def test_latents_are_compared_by_digest(parts):
    left = parts.effective(initial_latents=LATENTS)
    assert one("initial_latents", left, left)[0] == "equal"
    swapped = parts.effective(initial_latents={**LATENTS, "000": LATENTS["001"], "001": LATENTS["000"]})
    status, detail = one("initial_latents", left, swapped)
    assert status == "different"
    assert detail.startswith("item 000: reference ")


def test_shared_latents_must_match_what_the_job_handed_out_on_both_legs(parts):
    left = parts.effective(initial_latents=LATENTS)
    assert one("initial_latents", left, left, shared=LATENTS)[0] == "equal"
    other = {item: sha256_bytes(b"x") for item in IDS}
    status, detail = one("initial_latents", left, left, shared=other)
    assert status == "different"
    assert "the reference started from" in detail
    assert "the candidate started from" in detail
    assert one("initial_latents", left, left, shared="shared/latents.npy: No such file")[0] == "different"


def settings(parts, **changes):
    base = parts.effective()
    return msgspec.structs.replace(
        base, settings={**base.settings, **{k.replace("__", "."): v for k, v in changes.items()}}
    )


def test_an_unequal_configuration_lists_name_and_both_values(parts):
    status, detail = one("config", parts.effective(), settings(parts, config__guidance_scale=3.1))
    assert (status, detail) == ("different", "config.guidance_scale: reference 3.0, candidate 3.1")


def test_a_declared_configuration_difference_is_no_difference(parts):
    declared = (Difference(field="config.guidance_scale", reason="under test"),)
    status, detail = one("config", parts.effective(), settings(parts, config__guidance_scale=3.1), differences=declared)
    assert status == "equal"
    assert "1 setting equal, 1 declared difference," in detail


def without(parts, *names):
    base = parts.effective()
    return msgspec.structs.replace(base, settings={k: v for k, v in base.settings.items() if k not in names})


def test_a_candidate_that_hides_a_name_of_the_reference_leaves_the_configuration_unreported(parts):
    partial = without(parts, "config.steps")
    assert one("config", parts.effective(), partial) == (
        "unreported", "of 2 names of the reference the candidate does not show config.steps")  # fmt: skip
    declared = (Difference(field="config.steps", reason="the server does not say"),)
    assert one("config", parts.effective(), partial, differences=declared)[0] == "equal"
    other = msgspec.structs.replace(partial, settings={**partial.settings, "config.guidance_scale": 9.0})
    assert one("config", parts.effective(), other)[0] == "different"


def test_two_legs_without_configuration_are_not_equal(parts):
    silent = without(parts, "config.steps", "config.guidance_scale")
    assert one("config", silent, parts.effective())[0] == "unreported"
    assert one("config", silent, silent)[0] == "unreported"


def test_names_that_the_candidate_alone_shows_are_no_difference_and_are_counted(parts):
    status, detail = one("config", parts.effective(), settings(parts, config__vae__scaling_factor=0.2))
    assert status == "equal"
    assert "1 shown by one leg only" in detail


@pytest.mark.parametrize(("left", "right"), [(True, 1), (0, False), (math.nan, math.nan), ("1", 1), (None, 0)])
def test_values_of_other_kinds_are_not_equal(parts, left, right):
    sides = settings(parts, config__x=left), settings(parts, config__x=right)
    assert one("config", *sides)[0] == "different"


def test_settings_outside_config_do_not_join_the_exact_layer(parts):
    assert one("config", parts.effective(), settings(parts, device="cuda"))[0] == "equal"


# The checklist.


def rows(parts, differences=(), **changes):
    found = checklist(parts.effective(), settings(parts, **changes), tuple(differences))
    return {row.field: row for row in found}


def test_every_setting_of_both_legs_has_one_row_sorted(parts):
    found = checklist(parts.effective(), settings(parts, zeta="a", alpha=1), ())
    names = [row.field for row in found]
    assert names == sorted({*parts.effective().settings, "zeta", "alpha"})


def test_a_checklist_row_has_one_of_five_verdicts(parts):
    found = rows(
        parts,
        [Difference(field="dtype", reason="half is under test"), Difference(field="config.steps", reason="stale")],
        dtype__unet="float16", device="cuda", threads=2,
    )  # fmt: skip
    assert {name: row.verdict for name, row in found.items()} == {
        "config.guidance_scale": "equal",
        "config.steps": "declared-but-equal",
        "device": "undeclared",
        "dtype.unet": "declared",
        "threads": "unreported",
    }
    assert found["dtype.unet"].note == "half is under test"
    assert (found["device"].reference, found["device"].candidate) == ("cpu", "cuda")
    assert found["threads"].note == "not reported by the reference leg"


def test_a_prefix_covers_whole_words_only_and_the_longest_wins(parts):
    general, exact = Difference(field="dtype", reason="general"), Difference(field="dtype.unet", reason="exact")
    assert rows(parts, [general, exact], dtype__unet="half")["dtype.unet"].note == "exact"
    assert rows(parts, [Difference(field="dty", reason="no")], dtype__unet="half")["dtype.unet"].verdict == "undeclared"


def test_what_outputs_show_counts_and_not_what_a_leg_says_of_them(parts):
    stored = {"output.codec": [("h264", "h264"), ("ffv1", "ffv1")], "device": [("cpu", "cpu"), ("a", "b"), ("b", "a")]}
    found = checklist(parts.effective(), settings(parts, output__codec="av1"), (), stored=stored)
    by_field = {row.field: (row.reference, row.candidate, row.verdict) for row in found}
    assert by_field["output.codec"] == ("ffv1, h264", "ffv1, h264", "equal")
    assert by_field["device"] == ("a", "b", "undeclared")


def test_a_setting_that_only_repeats_the_call_is_shown_as_such(parts):
    repeating = msgspec.structs.replace(
        parts.effective(), environment={"as_called": ["device", "config.guidance_scale"]}
    )
    broken = msgspec.structs.replace(settings(parts, device="cuda"), environment={"as_called": 7})
    found = {row.field: row for row in checklist(repeating, broken, (Difference(field="device", reason="why"),))}
    assert found["config.guidance_scale"].verdict == "equal"
    assert found["config.guidance_scale"].note == "the reference leg: as called, not observed"
    assert found["device"].note == "why; the reference leg: as called, not observed"
    assert "repeats" not in found["dtype.unet"].note
    both = {row.field: row for row in checklist(repeating, repeating, ())}
    assert both["device"].note == "the reference and the candidate leg: as called, not observed"


def test_required_and_declared_fields_that_nobody_reports_have_rows(parts):
    found = checklist(
        parts.effective(), parts.effective(), (Difference(field="attention", reason="why"),), require=("seed", "dtype")
    )
    by_field = {row.field: row for row in found}
    assert by_field["seed"].verdict == by_field["attention"].verdict == "unreported"
    assert by_field["attention"].note == "no leg reports such a setting; declared: why"
    assert "dtype" not in by_field


def test_a_declared_field_that_no_leg_reports_names_the_setting_that_may_be_meant(parts):
    found = rows(parts, [Difference(field="devise", reason="why"), Difference(field="dtipe", reason="half")])
    assert found["devise"].verdict == "unreported"
    assert found["devise"].note == "no leg reports such a setting; did you mean device?; declared: why"
    assert found["dtipe"].note == "no leg reports such a setting; did you mean dtype?; declared: half"


@pytest.mark.parametrize(("number", "words"), [(0, "0 settings"), (1, "1 setting"), (2, "2 settings")])
def test_a_number_and_its_noun_agree(number, words):
    assert counted(number, "setting") == words


def test_what_an_import_still_owes_is_pending_unless_the_other_leg_shows_nothing_to_compare_it_with(parts):
    owes = parts.effective(sigmas=None, pending=("sigmas",))
    status, detail = one("sigmas", owes, parts.effective())
    assert (status, detail) == ("pending", "still to come from the reference leg: the reference leg shows no sigmas")
    assert one("sigmas", owes, parts.effective(sigmas=None))[0] == "unreported"
    assert one("sigmas", owes, owes)[0] == "pending"
    assert one("timesteps", owes, parts.effective())[0] == "equal"


@pytest.mark.parametrize(
    ("setting", "group"),
    [("config.scheduler.beta_end", "randomness"), ("noise_device", "randomness"), ("config.height", "output"),
     ("dtype.text_encoder", "numerics"), ("never_heard_of", "numerics"), ("versions.torch", "source"),
     ("config.negative_prompt", "source"), ("threads", "numerics"), ("encode.codec", "output")],
)  # fmt: skip
def test_every_setting_has_its_heading_and_unknown_ones_belong_to_the_numbers(setting, group):
    assert group_of(setting) == group
