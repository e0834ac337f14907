"""Bounds of the command line: what is refused before anything is read, and what satisfies what."""

from __future__ import annotations

import math

import pytest

from paritygate.compare.aggregate import aggregate
from paritygate.compare.files.bounds import AGGREGATES, check_kinds, judge, known_metric, parse_bounds
from paritygate.compare.files.result import Part, Side
from paritygate.compare.files.sides import series
from paritygate.errors import UsageError
from paritygate.metrics.values import Value, refused


def part(metric: str, values: dict[str, Value], *, kind: str = "video") -> Part:
    side = Side(path="a", bytes=1, sha256="", structure={}, representation="")
    return Part(
        name="clip", kind=kind, keys="frame", reference=side, candidate=side, is_identical=False,
        series=(series(metric, values),),
    )  # fmt: skip


def numbered(*numbers: float) -> dict[str, Value]:
    return {str(index): Value(number) for index, number in enumerate(numbers)}


def test_a_bound_is_metric_aggregate_operator_and_number() -> None:
    ssim, psnr = parse_bounds(["ssim >= 0.97", "abs_diff_max.mean<=1e-2"])
    assert (ssim.metric, ssim.aggregate, ssim.relation, ssim.limit) == ("ssim", "all", "at_least", 0.97)
    assert (psnr.aggregate, psnr.relation, psnr.limit, psnr.text) == (
        "mean",
        "at_most",
        0.01,
        "abs_diff_max.mean<=1e-2",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ssim", "is no bound"),
        ("", "is no bound"),
        ("ssim>=0.9 and more", "is no bound"),
        ("0.9<=ssim", "is no bound"),
        ("ssim<=0.97", "would let every bad value pass"),
        ("abs_diff_max>=0.1", "would let every bad value pass"),
        ("ssim>0.97", "is no operator here"),
        ("ssim==1", "is no operator here"),
        ("sim>=0.9", "no metric 'sim'"),
        ("ssim.avg>=0.9", "no aggregate 'avg'"),
        ("ssim>=nan", "no finite number"),
        ("psnr_db>=inf", "no finite number"),
        ("psnr_db>=1e999", "no finite number"),
        ("ssim>=0x1", "no finite number"),
        ("ssim>=1_0", "no finite number"),
        ("ssim>=97", "outside the range"),
        ("abs_diff_mean<=-1", "outside the range"),
        ("ssim>=-1", "nothing can fail it"),
        ("abs_diff_mean<=1", "nothing can fail it"),
        ("psnr_db>=0", "nothing can fail it"),
        ("mean_level>=0.5", "no bound can judge it"),
        ("l2_ratio<=3", "compares three sides"),
        ("cosine>=0.99", "alone is blind to scale"),
        ("correlation>=0.99", "alone is blind to scale"),
    ],
)
def test_a_bound_that_cannot_gate_is_refused_before_anything_is_read(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bounds([text])
    assert words in caught.value.message


def test_a_misspelt_metric_and_a_wrong_operator_are_told_what_to_write() -> None:
    with pytest.raises(UsageError) as caught:
        known_metric("psrn_db")
    assert caught.value.hint == "did you mean 'psnr_db'?"
    with pytest.raises(UsageError) as caught:
        parse_bounds(["ssim<=0.97"])
    assert caught.value.hint == "write ssim>=0.97"


def test_all_bounds_that_are_wrong_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_bounds(["sim>=0.9", "ssim>=0.9", "psnr_db>=nan"])
    assert caught.value.message.splitlines() == [
        "2 bounds are wrong",
        "  no metric 'sim' (did you mean 'ssim'?)",
        "  'psnr_db>=nan': the limit 'nan' is no finite number (write digits, such as 0.97 or 1e-3)",
    ]


def test_cosine_is_taken_beside_a_bound_on_a_magnitude() -> None:
    assert len(parse_bounds(["cosine>=0.99", "relative_l2<=0.1"])) == 2


def test_one_metric_and_aggregate_has_one_bound() -> None:
    with pytest.raises(UsageError, match="two bounds"):
        parse_bounds(["ssim>=0.9", "ssim.all>=0.8"])


def test_every_aggregate_of_the_grammar_is_one_that_is_computed() -> None:
    assert all(aggregate([1.0, 2.0], how, direction="higher") in (1.0, 1.5, 2.0) for how in AGGREGATES)


def test_a_metric_for_other_things_than_are_compared_is_a_usage_error() -> None:
    check_kinds(["ssim"], {"video", "tensor"})
    with pytest.raises(UsageError, match="ssim is measured on image and video, and what is compared is tensor"):
        check_kinds(["ssim"], {"tensor"})


def test_all_means_the_worst_frame_and_names_it() -> None:
    (outcome,) = judge(parse_bounds(["ssim>=0.9"]), [part("ssim", numbered(0.99, 0.5, 0.98))])
    assert (outcome.satisfied, outcome.value, outcome.values, outcome.worst) == (False, 0.5, 3, "clip frame 1")
    assert outcome.headroom == pytest.approx(-0.4)


def test_one_frame_without_a_number_fails_the_bound_whatever_the_others_are() -> None:
    values = numbered(0.99, 0.99) | {"2": refused("too small")}
    for how in AGGREGATES:
        (outcome,) = judge(parse_bounds([f"ssim.{how}>=0.1"]), [part("ssim", values)])
        assert not outcome.satisfied
        assert math.isnan(outcome.value)
        assert outcome.problem == "clip frame 2: too small"


def test_a_bound_that_judged_nothing_is_not_met() -> None:
    (outcome,) = judge(parse_bounds(["ssim>=0.1"]), [part("psnr_db", numbered(50.0))])
    assert (outcome.satisfied, outcome.values) == (False, 0)
    assert "judged nothing" in outcome.problem


def test_one_perfect_frame_does_not_carry_the_mean_of_psnr() -> None:
    (outcome,) = judge(parse_bounds(["psnr_db.mean>=30"]), [part("psnr_db", numbered(math.inf, 20.0, 22.0))])
    assert (outcome.satisfied, outcome.value) == (False, 21.0)
