"""The report of whole runs: what stands in it, that it stays inert and small, and that it always comes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paritygate.errors import ArtifactError
from paritygate.manifest.case import Feature, InputMedia
from paritygate.media.images import decode_image
from paritygate.records.model import ChecklistRow, Comparison, ExactResult, Finding, Real, Status, Verdict
from paritygate.report.checklist import checklist_rows
from paritygate.report.files import write_report
from paritygate.report.markdown import MAX_BYTES, render
from paritygate.report.pictures import amplification, draw_worst_pairs, worst_pair_picture
from paritygate.report.provenance import log_tail
from paritygate.report.result import MEANINGS

CHANGED = "**The case has changed since this run**"
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "report"


def report(story, **changes):
    return write_report(story.record(**changes), story.dir, story.case).read_text(encoding="utf-8")


def broken(story):
    story.candidate = msgspec.structs.replace(
        story.candidate, items=(), failure="memory", exit_code=137, message="killed: out of memory", effective=None
    )
    (story.dir / "candidate" / "log.txt").write_text("loading <model>\nCUDA out of memory\n")
    story.verdict = Verdict(
        status=Status.ERROR, reasons=(Finding(code="leg-memory", message="the candidate leg broke"),), scope="",
        gate="no gate file", gate_status="none",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["provisional", "error"])
def test_the_report_is_the_sample_on_file(story, name):
    if name == "error":
        broken(story)
    text = report(story).replace(story.record().contract, "sha256:" + "a" * 64)
    path = SAMPLES / f"{name}.md"
    if os.environ.get("PARITYGATE_WRITE_SAMPLES"):
        path.write_text(text, encoding="utf-8")
        pytest.fail("the sample was written, read its diff and run again: writing and checking never go together")
    assert text == path.read_text(encoding="utf-8")


def test_the_verdict_and_its_reasons_come_first_and_say_what_provisional_means(story):
    head = report(story).split("### ")[0]
    assert head.startswith("## demo: provisional\n")
    assert "this is not a pass" in head
    assert "<code>proposed-bounds</code> the bounds are proposed" in head
    assert "Scope: the scope" in head


def test_every_verdict_is_explained():
    assert set(MEANINGS) == set(Status)


def test_the_measurement_table_has_value_bound_headroom_typical_worst_and_target(story):
    rows = [line for line in report(story).splitlines() if line.startswith("| <code>")]
    assert rows[0].startswith("| <code>output.psnr\\_db.min</code> | 42.2 dB | at least 30 dB | 12.2 dB | yes | 4")
    assert rows[0].endswith(" | 30 dB |")
    assert rows[1] == "| <code>gone</code> | no value | at most 1 | no value | **no** |  |  |  |"
    assert any(row.startswith("| <code>output.ssim.min</code>") and "| none |" in row for row in rows)


def test_the_worst_pair_is_drawn_with_its_difference_and_its_prompt(story):
    story.candidate = msgspec.structs.replace(story.candidate)
    text = report(story)
    line = next(line for line in text.splitlines() if line.startswith("Item "))
    assert "difference x64 (largest: 2 of 255 levels), enlarged 10x (nearest neighbour)" in line
    item = line.split("<code>")[1][:3]
    assert f"Request: prompt: {['a cat', 'a dog', 'an owl'][int(item)]}; seed: 40" in text
    picture = decode_image((story.dir / "pictures" / f"worst-{item}-0.png").read_bytes(), mode="RGB", name="x.png")
    side = story.parts.size * 10
    assert picture.shape == (side, 3 * side + 16, 3)
    stored = decode_image((story.dir / "reference" / "outputs" / item / "0.png").read_bytes(), mode="RGB", name="x.png")
    assert np.array_equal(picture[5:side:10, 5:side:10], stored)
    assert 2 * 64 in picture[:, -side:]


def test_the_request_behind_a_pair_tells_what_the_suite_varies(story):
    suite = {"sizes": [[24, 24]], "guidance": [1.5, 3, 6]}
    story.case = msgspec.structs.replace(
        story.case, document={"request": {"prompt": "a cat", "seed": 40, "strength": 0.5}, "suite": suite}
    )
    assert "Request: prompt: a cat; width: 24; height: 24; guidance scale: 1.5; seed: 40" in report(story)


def test_equal_pairs_are_drawn_only_when_all_are_equal(story):
    images = {item.id: [story.parts.picture(i)] for i, item in enumerate(story.items)}
    images["001"] = [story.parts.picture(1, shift=2 / 255)]
    story.candidate = story.parts.write_leg(story.dir, "candidate", images)
    assert [picture.key for picture in draw_worst_pairs(story.record(), story.dir, story.case)[0]] == ["001/0"]
    story.candidate = story.leg("candidate", 0.0)
    assert [picture.key for picture in draw_worst_pairs(story.record(), story.dir, story.case)[0]] == ["000/0"]
    assert "no difference in the stored pixels" in report(story)


@pytest.mark.parametrize(("largest", "factor"), [(0, 1), (1, 128), (2, 64), (3, 64), (127, 2), (128, 1), (255, 1)])
def test_a_difference_is_amplified_as_far_as_it_fits(largest, factor):
    assert amplification(largest) == factor


def test_a_transparent_and_an_opaque_picture_differ_in_their_difference(tmp_path):
    opaque = np.full((4, 4, 4), 255, np.uint8)
    clear = opaque.copy()
    clear[..., 3] = 0
    picture = worst_pair_picture(opaque, clear, key="a/0", measurements=(), run_dir=tmp_path)
    assert picture.largest_difference == 255
    assert decode_image((tmp_path / picture.path).read_bytes(), mode="RGB", name="x.png")[0, -1].tolist() == [
        255,
        255,
        255,
    ]


def test_a_run_without_outputs_still_gives_a_report_that_says_where(story):
    broken(story)
    text = report(story)
    assert text.startswith("## demo: error\n")
    assert "The candidate leg broke (memory): killed: out of memory" in text
    assert "loading &lt;model&gt;\nCUDA out of memory\n</pre>" in text
    assert "<code>candidate/log.txt</code>" in text
    assert text.index("### Legs") < text.index("### Exact layer")
    assert "Worst pairs" not in text


def test_a_run_that_could_not_start_has_a_report_too(story):
    verdict = Verdict(
        status=Status.UNVALIDATED, reasons=(Finding(code="hardware", message="needs an H100"),), scope="nothing ran",
        gate="not looked up", gate_status="none",
    )  # fmt: skip
    text = report(story, legs=(), comparison=Comparison(), verdict=verdict)
    assert text.startswith("## demo: unvalidated\n")
    assert "<code>hardware</code> needs an H100" in text


def test_an_invalid_item_is_shown_where_both_images_can_be_read(story):
    record = story.record()
    finding = Finding(code="degenerate", message="the candidate leg, item 001: all black", item="001")
    comparison = msgspec.structs.replace(record.comparison, invalid=(finding,), measurements=())
    text = report(story, comparison=comparison)
    assert "pictures/worst-001-0.png" in text
    assert "output layer: the outputs could not be compared" in text


def test_a_pair_that_cannot_be_drawn_is_named(story):
    record = story.record()
    (story.dir / "candidate" / "outputs" / "001" / "0.png").unlink()
    finding = Finding(code="unreadable", message="gone", item="001")
    comparison = msgspec.structs.replace(record.comparison, invalid=(finding,), measurements=())
    text = write_report(msgspec.structs.replace(record, comparison=comparison), story.dir, story.case).read_text()
    assert "- no picture of 001/0: outputs/001/0.png: No such file" in text


def test_a_hostile_item_name_draws_nothing_and_breaks_nothing(story):
    record = story.record()
    findings = tuple(
        Finding(code="extra-output", message="extra", item=name) for name in ("../../../x", "a/b", "y" * 400)
    )
    comparison = msgspec.structs.replace(record.comparison, invalid=findings, measurements=())
    pictures, failures = draw_worst_pairs(msgspec.structs.replace(record, comparison=comparison), story.dir, story.case)
    assert pictures == ()
    assert len(failures) == 3


def test_text_from_manifests_legs_and_logs_stays_inert(story):
    evil = "</script><script>x</script> | `a` \n# b"
    log = story.dir / "candidate" / "log.txt"
    log.write_text("</pre><script>x</script>\n")
    story.case = msgspec.structs.replace(
        story.case, title=evil, document={"request": {"prompt": "p"}, "suite": {"prompts": [evil] * 3}},
        coverage=msgspec.structs.replace(story.case.coverage, gaps=(evil,)),
    )  # fmt: skip
    settings = {**story.candidate.effective.settings, "device": evil}
    effective = msgspec.structs.replace(
        story.candidate.effective, settings=settings, environment={evil: {evil: [evil]}}
    )
    story.candidate = msgspec.structs.replace(
        story.candidate, effective=effective, failure="crash", exit_code=1, message=evil, interpreter=evil
    )
    story.verdict = msgspec.structs.replace(
        story.verdict, scope=evil, gate=evil, reasons=(Finding(code="x", message=evil),)
    )
    text = report(story, environment={evil: evil})
    assert "<script>" not in text
    assert "</script>" not in text
    assert "\n# b" not in text
    assert text.count("</pre>") == text.count("<pre>") == 2
    assert text.count("script&gt;") >= 10


def test_unequal_settings_are_listed_first_and_equal_ones_folded(story):
    rows = [ChecklistRow(field=f"equal.{i}", reference="1", candidate="1", verdict="equal", note="") for i in range(40)]
    rows += [ChecklistRow(field="b", reference="x", candidate="y", verdict="declared", note="why"),
             ChecklistRow(field="c", reference="x", candidate="y", verdict="undeclared", note="")]  # fmt: skip
    comparison = msgspec.structs.replace(story.record().comparison, checklist=tuple(rows))
    text = report(story, comparison=comparison)
    assert "47 rows: 1 undeclared, 1 declared, 45 equal." in text
    assert text.index("<code>c</code>") < text.index("<code>b</code>") < text.index("45 rows more")
    assert text.index("45 rows more") < text.index("<code>equal.7</code>")


def test_an_acceleration_report_shows_the_evidence_and_the_fidelity_lost(story):
    feature = Feature(name="int8", baseline="float32", enabled_by="quantize", exercised_by="nodes")
    story.case = msgspec.structs.replace(
        story.case, claim="acceleration", candidate=msgspec.structs.replace(story.case.candidate, feature=feature)
    )
    effective = msgspec.structs.replace(story.candidate.effective, features={"int8": {"nodes": 12}})
    story.candidate = msgspec.structs.replace(story.candidate, effective=effective, duration_s=0.5)
    section = report(story).split("### Acceleration")[1].split("###")[0]
    assert "Evidence that it ran: int8.nodes = 12." in section
    assert "| <code>output.psnr\\_db.min</code> | inf dB | 42" in section
    assert "reference / candidate = 3.00" in section


def test_what_was_not_measured_is_said(story):
    effective = msgspec.structs.replace(story.candidate.effective, token_ids={})
    story.candidate = msgspec.structs.replace(story.candidate, effective=effective)
    section = report(story).split("### Not measured")[1].split("### Reproduce")[0]
    assert "exact item <code>token\\_ids</code>: of 3 items the reference shows 3, the candidate 0" in section
    assert "parts layer" in section
    assert "gap stated by the case: batch &gt; 1" in section


def test_the_commands_to_repeat_the_run_are_quoted(story):
    story.case = msgspec.structs.replace(story.case, id="it's; rm -rf x")
    assert "paritygate run 'it'\"'\"'s; rm -rf x'" in report(story).replace("&#x27;", "'")


def test_a_report_fits_an_annotation_whatever_a_run_holds(story):
    record = story.record()
    (first, *_) = record.comparison.measurements
    values = {f"{i:05d}/0": Real(i) for i in range(20_000)}
    huge = tuple(msgspec.structs.replace(first, id=f"m{i}", problem="&" * 5000, values=values) for i in range(400))
    rows = tuple(
        ChecklistRow(field=f"f{i}", reference="|" * 900, candidate="&" * 900, verdict="undeclared", note="<" * 900)
        for i in range(2000)
    )
    comparison = msgspec.structs.replace(record.comparison, measurements=huge, checklist=rows)
    reasons = tuple(Finding(code="x", message="<" * 4000) for _ in range(60))
    record = msgspec.structs.replace(
        record, comparison=comparison, verdict=msgspec.structs.replace(record.verdict, reasons=reasons)
    )
    text = render(record, story.dir, story.case)
    assert len(text.encode()) < 1 << 20
    assert MAX_BYTES < 1 << 20
    assert text.startswith("## demo: provisional")
    assert "Left out because the report would be too large: " in text
    assert "paritygate run demo" in text


def test_the_log_tail_is_short_and_never_leaves_the_run(story, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (story.dir / "candidate" / "log.txt").write_text("".join(f"line {i}\n" for i in range(100_000)))
    lines = log_tail(story.dir, "candidate/log.txt")
    assert lines[-1] == "line 99999"
    assert len(lines) == 40
    (story.dir / "candidate" / "link.txt").symlink_to(tmp_path / "secret")
    for name in ("../secret", "candidate/link.txt", "candidate/none.txt"):
        (line,) = log_tail(story.dir, name)
        assert line.startswith("(the log cannot be read:")
    (story.dir / "candidate" / "log.txt").write_text("")
    assert log_tail(story.dir, "candidate/log.txt") == ["(the log is empty)"]


def test_a_prompt_file_that_is_gone_does_not_stop_a_report(story):
    record = story.record()
    document = {"request": {"prompt": "p"}, "suite": {"prompts": "cases/gone.txt"}}
    case = msgspec.structs.replace(story.case, document=document)
    text = write_report(record, story.dir, case).read_text(encoding="utf-8")
    assert "Request:" not in text
    assert CHANGED in text


def test_an_old_record_is_not_told_with_the_facts_of_a_case_that_has_changed(story):
    record = story.record()
    assert CHANGED not in report(story)
    document = {**story.case.document, "suite": {"prompts": ["another cat", "b", "c"]}}
    model = msgspec.structs.replace(story.case.model, revision="1" * 40)
    case = msgspec.structs.replace(story.case, document=document, model=model)
    text = write_report(record, story.dir, case).read_text(encoding="utf-8")
    assert text.count(CHANGED) == 1
    assert text.index(CHANGED) < text.index("### Measurements")
    assert "another cat" not in text
    assert "batch" not in text
    assert f"org/demo@{'0' * 40} (trained weights)" in text


def test_secrets_in_a_log_do_not_reach_the_report(story, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hf_abcdefgh")
    log = story.dir / "candidate" / "log.txt"
    log.write_text("x" * (40 << 10) + "hf_abcdefgh" + "y" * ((32 << 10) - 20) + "\nused hf_abcdefgh\n")
    assert log_tail(story.dir, "candidate/log.txt") == ["used ***"]


def test_writing_again_gives_the_same_report_and_a_full_disk_keeps_the_old_one(story, monkeypatch):
    first = report(story)
    assert report(story) == first
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ArtifactError, match="No space left"):
        report(story)
    assert (story.dir / "report.md").read_text(encoding="utf-8") == first


def test_float_columns_are_known_by_their_pixels_and_hostile_metrics_stay_inert(story):
    record = story.record()
    (first, *_) = record.comparison.measurements
    named = msgspec.structs.replace(first, id="smoothness", pixels="float")
    odd = msgspec.structs.replace(first, id="odd", metric="a | <b>")
    comparison = msgspec.structs.replace(record.comparison, measurements=(first, named, odd))
    text = report(story, comparison=comparison)
    assert "| item | psnr\\_db | psnr\\_db (float) | a \\| &lt;b&gt; |" in text


@pytest.mark.parametrize("key", ["000/-1", "000/x", "000/", "000/\N{SUPERSCRIPT TWO}", "000/" + "9" * 5000, "000"])
def test_the_worst_item_of_an_edited_record_draws_nothing_and_breaks_nothing(story, key):
    record = story.record()
    (first, *_) = record.comparison.measurements
    comparison = msgspec.structs.replace(
        record.comparison, measurements=(msgspec.structs.replace(first, worst_item=key),)
    )
    pictures, failures = draw_worst_pairs(msgspec.structs.replace(record, comparison=comparison), story.dir, story.case)
    assert pictures == ()
    assert len(failures) == 1


def test_what_a_metric_tells_of_its_worst_value_stands_below_the_table(story):
    measured = (*story.case.measure.output, story.parts.measurement("abs_diff_worst_tile", "max"))
    story.case = msgspec.structs.replace(
        story.case, measure=msgspec.structs.replace(story.case.measure, output=measured)
    )
    record = story.record()
    (entry,) = (entry for entry in record.comparison.measurements if entry.metric == "abs_diff_worst_tile")
    place = entry.worst_detail
    text = report(story)
    line = next(line for line in text.splitlines() if "is worst at" in line)
    assert f"x {place['x']}; y {place['y']}; width {place['width']}; height {place['height']}" in line
    assert f"<code>{entry.worst_item}</code>" in line.replace("\\_", "_")


@pytest.mark.parametrize("detail", [{"<b>": ["|", "`x`"] * 50}, {"index": [1, 2], "values": {"a": 1e-7, "b": "nan"}}])
def test_odd_details_of_a_worst_value_stay_one_inert_line(story, detail):
    record = story.record()
    first, *others = record.comparison.measurements
    changed = msgspec.structs.replace(first, worst_detail=detail)
    text = report(story, comparison=msgspec.structs.replace(record.comparison, measurements=(changed, *others)))
    (line,) = (line for line in text.splitlines() if "is worst at" in line)
    assert "<b>" not in line
    assert len(line) < 1000


def test_numbers_from_different_noise_are_marked_as_not_comparable(story):
    assert "Not comparable" not in report(story)
    record = story.record()
    different = ExactResult(name="initial_latents", status="different", detail="item 000")
    comparison = msgspec.structs.replace(record.comparison, exact=(different,))
    section = report(story, comparison=comparison).split("### Measurements")[1].split("###")[0]
    assert "**Not comparable**: the legs started from different noise" in section
    assert "42.2 dB" in section


def test_what_an_import_owes_is_pending_and_its_inputs_are_not_known_to_be_the_same(story):
    owes = msgspec.structs.replace(story.reference.effective, sigmas=None, pending=("sigmas", "text_encoder"))
    story.reference = msgspec.structs.replace(story.reference, runner="import", effective=owes)
    media = InputMedia(role="image", path="cases/cat.png", sha256="sha256:" + "c" * 64)
    story.case = msgspec.structs.replace(story.case, inputs=(media,))
    rows = {row.field: row for row in checklist_rows(story.record(), story.case)}
    assert (rows["text_encoder"].verdict, rows["sigmas"].verdict) == ("pending", "pending")
    shown = rows["input cases/cat.png"]
    assert (shown.verdict, shown.reference, shown.candidate) == ("unreported", "", media.sha256)
    assert rows["representation"].verdict == "equal"
    assert rows["representation"].note == "compared as 8-bit pixels from lossless files"
