"""Every rule, by name. ``paritygate validate --help`` prints this table, so it promises what is checked."""

from __future__ import annotations

from paritygate.manifest.rules import ci, comparison, gate, legs, metrics, request
from paritygate.manifest.rules.context import CaseRule, GateRule

#: Checks of one resolved case. Sorted by name.
CASE_RULES: tuple[CaseRule, ...] = (
    CaseRule(
        "acceleration-feature",
        "the claim acceleration names a feature and how a run shows it",
        comparison.acceleration_feature,
    ),
    CaseRule("cosine-alone", "where cosine is measured, so is a magnitude", metrics.cosine_alone),
    CaseRule("duplicate-difference", "a difference is declared once", comparison.duplicate_difference),
    CaseRule("duplicate-measurement", "measurement ids differ", comparison.duplicate_measurement),
    CaseRule("encode", "a diffusers leg of an encoded output says how it encodes", legs.encode),
    CaseRule("endpoint", "an endpoint answers the task of the case", legs.endpoint),
    CaseRule("fields", "what is sent and probed is a key of the request", legs.fields),
    CaseRule("files", "inputs, adapters, prompt files and shipped models are there", request.files),
    CaseRule("float-pixels", "float pixels are those of images and raw clips", metrics.float_pixels),
    CaseRule("golden-leg", "the claim golden-regression has a golden leg", comparison.golden_leg),
    CaseRule("hardware", "some preset offers the SKU with that many cards", ci.hardware),
    CaseRule(
        "id-length", f"the id with its variant has at most {comparison.MAX_ID_LENGTH} characters", comparison.id_length
    ),
    CaseRule("input-digest", "the sha256 of an input is that of its file", request.input_digest),
    CaseRule("inputs", "a task that starts from media has inputs", request.inputs),
    CaseRule("lane", "the lane is in lanes.yml", ci.lane),
    CaseRule("latents", "shared latents declare their shape, once and for all sizes", request.latents),
    CaseRule("metric", "every metric exists", metrics.metric),
    CaseRule("metric-direction", "every metric has a better direction", metrics.metric_direction),
    CaseRule("metric-kind", "every metric is defined for the kind of output", metrics.metric_kind),
    CaseRule("model", "a digest as revision belongs to a named folder", request.model),
    CaseRule("output-keys", "what is said of the output belongs to its kind", request.output_keys),
    CaseRule("path", "every path stays in the project", request.paths),
    CaseRule("prompt", "a task that starts from words has a prompt", request.prompt),
    CaseRule("seed", "every request has a seed; derived ones count from request.seed", request.seed),
    CaseRule("server-port", "a server that is started is told its port", legs.server_port),
    CaseRule("setup", "setup lines are whole commands", ci.setup),
    CaseRule("sources", "@names are in sources.yml, and paths lead to something", ci.sources),
    CaseRule("step-key", "the node id does not read as a UUID", ci.step_key),
    CaseRule("suite", "prompt files hold prompts, zipped lists have one length, it fits a run", request.suite),
    CaseRule("target", "a target lies within the range of its metric", metrics.target),
    CaseRule("task-output", "kind and size of the output are what task and suite make", request.task_output),
    CaseRule("timeout", "the time limit fits the lane", ci.timeout),
    CaseRule("url", "the url of a server can be reached as written", legs.url),
)

#: Checks of one gate file beside its case. Sorted by name.
GATE_RULES: tuple[GateRule, ...] = (
    GateRule("gate-case", "a gate file names the case beside it", gate.gate_case),
    GateRule("gate-device", "the device of a profile, with its cards, is in hardware.yml", gate.gate_device),
    GateRule("gate-direction", "at_least where higher is better, at_most where lower is", gate.gate_direction),
    GateRule("gate-duplicate", "one profile for each variant, contract and device", gate.gate_duplicate),
    GateRule("gate-measurement", "a bound limits a measurement of the case, once", gate.gate_measurement),
    GateRule("gate-range", "a limit lies within the metric's range and can be failed", gate.gate_range),
    GateRule("gate-selected", "a selection was made on a day of the calendar", gate.gate_selected),
    GateRule("gate-variant", "a profile names a variant of the case", gate.gate_variant),
)

#: Rules that compare with the registries: without sound registries they say nothing.
REGISTRY_RULES = frozenset({"gate-device", "hardware", "lane", "sources", "timeout"})

#: Checks of the registries in ``.buildkite/``. Sorted by name.
REGISTRY_FILE_RULES: dict[str, str] = {
    "cards": "0 cards on the cpu platform, at least 1 elsewhere",
    "env": "variables of the hardware registry survive the upload and are not reserved",
    "mark-clash": "a SKU or lane is not the name of another mark",
    "mounts": "volume names differ",
    "preset-clash": "preset names differ",
    "resources": "a pod has memory",
    "setup": "setup lines are whole commands",
    "source-path": "paths in sources.yml lead to something in the project",
    "upload": "texts survive the pipeline upload",
}

#: Checks of the project as a whole and of files as such: name -> what must hold. Sorted by name.
PROJECT_RULES: dict[str, str] = {
    "duplicate-id": "node ids are unique in the project",
    "duplicate-key": "a mapping has each key once",
    "extends": "the base exists, is in the project, and makes no cycle",
    "file": "a file is regular, small, UTF-8 and in the project",
    "format": "texts have their form: ids, digests, revisions, versions",
    "gate-contract": "a gate holds for the contract of its case as it is now",
    "gate-evidence": "committed records support the bounds of a gate",
    "missing-key": "required keys are there",
    "name": "files are named *.case.yaml and *.gate.yaml",
    "no-cases": "there is a case to check",
    "orphan-gate": "a gate file stands beside its case",
    "range": "numbers and lengths are within their limits",
    "schema-version": "the file is not from the future",
    "type": "values have their type",
    "unknown-key": "no other keys",
    "value": "words are those of the schema",
    "yaml-anchor": "no anchors or aliases",
    "yaml-documents": "one document a file",
    "yaml-empty": "the file holds something",
    "yaml-key": "keys are text",
    "yaml-number": "numbers are finite, fit 64 bits and have no leading zero",
    "yaml-syntax": "the file is YAML",
    "yaml-tag": "no tags",
}


def summaries() -> dict[str, str]:
    """Every rule name with what it holds, sorted."""
    of_cases = {rule.name: rule.summary for rule in CASE_RULES}
    of_gates = {rule.name: rule.summary for rule in GATE_RULES}
    return dict(sorted({**of_cases, **of_gates, **REGISTRY_FILE_RULES, **PROJECT_RULES}.items()))
