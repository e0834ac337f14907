from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paritygate.manifest.case import Output
from paritygate.manifest.contract import contract
from paritygate.manifest.index import Loaded
from paritygate.metrics import specs

Add = Callable[..., Path]
Load = Callable[[], Loaded]


@pytest.fixture
def contract_of(add_case: Add, load: Load) -> Callable[..., str]:
    """The contract of the sample case with more text."""

    def compute(text: str = "", *, name: str = "case") -> str:
        add_case(name, text)
        loaded = load()
        assert loaded.problems == ()
        return contract(loaded.cases[0])

    return compute


def test_a_contract_is_a_digest_and_repeats(contract_of: Callable[..., str]) -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", contract_of())
    assert contract_of() == contract_of()


@pytest.mark.parametrize(
    "text",
    [
        "title: another\n",
        "ci: {lane: weekly, hardware: {sku: [B200], cards: 2}, timeout_minutes: 9, setup: [make]}\n",
        "coverage: {gaps: [everything]}\n",
        "reference: {timeout_s: 5, python: other/python}\n",
        "model: {path_env: SOME_MODEL}\n",
        "measure: {output: [{metric: ssim, aggregate: min, target: 0.9}, {metric: abs_diff_max, aggregate: max}]}\n",
        "measure: {output: [{metric: abs_diff_max, aggregate: max}, {metric: ssim, aggregate: min}]}\n",
        "output: {count: 1, mode: RGB}\n",
        "request: {guidance_scale: 3}\n",
        "suite: {prompts: [a red square]}\n",
    ],
)
def test_what_changes_no_result_changes_no_contract(text: str, contract_of: Callable[..., str]) -> None:
    assert contract_of(text) == contract_of()


@pytest.mark.parametrize(
    "text",
    [
        "claim: api-consistency\n",
        "model: {revision: 75e0b4be04f60ec59a75f475837eced720f823b7}\n",
        "model: {weights: random}\n",
        "request: {seed: 8}\n",
        "request: {guidance_scale: 3.1}\n",
        "request: {extra: {anything: 1}}\n",
        "request: {initial_latents: shared, latent_shape: [4, 8, 8]}\n",
        "suite: {prompts: [a red square, a blue one]}\n",
        "output: {width: 32}\n",
        "reference: {dtype: bfloat16}\n",
        "reference: {requires: {diffusers: ==0.42.1}}\n",
        "candidate: {options: {precision: int8}}\n",
        "candidate: {entry: 'module:run'}\n",
        "differences: [{field: dtype, reason: a reason}]\n",
        "measure: {exact: [token_ids]}\n",
        "measure: {output: [{metric: ssim, aggregate: mean}, {metric: abs_diff_max, aggregate: max}]}\n",
        "checklist: {require: [device]}\n",
        "low_precision: {runner: command, command: [run]}\n",
    ],
)
def test_what_changes_a_result_changes_the_contract(text: str, contract_of: Callable[..., str]) -> None:
    assert contract_of(text) != contract_of()


def test_the_text_of_adapters_and_prompt_files_is_part_of_it(
    contract_of: Callable[..., str], sample_project: Path
) -> None:
    text = "suite: {prompts: prompts.txt}\n"
    seen = {contract_of(text)}
    (sample_project / "cases" / "adapter.py").write_text("changed = True\n", encoding="utf-8")
    seen.add(contract_of(text))
    (sample_project / "cases" / "prompts.txt").write_text("another prompt\n", encoding="utf-8")
    seen.add(contract_of(text))
    assert len(seen) == 3


def test_a_prompt_file_and_a_list_of_the_same_prompts_agree(contract_of: Callable[..., str]) -> None:
    assert contract_of("suite: {prompts: prompts.txt}\n") == contract_of(
        "suite: {prompts: [a red square, a blue circle]}\n"
    )


def test_a_new_metric_version_changes_it(contract_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = contract_of()
    monkeypatch.setitem(specs.SPECS, "ssim", _with_version(specs.SPECS["ssim"], 99))
    assert contract_of() != before


def _with_version(spec: specs.Spec, version: int) -> specs.Spec:
    return specs.Spec(**{**spec.__dict__, "version": version})


def test_the_port_of_a_server_is_not_part_of_it(contract_of: Callable[..., str]) -> None:
    leg = "candidate: {{runner: openai, endpoint: images/generations, server: [serve, '{{model}}', {port}, --omni]}}\n"
    texts = {contract_of(leg.format(port=port)) for port in ("--port, '8000'", "--port, '{port}'", "--port=1")}
    assert len(texts) == 1
    assert contract_of(leg.format(port="--sport, '1'")) not in texts


def test_variants_have_contracts_of_their_own(add_case: Add, load: Load) -> None:
    add_case("v", "variants: [{id: a}, {id: b, request: {seed: 1}}]\n")
    first, second = load().cases
    assert contract(first) != contract(second)


class LaterOutput(Output, frozen=True, kw_only=True):
    """An output as a later version of this program may declare it."""

    depth: int | None = None


def test_a_new_optional_field_of_the_output_voids_no_gate(add_case: Add, load: Load) -> None:
    add_case("case")
    (case,) = load().cases
    values = {name: getattr(case.output, name) for name in case.output.__struct_fields__}

    def with_output(**changes: Any) -> str:
        return contract(msgspec.structs.replace(case, output=LaterOutput(**values, **changes)))

    assert with_output() == contract(case)
    assert with_output(depth=16) != contract(case)


def test_an_asset_enters_by_its_command_only(add_case: Add, load: Load, sample_project: Path) -> None:
    asset = sample_project / "cases" / "graph.bin"

    def compute(command: str, content: str) -> str:
        asset.write_text(content, encoding="utf-8")
        add_case("case", f"candidate: {{assets: [{{path: graph.bin, made_by: {command}}}]}}\n")
        return contract(load().cases[0])

    assert compute("make graphs", "one") == compute("make graphs", "two")
    assert compute("make graphs", "one") != compute("make other", "one")
