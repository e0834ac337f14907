from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paritygate.manifest import contract as contract_module
from paritygate.manifest.case import Output
from paritygate.manifest.contract import contract
from paritygate.manifest.index import Loaded
from paritygate.metrics import specs

Add = Callable[..., Path]
Load = Callable[[], Loaded]
FRAME = "{role: image, path: first_frame.png, sha256: a29e05514715819ebc779c3ce23269e09434f1a8acbf989fd67abbcba357e34e}"
DIGEST = f"sha256:{'0' * 64}"


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
        "candidate: {hardware: {sku: [B200], cards: 1}}\n",
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
        "model: {id: org/other}\n",
        "request: {seed: 8}\n",
        "request: {guidance_scale: 3.1}\n",
        "request: {extra: {anything: 1}}\n",
        "request: {initial_latents: shared, latent_shape: [4, 8, 8]}\n",
        "request: {latent_shape: [4, 8, 8]}\n",
        "suite: {prompts: [a red square, a blue one]}\n",
        "suite: {guidance: [3.0, 4.0]}\n",
        f"task: it2i\nrequest: {{inputs: [{FRAME}]}}\n",
        "measure: {parts: [{component: denoiser, metric: relative_l2}]}\n",
        "measure: {output: [{metric: ssim, aggregate: min, pixels: float}, {metric: abs_diff_max, aggregate: max}]}\n",
        "output: {mode: L}\n",
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


def differing(contract_of: Callable[..., str], texts: list[str]) -> bool:
    return len({contract_of(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    "changed",
    [{"name": "int4"}, {"baseline": "float16"}, {"enabled_by": "a flag"}, {"exercised_by": "calls"}],
    ids=lambda changed: next(iter(changed)),
)
def test_every_fact_of_a_feature_is_part_of_it(changed: dict[str, str], contract_of: Callable[..., str]) -> None:
    feature = {"name": "int8", "baseline": "float32", "enabled_by": "options", "exercised_by": "matmuls"}
    texts = [f"candidate: {{feature: {json.dumps(facts)}}}\n" for facts in (feature, {**feature, **changed})]
    assert differing(contract_of, ["", *texts])


def test_every_fact_of_a_measurement_is_part_of_it_whatever_its_id(contract_of: Callable[..., str]) -> None:
    facts = ["metric: ssim, aggregate: min", "metric: psnr_db, aggregate: min", "metric: ssim, aggregate: mean"]
    facts.append(f"{facts[0]}, pixels: float")
    assert differing(contract_of, [f"measure: {{output: [{{{entry}, id: same}}]}}\n" for entry in facts])


def test_the_reason_of_a_difference_is_part_of_it(contract_of: Callable[..., str]) -> None:
    texts = [f"differences: [{{field: dtype, reason: {reason}}}]\n" for reason in ("one", "another")]
    assert differing(contract_of, texts)


def test_where_the_noise_comes_from_is_part_of_it(contract_of: Callable[..., str]) -> None:
    texts = [f"request: {{initial_latents: {source}, latent_shape: [4, 8, 8]}}\n" for source in ("seeded", "shared")]
    assert differing(contract_of, texts)


def test_the_kind_of_runner_is_part_of_it(add_case: Add, load: Load) -> None:
    add_case("case")
    (case,) = load().cases
    other = msgspec.structs.replace(case.candidate, runner="command")
    assert contract(msgspec.structs.replace(case, candidate=other)) != contract(case)


def test_a_new_meaning_of_the_fingerprint_voids_every_gate(
    contract_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contract_of()
    monkeypatch.setattr(contract_module, "CONTRACT_VERSION", 99)
    assert contract_of() != before


def test_task_and_roles_of_inputs_are_part_of_it(contract_of: Callable[..., str]) -> None:
    inputs = f"request: {{inputs: [{FRAME}]}}\n"
    mask = inputs.replace("role: image", "role: mask")
    assert differing(contract_of, [inputs, f"task: it2i\n{inputs}", mask])


def test_the_content_of_an_input_is_part_of_it(contract_of: Callable[..., str], sample_project: Path) -> None:
    before = contract_of(f"request: {{inputs: [{FRAME}]}}\n")
    frame = sample_project / "cases" / "first_frame.png"
    old = hashlib.sha256(frame.read_bytes()).hexdigest()
    frame.write_bytes(frame.read_bytes() + b"more")
    new = hashlib.sha256(frame.read_bytes()).hexdigest()
    assert contract_of(f"request: {{inputs: [{FRAME.replace(old, new)}]}}\n") != before


def test_what_a_component_gets_is_part_of_it(contract_of: Callable[..., str]) -> None:
    base = "task: component\noutput: {kind: tensors}\nmeasure: {output: [{metric: relative_l2, aggregate: max}]}\n"
    tensor = f"{{golden: {{name: a, version: 1, digest: {DIGEST}}}, entry: x}}"
    parts = [
        "{name: vae}",
        "{name: unet}",
        "{name: vae, forward: {scale: 2}}",
        f"{{name: vae, inputs: {{z: {tensor}}}}}",
    ]
    parts.append(parts[-1].replace("entry: x", "entry: y"))
    assert differing(contract_of, [base, *(f"{base}component: {part}\n" for part in parts)])


def test_of_a_golden_the_digest_counts_and_not_what_made_it(contract_of: Callable[..., str]) -> None:
    leg = "reference: {{runner: golden, golden: {{name: a, version: 1, digest: {digest}{generator}}}}}\n"
    plain = contract_of(leg.format(digest=DIGEST, generator=""))
    made = leg.format(digest=DIGEST, generator=", generator: {runner: python, entry: 'module:run'}")
    assert contract_of(made) == plain
    assert contract_of(leg.format(digest=DIGEST.replace("0", "1"), generator="")) != plain


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
    leg = (
        "candidate: {{runner: openai, endpoint: images/generations, url: 'http://127.0.0.1:8000', "
        "server: [serve, '{{model}}', {port}, --omni]}}\n"
    )
    texts = {contract_of(leg.format(port=port)) for port in ("--port, '8000'", "--port, '{port}'", "--port=1")}
    assert len(texts) == 1
    assert contract_of(leg.format(port="--sport, '1'")) not in texts


def test_variants_have_contracts_of_their_own(add_case: Add, load: Load) -> None:
    add_case("v", "variants: [{id: a}, {id: b, request: {seed: 1}}]\n")
    first, second = load().cases
    assert contract(first) != contract(second)


def test_representation_and_background_are_part_of_it_where_they_are_given(contract_of: Callable[..., str]) -> None:
    clip = "task: t2v\noutput: {{kind: video, frames: 8, fps: 8{more}}}\n"
    layer = "output: {{mode: RGBA, alpha: straight{more}}}\n"
    encoded = ", representation: encoded}\nreference: {encode: {container: mp4, codec: libx264, pixel_format: yuv420p}"
    texts = [clip.format(more=more) for more in ("", encoded)]
    texts += [layer.format(more=f", composite: '{colour}'" if colour else "") for colour in ("", "#000000", "#000001")]
    assert differing(contract_of, texts)


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
