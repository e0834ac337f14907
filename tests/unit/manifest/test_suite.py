from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paritygate.manifest.index import Loaded, load_cases
from paritygate.manifest.project import find_project
from paritygate.manifest.registries import load_registries
from paritygate.manifest.suite import items, latent_shape, parse_prompts

Add = Callable[..., Path]
Load = Callable[[], Loaded]
SAMPLES = Path(__file__).parents[2] / "samples" / "manifest"


def requests(load: Load) -> list[dict[str, object]]:
    loaded = load()
    assert loaded.problems == ()
    return [dict(item.request) for item in items(loaded.cases[0])]


def test_without_a_suite_there_is_one_item_with_the_whole_request(add_case: Add, load: Load) -> None:
    add_case("one", "request: {extra: {cross_attention_kwargs: {scale: 0.5}}}\n")
    (item,) = items(load().cases[0])
    assert item.id == "000"
    assert item.request == {
        "prompt": "a red square",
        "width": 64,
        "height": 64,
        "num_inference_steps": 4,
        "guidance_scale": 3.0,
        "seed": 7,
        "cross_attention_kwargs": {"scale": 0.5},
    }


def test_cross_makes_every_combination_with_seeds_fastest(add_case: Add, load: Load) -> None:
    add_case("cross", "suite: {prompts: [a, b], negative_prompts: [x], seeds: [1, 2]}\n")
    found = [(r["prompt"], r["negative_prompt"], r["seed"]) for r in requests(load)]
    assert found == [("a", "x", 1), ("a", "x", 2), ("b", "x", 1), ("b", "x", 2)]


AXES = (SAMPLES / "ok" / "suite-axes.case.yaml").read_text(encoding="utf-8")
SIZES_AND_MORE = ("width", "height", "guidance_scale", "seed")


def test_sizes_and_guidance_are_crossed_with_seeds_fastest(sample_project: Path, load: Load) -> None:
    (sample_project / "cases" / "axes.case.yaml").write_text(AXES, encoding="utf-8")
    assert [tuple(request[key] for key in SIZES_AND_MORE) for request in requests(load)] == [
        (64, 64, 1, 1), (64, 64, 1, 2), (64, 64, 3.5, 1), (64, 64, 3.5, 2),
        (96, 64, 1, 1), (96, 64, 1, 2), (96, 64, 3.5, 1), (96, 64, 3.5, 2),
    ]  # fmt: skip
    (case,) = load().cases
    assert (case.output.width, case.output.height) == (None, None)


def test_sizes_and_guidance_are_zipped_with_seeds(sample_project: Path, load: Load) -> None:
    text = AXES.replace("seeds: [1, 2]", "seeds: [1, 2], combine: zip")
    (sample_project / "cases" / "axes.case.yaml").write_text(text, encoding="utf-8")
    found = [tuple(request[key] for key in SIZES_AND_MORE) for request in requests(load)]
    assert found == [(64, 64, 1, 1), (96, 64, 3.5, 2)]


def test_zip_pairs_first_with_first(add_case: Add, load: Load) -> None:
    add_case("zip", "suite: {prompts: [a, b], seeds: [1, 2], combine: zip}\n")
    assert [(r["prompt"], r["seed"]) for r in requests(load)] == [("a", 1), ("b", 2)]


def test_derived_seeds_count_from_the_seed_of_the_request(add_case: Add, load: Load) -> None:
    add_case("derived", "suite: {prompts: prompts.txt, seeds: derived}\n")
    assert [(r["prompt"], r["seed"]) for r in requests(load)] == [("a red square", 7), ("a blue circle", 8)]


def test_derived_seeds_alone_are_one_item(add_case: Add, load: Load) -> None:
    add_case("derived", "suite: {seeds: derived}\n")
    assert [r["seed"] for r in requests(load)] == [7]


def test_item_ids_sort_as_they_run(add_case: Add, load: Load) -> None:
    add_case("many", f"suite: {{seeds: {list(range(1500))}}}\n")
    ids = [item.id for item in items(load().cases[0])]
    assert ids == sorted(ids)
    assert (ids[0], ids[-1]) == ("0000", "1499")


def test_a_prompt_file_keeps_everything_but_blank_and_comment_lines() -> None:
    text = '# head\r\n a `b` $c  \r\n\r\n"quoted" # not a comment\n\u2028same line\u2028'
    assert parse_prompts(text) == ["a `b` $c", '"quoted" # not a comment', "same line"]


def test_the_shipped_suites_that_a_cpu_can_run_on_trained_weights_have_at_least_sixteen_prompts() -> None:
    project = find_project(Path(__file__))
    loaded = load_cases(project, load_registries(project))
    prompts = {
        case.id: {item.request["prompt"] for item in items(case)}
        for case in loaded.cases
        if case.ci.cards == 0 and case.task == "t2i" and case.claim != "golden-regression"
    }
    assert prompts
    assert {name: len(found) for name, found in prompts.items() if len(found) < 16} == {}


def test_both_spellings_of_shared_latents_mean_the_same(add_case: Add, load: Load) -> None:
    add_case("a", "request: {initial_latents: {source: shared, shape: [4, 8, 8]}}\n")
    add_case("b", "request: {initial_latents: shared, latent_shape: [4, 8, 8]}\n")
    cases = load().cases
    assert [case.initial_latents for case in cases] == ["shared", "shared"]
    assert [latent_shape(case) for case in cases] == [(4, 8, 8), (4, 8, 8)]
    assert "latent_shape" not in items(cases[0])[0].request
