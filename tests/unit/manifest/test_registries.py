"""Registries are read strictly, and presets are computed from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paritygate.errors import ManifestError
from paritygate.manifest.project import Project
from paritygate.manifest.registries import Registries, Resources, load_registries
from paritygate.manifest.registry_rules import missing_source
from paritygate.manifest.shell_lines import setup_fault, upload_fault

HARDWARE = """\
schema_version: 1
skus:
  H100:
    platform: cuda
    cards: [4, 1, 2]
    queue: gpu
    image: team/image:1.0
    base: {cpu: 4, memory_gib: 32}
    per_card: {cpu: 12, memory_gib: 192, shm_gib: 64}
  CPU: {platform: cpu, cards: [0], queue: cpu}
"""
LANES = """\
schema_version: 1
lanes:
  nightly: {description: Nights., if: 'build.env("NIGHTLY") == "1"', group: Nights, max_timeout_minutes: 180}
"""
SOURCES = """\
schema_version: 1
shared: [src/]
sources:
  engine: [src/engine, {path: other/repository/, external: true}]
"""
FILES = {"hardware": HARDWARE, "lanes": LANES, "sources": SOURCES}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Load registries with some files replaced; None leaves a file out."""

    def load(**changes: str | None) -> Registries:
        (tmp_path / "ci").mkdir(exist_ok=True)
        (tmp_path / "src/engine").mkdir(parents=True, exist_ok=True)
        for name, text in {**FILES, **changes}.items():
            if text is not None:
                (tmp_path / f"ci/{name}.yml").write_text(text, encoding="utf-8")
        return load_registries(Project(root=tmp_path, buildkite="ci"))

    return load


def problems(read: Any, **changes: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        read(**changes)
    return [problem.text() for problem in caught.value.problems]


def test_a_preset_is_base_plus_each_card(read: Any) -> None:
    registries = read()
    for cards in (1, 2, 4):
        preset = registries.preset("H100", cards)
        assert preset.name == f"h100_{cards}"
        assert preset.resources == Resources(cpu=4 + 12 * cards, memory_gib=32 + 192 * cards, shm_gib=64 * cards)
        assert preset.card_resource == "nvidia.com/gpu"
    assert registries.preset("CPU", 0).name == "cpu_0"
    assert registries.preset("CPU", 0).card_resource is None


def test_what_no_pool_offers_has_no_preset_and_the_reason_says_what_is_offered(read: Any) -> None:
    registries = read()
    assert registries.preset("H100", 3) is None
    assert registries.unmet("H100", 3) == (
        "no preset h100_3: H100 is offered with 1, 2, 4 cards",
        "use one of 1, 2, 4; no pool offers as many",
    )
    assert registries.unmet("H10O", 1) == ("no SKU 'H10O' in hardware.yml", "did you mean 'H100'?")
    assert registries.unmet("H100", 2) is None


def test_lanes_and_sources_are_typed(read: Any) -> None:
    registries = read()
    lane = registries.lanes["nightly"]
    assert (lane.file, lane.condition) == ("accuracy-nightly.yml", 'build.env("NIGHTLY") == "1"')
    assert lane.allow_provisional is False
    assert [(s.path, s.external) for s in registries.sources["engine"]] == [
        ("src/engine", False),
        ("other/repository/", True),
    ]
    assert [s.path for s in registries.shared] == ["src/"]


def test_missing_files_are_empty_registries(tmp_path: Path) -> None:
    assert load_registries(Project(root=tmp_path)) == Registries()


def test_problems_of_all_three_files_come_at_once(read: Any) -> None:
    found = problems(read, hardware="schema_version: 2\n", lanes="[]\n", sources="a: &x 1\n")
    assert {text.split(":")[0] for text in found} == {"ci/hardware.yml", "ci/lanes.yml", "ci/sources.yml"}


BAD_HARDWARE = {
    "misspelt key": ("queue: gpu", "queeu: gpu", "6:5: ", "did you mean 'queue'?"),
    "misspelt resource": ("memory_gib: 192", "memory_gb: 192", "9:25: ", "did you mean 'memory_gib'?"),
    "unknown platform": ("platform: cuda", "platform: cudda", "4:15: ", "did you mean 'cuda'?"),
    "count twice": ("[4, 1, 2]", "[4, 1, 4]", "5:19: ", "twice"),
    "count as text": ("[4, 1, 2]", "[4, '1']", "5:16: ", "expected a whole number"),
    "no cards on cuda": ("[4, 1, 2]", "[0, 1]", "5:13: [cards]", "at least 1 card on cuda"),
    "cards on cpu": ("cards: [0]", "cards: [1]", "10:32: [cards]", "0 cards on the cpu platform"),
    "moving image": ("team/image:1.0", "team/image:latest", "7:12: ", "fixed tag"),
    "image without tag": ("team/image:1.0", "team/image", "7:12: ", "fixed tag"),
    "lower-case sku": ("H100:", "h100:", "3:3: ", "a SKU name such as H100"),
    "pod without memory": (
        "base: {cpu: 4, memory_gib: 32}\n    per_card: {cpu: 12, memory_gib: 192, shm_gib: 64}",
        "base: {cpu: 4}",
        "3:3: [resources]",
        "no memory",
    ),
    "same name in lower case": (
        "  CPU:",
        "  H1OO: {platform: cuda, cards: [1], queue: q}\n  H1oO:",
        "11:3: [preset-clash]",
        "H1OO",
    ),
    "setup that swallows": ("queue: gpu", "queue: gpu\n    setup: [make, 'x ||']", "7:19: [setup]", "not complete"),
    "volume name twice": (
        "queue: gpu",
        "queue: gpu\n    mounts: [{name: shared-memory, host_path: /a, mount_path: /b}]",
        "7:21: [mounts]",
        "is taken",
    ),
    "variable of the agent": ("queue: gpu", "queue: gpu\n    env: {BUILDKITE_X: 'a'}", "7:11: [env]", "BUILDKITE_X"),
    "the variable that says CI": ("queue: gpu", "queue: gpu\n    env: {CI: 'false'}", "7:11: [env]", "'CI'"),
    "number as variable": ("queue: gpu", "queue: gpu\n    env: {A_B: 08}", "7:16: ", "leading zero"),
}


@pytest.mark.parametrize(("old", "new", "place", "words"), BAD_HARDWARE.values(), ids=BAD_HARDWARE)
def test_a_mistake_in_hardware_is_named_at_its_place(read: Any, old: str, new: str, place: str, words: str) -> None:
    assert old in HARDWARE
    found = problems(read, hardware=HARDWARE.replace(old, new))
    assert any(text.startswith(f"ci/hardware.yml:{place}") and words in text for text in found), found


BAD_LANES = {
    "misspelt key": ("group: Nights", "gruop: Nights", "did you mean 'group'?"),
    "condition as a boolean": ("""'build.env("NIGHTLY") == "1"'""", "true", "quote it as 'true'"),
    "empty condition": ("""'build.env("NIGHTLY") == "1"'""", "''", "at least 1 character"),
    "name of a mark": ("nightly:", "image:", "[mark-clash]"),
    "name of a keyword": ("nightly:", "not:", "[mark-clash]"),
    "name of a card count": ("nightly:", "cards_2:", "[mark-clash]"),
    "name with a dash": ("nightly:", "pre-merge:", "a name of lower-case letters"),
    "endless": ("max_timeout_minutes: 180", "max_timeout_minutes: 0", "at least 1"),
    "backslash before a dollar": ("group: Nights", "group: 'N\\$'", "[upload]"),
}


@pytest.mark.parametrize(("old", "new", "words"), BAD_LANES.values(), ids=BAD_LANES)
def test_a_mistake_in_lanes_is_named(read: Any, old: str, new: str, words: str) -> None:
    assert old in LANES
    assert any(
        words in text and text.startswith("ci/lanes.yml:3:") for text in problems(read, lanes=LANES.replace(old, new))
    )


BAD_SOURCES = {
    "missing folder": ("[src/]", "[scr/]", "2:10: [source-path] there is no folder 'scr/'"),
    "missing file": ("src/engine,", "src/engin.py,", "4:12: [source-path] no path starts with 'src/engin.py'"),
    "out of the project": ("[src/]", "[src/../../x/]", "2:10: [source-path]"),
    "absolute": ("[src/]", "[/src/]", "2:10: [format]"),
    "external that is not": ("external: true", "external: false", "false is not a valid value here; expected true"),
    "misspelt external": ("external: true", "extrenal: true", "did you mean 'external'?"),
    "nothing": ("[src/]", "[]", "at least 1 entry"),
    "number": ("[src/]", "[1]", "2:10: [type]"),
}


@pytest.mark.parametrize(("old", "new", "words"), BAD_SOURCES.values(), ids=BAD_SOURCES)
def test_a_mistake_in_sources_is_named(read: Any, old: str, new: str, words: str) -> None:
    assert old in SOURCES
    found = problems(read, sources=SOURCES.replace(old, new))
    assert any(words in text for text in found), found


def test_a_sku_and_a_lane_cannot_share_a_mark(read: Any) -> None:
    lanes = LANES.replace("nightly:", "cuda:")
    assert any("mark-clash" in text for text in problems(read, lanes=lanes))


def test_provisional_is_green_only_in_a_declared_lane_that_says_so(read: Any) -> None:
    registries = read(
        lanes=LANES + "  trial: {description: x, if: x, group: x, max_timeout_minutes: 1, allow_provisional: true}\n"
    )
    assert [registries.allows_provisional(name) for name in ("trial", "nightly", "nowhere")] == [True, False, False]


def test_a_source_may_be_the_start_of_names(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/engine_one.py").touch()
    assert missing_source("src/engine_", tmp_path) is None
    assert missing_source("src/engine_one.py", tmp_path) is None
    assert missing_source("src/enginetwo", tmp_path) is not None
    assert missing_source("src/engine_one.py/", tmp_path) is not None


@pytest.mark.parametrize(
    "line",
    [
        "export A=1",
        "cd x && make",
        "a || b",
        "for f in *; do echo $f; done",
        "echo 'a \"b'",
        "x # it's",
        "a <<< b",
        "# x",
        "exit 0",
        "docker exec box make",
        "find . -exec rm {} +",
        "./set-trap.sh",
    ],
)
def test_whole_lines_are_taken(line: str) -> None:
    assert setup_fault(line) is None


@pytest.mark.parametrize(
    "line",
    [
        *("echo 'open", 'echo "open', "true ||", "true &&", "a |", "a || # why", "a \\", "f() {", "(", "cat <<EOF"),
        *("exec true", "true && exec true", "if true; then exec true; fi", "command exec true", "( exec true"),
        *("trap - EXIT", "true; trap 'exit 0' EXIT", 'eval "trap - EXIT"', 'echo "\\$HOME"'),
    ],
)
def test_a_line_that_would_swallow_or_skip_the_test_is_refused_with_a_way_out(line: str) -> None:
    fault = setup_fault(line)
    assert fault is not None
    assert all(fault)


def test_only_a_dollar_after_a_backslash_cannot_be_uploaded() -> None:
    assert upload_fault("$ $$ \\ \\n $(x) ${y}") is None
    assert upload_fault("a \\$ b") is not None
