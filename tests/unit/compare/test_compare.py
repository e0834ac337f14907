"""Whole comparisons over real files: equal legs, known differences, and every way to be invalid."""

from __future__ import annotations

import math
import os

import msgspec
import numpy as np
import pytest

from paritygate.compare.compare import compare_legs
from paritygate.compare.pixels import Pixels, laid_on
from paritygate.manifest.case import Feature
from paritygate.media.images import encode_png
from paritygate.records.codec import dumps, loads
from paritygate.records.model import Comparison


class Run:
    """Two legs on disk that agree until a test changes something."""

    def __init__(self, parts, root):
        self.parts = parts
        self.dir = root / "run"
        self.case = parts.build_case(root)
        self.items = parts.build_items()
        self.reference = self.write("reference")
        self.candidate = self.write("candidate", shift=1 / 255)

    def write(self, name, *, shift=0.0, images=None, **changes):
        images = images or {item.id: [self.parts.picture(index, shift=shift)] for index, item in enumerate(self.items)}
        return self.parts.write_leg(self.dir, name, images, **changes)

    def change(self, **changes):
        self.case = msgspec.structs.replace(self.case, **changes)

    def compare(self):
        result = compare_legs(
            self.case, self.items, reference=self.reference, candidate=self.candidate, run_dir=self.dir
        )
        assert loads(dumps(result), Comparison) is not None
        return result

    def swap(self, leg, item, array):
        """Replace one image of a leg, digest included, as a leg that writes it would."""
        for path in (self.dir / leg / "outputs" / item).iterdir():
            path.unlink()
        record = getattr(self, leg)
        one = self.parts.write_leg(self.dir, leg, {item: [array]}).items[0]
        items = tuple(one if entry.id == item else entry for entry in record.items)
        setattr(self, leg, msgspec.structs.replace(record, items=items))


@pytest.fixture
def run(parts, tmp_path):
    return Run(parts, tmp_path)


def codes(comparison):
    return [finding.code for finding in comparison.invalid]


def test_a_known_shift_gives_the_known_numbers(run):
    result = run.compare()
    assert result.invalid == ()
    by_id = {entry.id: entry for entry in result.measurements}
    assert list(by_id) == ["output.psnr_db.min", "output.ssim.min", "output.abs_diff_max.max"]
    assert by_id["output.abs_diff_max.max"].value == pytest.approx(1 / 255)
    assert by_id["output.psnr_db.min"].value == pytest.approx(48.13, abs=0.1)
    assert list(by_id["output.psnr_db.min"].values) == ["000/0", "001/0", "002/0"]
    assert by_id["output.psnr_db.min"].target == 30
    assert [entry.status for entry in result.exact] == ["equal"] * 3
    assert {row.verdict for row in result.checklist} == {"equal"}
    assert not result.bit_identical
    assert result.feature is None


def test_an_item_without_a_declared_size_must_have_the_size_it_asked_for(run):
    run.change(output=msgspec.structs.replace(run.case.output, width=None, height=None))
    small = run.parts.picture(1)[:16, :16]
    for leg in ("reference", "candidate"):
        run.swap(leg, "001", small)
    assert run.compare().invalid == ()
    size = {"width": 24, "height": 24}
    run.items = tuple(msgspec.structs.replace(item, request={**item.request, **size}) for item in run.items)
    result = run.compare()
    assert codes(result) == ["size", "size"]
    assert "is 16x16, declared 24x24" in result.invalid[0].message


def test_shared_latents_are_compared_even_when_no_exact_item_asks_for_it(run):
    run.change(initial_latents="shared")
    assert [entry.name for entry in run.compare().exact] == [*run.case.measure.exact, "initial_latents"]
    run.change(measure=msgspec.structs.replace(run.case.measure, exact=("initial_latents", "token_ids")))
    assert [entry.name for entry in run.compare().exact] == ["initial_latents", "token_ids"]


def test_the_worst_item_is_the_damaged_one_by_the_direction_of_the_metric(run):
    run.swap("candidate", "001", run.parts.picture(1, shift=0.2))
    for entry in run.compare().measurements:
        assert entry.worst_item == "001/0"
        assert entry.value == entry.values["001/0"]
        assert entry.typical == sorted(entry.values.values())[1]


def test_equal_legs_are_bit_identical_with_infinite_psnr_kept(run):
    run.candidate = run.write("candidate")
    result = run.compare()
    assert result.bit_identical
    assert result.measurements[0].value == math.inf
    assert loads(dumps(result), Comparison).measurements[0].value == math.inf


def test_float_pixels_are_measured_before_rounding(run):
    entries = (
        run.parts.measurement("abs_diff_max", "max", pixels="float"),
        run.parts.measurement("abs_diff_max", "max"),
    )
    run.change(measure=msgspec.structs.replace(run.case.measure, output=entries))
    run.candidate = run.write("candidate", shift=1e-4)
    before, after = run.compare().measurements
    assert before.id == "output.float.abs_diff_max.max"
    assert before.value == pytest.approx(1e-4, rel=1e-2)
    assert after.value in (0.0, pytest.approx(1 / 255))


# Sixteen ways to go silently green (models.md section 5): those that belong to a comparison.


def test_trap_1_a_metric_that_cannot_be_computed_has_a_reason_and_no_number(run):
    entry = run.parts.measurement("psnr_db", "min", pixels="float")
    run.change(measure=msgspec.structs.replace(run.case.measure, output=(entry,)))
    images = {item.id: [np.rint(run.parts.picture(i) * 255).astype(np.uint8)] for i, item in enumerate(run.items)}
    for path in (run.dir / "candidate" / "outputs").rglob("*.npy"):
        path.unlink()
    run.candidate = run.write("candidate", images=images)
    (measured,) = run.compare().measurements
    assert math.isnan(measured.value)
    assert measured.problem == "000/0: no float pixels from the candidate leg"


def test_trap_1_ssim_of_images_below_its_window_has_a_reason_and_no_number(run):
    images = {item.id: [run.parts.picture(i)[:8, :8]] for i, item in enumerate(run.items)}
    run.change(output=msgspec.structs.replace(run.case.output, width=8, height=8))
    run.reference, run.candidate = run.write("reference", images=images), run.write("candidate", images=images)
    by_id = {entry.id: entry for entry in run.compare().measurements}
    assert math.isnan(by_id["output.ssim.min"].value)
    assert "not applicable" in by_id["output.ssim.min"].problem
    assert by_id["output.psnr_db.min"].problem == ""


@pytest.mark.parametrize("leg", ["reference", "candidate"])
def test_trap_2_an_output_missing_on_either_side_is_invalid(run, leg):
    record = getattr(run, leg)
    setattr(run, leg, msgspec.structs.replace(record, items=record.items[:2]))
    result = run.compare()
    assert "missing-output" in codes(result)
    assert result.invalid[0].item == "002"
    assert result.measurements == ()


@pytest.mark.parametrize("leg", ["reference", "candidate"])
def test_trap_3_a_shorter_or_longer_item_is_invalid_not_cut(run, leg):
    record = getattr(run, leg)
    doubled = msgspec.structs.replace(record.items[1], images=record.items[1].images[:0])
    setattr(run, leg, msgspec.structs.replace(record, items=(record.items[0], doubled, record.items[2])))
    result = run.compare()
    assert "image-count" in codes(result)
    assert "gave 0 images, expected 1 (item 001)" in result.invalid[0].message


def test_trap_4_an_empty_suite_compares_nothing_and_says_so(run):
    run.items = ()
    run.reference = msgspec.structs.replace(run.reference, items=())
    run.candidate = msgspec.structs.replace(run.candidate, items=())
    assert codes(run.compare()) == ["nothing-compared"]


def test_trap_4_no_measurement_at_all_compares_nothing_and_says_so(run):
    run.change(measure=msgspec.structs.replace(run.case.measure, exact=(), output=()))
    assert codes(run.compare()) == ["nothing-compared"]


@pytest.mark.parametrize("leg", ["reference", "candidate"])
def test_trap_6_a_wrong_size_is_invalid_and_nothing_is_resized(run, leg):
    run.swap(leg, "002", run.parts.picture(2)[:, :20])
    result = run.compare()
    assert codes(result) == ["size"]
    assert "is 20x24, declared 24x24; nothing is resized" in result.invalid[0].message
    assert result.invalid[0].item == "002"
    assert result.measurements == ()


def test_trap_6_undeclared_sizes_must_still_be_equal(run):
    run.change(output=msgspec.structs.replace(run.case.output, width=None, height=None))
    assert run.compare().invalid == ()
    run.swap("candidate", "002", run.parts.picture(2)[:, :20])
    assert "the reference is 24x24, the candidate 20x24" in run.compare().invalid[0].message


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_trap_7_a_value_that_is_not_finite_is_invalid_even_on_both_sides(run, value):
    poisoned = run.parts.picture(1)
    run.swap("reference", "001", poisoned)
    run.swap("candidate", "001", poisoned)
    poisoned[3, 4, 2] = value
    for leg in ("reference", "candidate"):
        record = getattr(run, leg)
        digest = run.parts.store(run.dir / leg, "outputs/001/0.npy", run.parts.npy_bytes(poisoned))
        image = msgspec.structs.replace(record.items[1].images[0], float_sha256=digest)
        item = msgspec.structs.replace(record.items[1], images=(image,))
        setattr(run, leg, msgspec.structs.replace(record, items=(record.items[0], item, record.items[2])))
    result = run.compare()
    assert codes(result) == ["non-finite", "non-finite"]
    assert "1 NaN or infinite values, the first at (y, x, channel) (3, 4, 2)" in result.invalid[0].message


def test_trap_13_items_are_matched_by_id_not_by_position_or_prompt(run):
    run.candidate = msgspec.structs.replace(run.candidate, items=run.candidate.items[::-1])
    assert run.compare().measurements[2].value == pytest.approx(1 / 255)


# Further invalid outputs.


def with_one_bright_pixel(shape):
    image = np.full(shape, 0.4)
    image[3, 4] = 1.0
    return image


@pytest.mark.parametrize("leg", ["reference", "candidate"])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (np.zeros, "all black"),
        (lambda shape: np.full(shape, 0.4), "one constant colour (102, 102, 102)"),
        (lambda shape: 0.4 + 0.002 * np.random.default_rng(0).standard_normal(shape), "nearly constant"),
        (with_one_bright_pixel, "nearly constant"),
    ],
    ids=["black", "constant", "noise-below-a-level", "one-pixel"],
)  # fmt: skip
def test_an_output_without_a_picture_is_invalid_on_either_side(run, leg, make, reason):
    size = 40  # one outlier among 1,600 pixels
    run.change(output=msgspec.structs.replace(run.case.output, width=size, height=size))
    images = {item.id: [np.kron(run.parts.picture(i), np.ones((2, 2, 1), np.float32))[:size, :size]]
              for i, item in enumerate(run.items)}  # fmt: skip
    run.reference, run.candidate = run.write("reference", images=images), run.write("candidate", images=images)
    run.swap(leg, "001", make((size, size, 3)).astype(np.float32))
    result = run.compare()
    assert codes(result) == ["degenerate"]
    assert f"the {leg} leg, item 001" in result.invalid[0].message
    assert reason in result.invalid[0].message


def test_a_small_drawing_on_white_paper_is_a_picture(run):
    paper = np.ones((run.parts.size, run.parts.size, 3), np.float32)
    paper[10:13, 10:12] = 0.1
    run.swap("candidate", "001", paper)
    assert run.compare().invalid == ()


def test_an_extra_item_is_invalid(run):
    images = {name: [run.parts.picture(1)] for name in ("000", "001", "002", "003")}
    run.candidate = run.write("candidate", images=images)
    assert codes(run.compare()) == ["extra-output"]


def test_a_file_that_the_leg_did_not_list_is_invalid(run):
    (run.dir / "candidate" / "outputs" / "000" / "1.png").write_bytes(b"left over")
    result = run.compare()
    assert codes(result) == ["extra-output"]
    assert "outputs/000/1.png" in result.invalid[0].message


def test_one_file_cannot_answer_two_items(run):
    first, second, third = run.candidate.items
    twice = msgspec.structs.replace(second, images=first.images)
    run.candidate = msgspec.structs.replace(run.candidate, items=(first, twice, third))
    assert "shared-file" in codes(run.compare())


def test_a_file_changed_after_the_leg_recorded_it_is_invalid(run):
    path = run.dir / "candidate" / "outputs" / "001" / "0.png"
    path.write_bytes((run.dir / "reference" / "outputs" / "001" / "0.png").read_bytes())
    result = run.compare()
    assert codes(result) == ["digest"]
    assert "is not the file that the leg recorded" in result.invalid[0].message


def test_float_pixels_of_another_image_are_invalid(run):
    record = run.candidate
    other = run.parts.npy_bytes(run.parts.picture(0))
    digest = run.parts.store(run.dir / "candidate", "outputs/001/0.npy", other)
    item = record.items[1]
    image = msgspec.structs.replace(item.images[0], float_sha256=digest)
    items = (record.items[0], msgspec.structs.replace(item, images=(image,)), record.items[2])
    run.candidate = msgspec.structs.replace(record, items=items)
    assert codes(run.compare()) == ["float-mismatch"]


def test_a_truncating_candidate_is_comparable_so_that_the_metrics_can_tell(run):
    floats = run.parts.picture(1)
    run.swap("candidate", "001", floats)
    record = run.candidate
    floored = np.floor(floats * 255).astype(np.uint8)
    digest = run.parts.store(run.dir / "candidate", "outputs/001/0.png", encode_png(floored))
    item = record.items[1]
    image = msgspec.structs.replace(item.images[0], sha256=digest)
    items = (record.items[0], msgspec.structs.replace(item, images=(image,)), record.items[2])
    run.candidate = msgspec.structs.replace(record, items=items)
    assert run.compare().invalid == ()


@pytest.mark.parametrize("path", ["/etc/hostname", "../reference/outputs/001/0.png", "outputs/001/none.png"])
def test_a_hostile_or_missing_path_is_invalid(run, path):
    record = run.candidate
    item = record.items[1]
    image = msgspec.structs.replace(item.images[0], path=path if path.endswith(".png") else f"{path}.png")
    items = (record.items[0], msgspec.structs.replace(item, images=(image,)), record.items[2])
    run.candidate = msgspec.structs.replace(record, items=items)
    result = run.compare()
    assert set(codes(result)) <= {"path", "unreadable", "extra-output"}
    assert result.measurements == ()


def test_a_link_to_the_reference_is_not_a_candidate_output(run):
    path = run.dir / "candidate" / "outputs" / "001" / "0.png"
    path.unlink()
    os.link(run.dir / "reference" / "outputs" / "001" / "0.png", run.dir / "keep.png")
    path.symlink_to(run.dir / "keep.png")
    assert "path" in codes(run.compare())


def test_layers_are_counted_and_named(run):
    run.change(output=msgspec.structs.replace(run.case.output, layers=2))
    images = {item.id: [run.parts.picture(i), run.parts.picture(i + 9)] for i, item in enumerate(run.items)}
    run.reference, run.candidate = run.write("reference", images=images), run.write("candidate", images=images)
    assert list(run.compare().measurements[0].values) == ["000/0", "000/1", "001/0", "001/1", "002/0", "002/1"]


def test_a_leg_that_broke_early_still_gives_a_comparison(run):
    run.candidate = msgspec.structs.replace(run.candidate, items=(), effective=None)
    result = run.compare()
    assert codes(result).count("missing-output") == 3
    assert {entry.status for entry in result.exact} == {"unreported"}
    assert {row.verdict for row in result.checklist} == {"unreported"}


# Acceleration: evidence that the feature ran.


def accelerate(run, counters, *, declared=True):
    feature = Feature(name="int8", baseline="float32", enabled_by="quantize", exercised_by="quantised_nodes")
    leg = run.parts.build_leg("candidate", feature=feature if declared else None)
    run.change(claim="acceleration", candidate=leg)
    effective = run.parts.effective(features={"int8": counters} if counters is not None else {})
    run.candidate = msgspec.structs.replace(run.candidate, effective=effective)
    return run.compare().feature


def test_a_positive_counter_is_evidence(run):
    finding = accelerate(run, {"quantised_nodes": 12})
    assert (finding.code, finding.message) == ("feature-exercised", "int8.quantised_nodes = 12")


@pytest.mark.parametrize("counters", [None, {}, {"other": 3}, {"quantised_nodes": 0}, {"quantised_nodes": "12"},
                                      {"quantised_nodes": math.nan}, {"quantised_nodes": False}])  # fmt: skip
def test_without_a_positive_counter_the_feature_was_not_exercised(run, counters):
    assert accelerate(run, counters).code == "feature-not-exercised"


def test_an_acceleration_case_without_a_feature_shows_nothing(run):
    assert accelerate(run, {"quantised_nodes": 1}, declared=False).code == "feature-not-exercised"


def test_an_identical_output_of_an_idle_feature_is_named(run):
    run.candidate = run.write("candidate")
    assert "bit-identical to the reference" in accelerate(run, {"quantised_nodes": 0}).message


# What a metric tells of its worst value.


def test_the_worst_tile_of_the_worst_item_is_named_by_its_place(run):
    size = 64
    images = {item.id: [np.kron(run.parts.picture(i), np.ones((3, 3, 1), np.float32))[:size, :size]]
              for i, item in enumerate(run.items)}  # fmt: skip
    measured = (run.parts.measurement("abs_diff_worst_tile", "max"), run.parts.measurement("signed_mean_worst", "max"))
    run.change(
        output=msgspec.structs.replace(run.case.output, width=size, height=size),
        measure=msgspec.structs.replace(run.case.measure, output=measured),
    )
    run.reference, run.candidate = run.write("reference", images=images), run.write("candidate", images=images)
    holed = images["001"][0].copy()
    holed[16:32, 32:48, 0] = 1 - holed[16:32, 32:48, 0]
    run.swap("candidate", "001", holed)
    tile, signed = run.compare().measurements
    assert (tile.worst_item, tile.worst_detail) == ("001/0", {"x": 32, "y": 16, "width": 16, "height": 16})
    means = signed.worst_detail["signed_mean_per_channel"]
    assert abs(means[0]) == signed.value > 0
    assert means[1:] == [0, 0]


# Layers and alpha.


def layered(run, *, order=(0, 1, 2), **changes):
    """Both legs give three RGBA layers an item; the candidate in this order."""
    run.change(
        output=msgspec.structs.replace(run.case.output, layers=3, mode="RGBA", alpha="straight", **changes),
        measure=msgspec.structs.replace(run.case.measure, output=(run.parts.measurement("abs_diff_max", "max"),)),
    )
    layers = []
    for number in range(3):
        colour = run.parts.picture(number)
        layers.append(np.concatenate([colour, 0.25 * number + 0.5 * run.parts.picture(9)[..., :1]], axis=2))
    run.reference = run.write("reference", images={item.id: layers for item in run.items})
    run.candidate = run.write("candidate", images={item.id: [layers[i] for i in order] for item in run.items})
    return layers


def test_layers_are_an_ordered_sequence_compared_index_by_index(run):
    layered(run)
    assert run.compare().bit_identical
    layered(run, order=(0, 2, 1))
    (measured,) = run.compare().measurements
    assert list(measured.values)[:3] == ["000/0", "000/1", "000/2"]
    assert measured.values["000/0"] == 0
    assert min(measured.values["000/1"], measured.values["000/2"]) > 0.1


def test_alpha_counts_like_a_colour_and_nothing_is_composited_unless_declared(run):
    layers = layered(run)
    clear = layers[1].copy()
    clear[..., 3] = 0
    for leg, colour in (("reference", 0.2), ("candidate", 0.9)):
        hidden = clear.copy()
        hidden[4:8, 4:8, :3] = colour
        setattr(run, leg, run.write(leg, images={item.id: [layers[0], hidden, layers[2]] for item in run.items}))
    (bare,) = run.compare().measurements
    assert bare.values["000/1"] == pytest.approx(0.7, abs=0.01), "colour under full transparency is part of the output"
    run.change(output=msgspec.structs.replace(run.case.output, composite="#336699"))
    result = run.compare()
    assert result.measurements[0].value == 0, "on a colour, what is transparent cannot be seen"
    assert not result.bit_identical


def test_a_missing_layer_is_counted_not_skipped(run):
    layers = layered(run)
    run.candidate = run.write("candidate", images={item.id: layers[:2] for item in run.items})
    result = run.compare()
    assert set(codes(result)) == {"image-count", "extra-output"}
    assert "gave 2 images, expected 3 (item 000)" in result.invalid[0].message


@pytest.mark.parametrize(("alpha", "expected"), [("straight", [0.75, 0.5, 0.5]), ("premultiplied", [0.95, 0.5, 0.5])])
def test_a_declared_colour_is_what_half_transparent_red_is_laid_on(alpha, expected):
    rgba = np.array([[[1.0, 0.5, 0.5, 0.5]]], np.float32) if alpha == "straight" else None
    rgba = np.array([[[0.7, 0.25, 0.25, 0.5]]], np.float32) if rgba is None else rgba
    pixels = Pixels(stored=np.rint(rgba * 255).astype(np.uint8), floats=rgba)
    laid = laid_on(pixels, "#808080", alpha=alpha)
    background = 0x80 / 255
    colour = rgba[0, 0, :3] * (0.5 if alpha == "straight" else 1)
    assert laid.floats[0, 0] == pytest.approx(colour + 0.5 * background)
    assert laid.floats[0, 0] == pytest.approx(expected, abs=0.003)
    assert np.abs(laid.stored[0, 0] / 255 - laid.floats[0, 0]).max() < 1.2 / 255
