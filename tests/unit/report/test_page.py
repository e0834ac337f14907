"""The HTML page of an ad-hoc comparison: self-contained, inert, and it shows what is worst."""

from __future__ import annotations

import base64
import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paritygate.cli.main import run
from paritygate.compare.files.result import Outcome, Part, Result, Side
from paritygate.compare.files.sides import series
from paritygate.metrics.values import Value, refused
from paritygate.records.model import Finding, Real
from paritygate.report.page import MAX_PARTS, render
from paritygate.report.page_plot import plot

HOSTILE = "</title><script>alert(1)</script>\n\x1b[2J\"'><img src=x onerror=1>\u202e"
Y, X = np.mgrid[0:40, 0:56]
PICTURE = np.stack([(5 * X + Y) % 256, (X * Y) % 256, 255 - 4 * Y], axis=-1).astype(np.uint8)
CLIP = np.stack([np.roll(PICTURE, 2 * index, axis=1) for index in range(7)])


class Inventory(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clip with one frame replaced by its neighbour and a hole in another, compared and reported."""
    monkeypatch.chdir(tmp_path)
    wrong = CLIP.copy()
    wrong[4] = CLIP[3]
    np.save("reference.npy", CLIP)
    np.save("candidate.npy", wrong)
    words = ["--as", "video", "--bound", "ssim>=0.97", "--report", "page.html"]
    assert run(["compare", "reference.npy", "candidate.npy", *words]) == 1
    return tmp_path / "page.html"


def result(**changes: object) -> Result:
    side = Side(path=HOSTILE, bytes=1, sha256="", structure={HOSTILE: HOSTILE}, representation=HOSTILE)
    part = Part(
        name=HOSTILE, kind="tensor", keys="tensor", reference=side, candidate=side, is_identical=False,
        series=(series("abs_error_max", {HOSTILE: Value(1.0), "b": refused(HOSTILE)}),),
    )  # fmt: skip
    outcome = Outcome(
        bound=HOSTILE, metric="abs_error_max", version=1, aggregate="all", relation="at_most", limit=Real(1), unit="1",
        value=Real("nan"), headroom=Real("nan"), satisfied=False, values=2, worst=HOSTILE, problem=HOSTILE,
    )  # fmt: skip
    whole = Result(
        schema_version=1, program="p", engine="e", reference=HOSTILE, candidate=HOSTILE, state="invalid",
        is_identical=False, pairs=1, findings=(Finding(code=HOSTILE, message=HOSTILE, item=HOSTILE),),
        notes=(HOSTILE,), parts=(part,), bounds=(outcome,),
    )  # fmt: skip
    return msgspec.structs.replace(whole, **changes)


def test_hostile_names_stay_text_wherever_they_stand() -> None:
    text = render(result(), {HOSTILE: HOSTILE})
    found = Inventory(text)
    assert not {"script", "img", "iframe", "object", "link", "base"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("style", "src")]
    assert not {"\x1b", "\u202e"} & set(text)
    assert "&lt;script&gt;" in text


def test_the_page_fetches_nothing_and_its_policy_forbids_scripts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = Inventory(text)
    links = [value or "" for name, value in found.attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(link.startswith("data:image/png;base64,") for link in links)
    policy = next(value for name, value in found.attributes if name == "content" and value and "default-src" in value)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "url(" not in text
    assert "@import" not in text
    assert "script" not in found.tags


def test_the_worst_frame_is_shown_with_its_amplified_difference_and_marked_in_the_plots(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "frame 4, worst by ssim" in text
    assert re.search(r"difference x\d+, largest \d+ of 255 levels", text)
    assert re.search(r'class="label"[^>]*>frame 4: ', text)
    assert 'class="limit"' in text
    assert 'class="tile"' in text
    assert text.count('class="plot"') >= 4
    pictures = re.findall(r"data:image/png;base64,([^\"]+)", text)
    assert all(base64.b64decode(data).startswith(b"\x89PNG") for data in pictures)


def test_a_report_replaces_an_older_one_whole(page: Path) -> None:
    page.write_text("old", encoding="utf-8")
    run(["compare", "reference.npy", "candidate.npy", "--as", "video", "--report", "page.html"])
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in page.parent.iterdir()) == ["candidate.npy", "page.html", "reference.npy"]


def test_a_plot_shows_infinity_at_the_edge_and_a_gap_where_there_is_no_value() -> None:
    values = {"0": Value(30.0), "1": Value(float("inf")), "2": refused("no"), "3": Value(20.0), "4": Value(25.0)}
    text = plot(series("psnr_db", values))
    assert text.count('class="curve"') == 2
    assert "nan" not in text
    assert "inf" not in text.replace("infinite", "")


def test_a_long_clip_keeps_its_single_bad_frame_in_the_plot() -> None:
    values = {str(index): Value(0.1 if index == 5003 else 0.99) for index in range(9000)}
    text = plot(series("ssim", values))
    assert "frame 5003: 0.1" in text
    (path,) = re.findall(r'class="curve" d="([^"]+)"', text)
    heights = [float(point.split(" ")[1]) for point in path.removeprefix("M").split("L")]
    assert len(heights) <= 600
    assert max(heights) - min(heights) > 100


def test_many_pairs_give_a_bounded_page_that_says_what_it_leaves_out() -> None:
    (part,) = result().parts
    parts = tuple(msgspec.structs.replace(part, name=f"p{index}") for index in range(MAX_PARTS + 5))
    text = render(result(parts=parts), {})
    assert "5 more pairs are in the JSON" in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on PATH")
def test_a_browser_draws_the_page(page: Path, tmp_path: Path) -> None:
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(["chromium", *words, page.as_uri()], capture_output=True, text=True, check=False, timeout=60)
    assert "frame 4, worst by ssim" in done.stdout
    assert "Refused to apply" not in done.stderr
