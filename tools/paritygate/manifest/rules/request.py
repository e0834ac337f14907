"""Rules on what is asked for: model, request, suite and output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from paritygate.errors import ManifestError, Problem
from paritygate.manifest.paths import path_values, project_path
from paritygate.manifest.rules.context import CaseContext
from paritygate.manifest.source import decode, read_source
from paritygate.manifest.suite import AXES, parse_prompts

#: More requests in one case would not end within any lane.
MAX_ITEMS = 10_000
#: The shared latents of a suite are one float32 file that every leg loads whole.
MAX_LATENT_BYTES = 1 << 30
#: Task -> kind of output.
TASK_OUTPUT: Mapping[str, str] = {
    "component": "tensors",
    "i2v": "video",
    "i2va": "video_audio",
    "it2i": "images",
    "layered": "images",
    "t2a": "audio",
    "t2i": "images",
    "t2v": "video",
    "t2va": "video_audio",
}
_PROMPTED = frozenset({"t2a", "t2i", "t2v", "t2va"})
_CONDITIONED = frozenset({"i2v", "i2va", "it2i", "layered"})


def paths(case: CaseContext) -> Iterable[Problem]:
    """Every path stays in the project, through links too."""
    for value in path_values(case.data):
        path = project_path(case.document.folder(value.pointer), value.text)
        if not case.files.is_inside(path):
            yield case.at(
                value.pointer, "path", f"{value.text!r} leads out of the project", hint="copy it into the project"
            )


def files(case: CaseContext) -> Iterable[Problem]:
    """Inputs, adapters, prompt files and shipped models are there."""
    for value in path_values(case.data):
        path = project_path(case.document.folder(value.pointer), value.text)
        if value.expects == "nothing" or not case.files.is_inside(path):
            continue
        found = case.files.kind(path)
        if found == "nothing":
            message = f"there is no {value.expects} {path}"
            yield case.at(value.pointer, "files", message, hint="paths are relative to the file that states them")
        elif found != value.expects:
            message = f"expected a {value.expects}, but {path} is a {found}"
            yield case.at(value.pointer, "files", message)


def input_digest(case: CaseContext) -> Iterable[Problem]:
    """The sha256 of an input is that of its file."""
    for index, media in enumerate(case.data["request"].get("inputs", ())):
        pointer = ("request", "inputs", index, "path")
        path = project_path(case.document.folder(pointer), media["path"])
        if not case.files.is_inside(path) or case.files.kind(path) != "file":
            continue
        declared = media["sha256"].removeprefix("sha256:")
        actual = case.files.digest(path).removeprefix("sha256:")
        if actual != declared:
            message = f"{path} has the sha256 {actual}, not {declared}"
            hint = "restore the file, or write the new digest: old evidence then no longer applies"
            yield case.at(("request", "inputs", index, "sha256"), "input-digest", message, hint=hint)


def inputs(case: CaseContext) -> Iterable[Problem]:
    """A task that starts from media declares them."""
    task = case.data["task"]
    if task in _CONDITIONED and not case.data["request"].get("inputs"):
        hint = "add: inputs: [{role: image, path: ..., sha256: ...}]"
        yield case.at(("task",), "inputs", f"the task {task} needs at least one entry in request.inputs", hint=hint)


def prompt(case: CaseContext) -> Iterable[Problem]:
    """A task that starts from words has a prompt, in the request or in the suite."""
    task = case.data["task"]
    if task in _PROMPTED and "prompt" not in case.data["request"] and "prompts" not in case.data.get("suite", {}):
        message = f"the task {task} needs a prompt"
        yield case.at_key(("request",), "prompt", message, hint="add request.prompt or suite.prompts")


def seed(case: CaseContext) -> Iterable[Problem]:
    """Every request has a seed, and derived seeds have one to start from."""
    request, seeds = case.data["request"], case.data.get("suite", {}).get("seeds")
    if "seed" in request:
        return
    if seeds == "derived":
        message = "derived seeds count from request.seed, which is missing"
        yield case.at(("suite", "seeds"), "seed", message, hint="add request.seed, or list the seeds")
    elif seeds is None and case.data["task"] != "component":
        message = "without a seed each leg draws its own noise, and nothing can be compared"
        yield case.at_key(("request",), "seed", message, hint="add request.seed or suite.seeds")


def latents(case: CaseContext) -> Iterable[Problem]:
    """Shared latents declare their shape, once, and one shape is enough."""
    request = case.data["request"]
    value = request.get("initial_latents", "seeded")
    source, shape = (value["source"], value.get("shape")) if isinstance(value, dict) else (value, None)
    pointer = ("request", "initial_latents")
    if shape is not None and "latent_shape" in request:
        message = "the shape stands in initial_latents.shape and in latent_shape"
        yield case.at_key(("request", "latent_shape"), "latents", message, hint="keep one of the two")
    if source == "shared" and shape is None and "latent_shape" not in request:
        hint = "add request.latent_shape: [channels, height, width] of one item"
        yield case.at(pointer, "latents", "shared latents need their shape", hint=hint)
    if source == "shared" and len({tuple(size) for size in case.data.get("suite", {}).get("sizes", ())}) > 1:
        message = "shared latents have one shape, and the suite asks for several sizes"
        yield case.at_key(("suite", "sizes"), "latents", message, hint="make a variant of each size")


def suite(case: CaseContext) -> Iterable[Problem]:
    """Prompt files hold prompts, zipped lists have one length, and the suite has a size that can run."""
    data = case.data.get("suite", {})
    lengths: dict[str, int] = {}
    for key in AXES:
        if isinstance(data.get(key), list):
            lengths[key] = len(data[key])
        elif key in data and key != "seeds":
            found = _prompt_file(case, key)
            if isinstance(found, Problem):
                yield found
                return
            lengths[key] = found
    counted = ", ".join(f"{count} {name}" for name, count in lengths.items())
    is_zip = data.get("combine") == "zip"
    count = max(lengths.values(), default=1) if is_zip else math.prod(lengths.values())
    if is_zip and len(set(lengths.values())) > 1:
        hint = "make them equally long, or use combine: cross"
        yield case.at(
            ("suite", "combine"), "suite", f"zip pairs lists of one length, but there are {counted}", hint=hint
        )
    elif count > MAX_ITEMS:
        message = f"{counted} make {count} requests; at most {MAX_ITEMS} fit one case"
        yield case.at_key(("suite",), "suite", message, hint="split the case, or use combine: zip")
    else:
        yield from _latent_size(case, count)


def _latent_size(case: CaseContext, count: int) -> Iterable[Problem]:
    request = case.data["request"]
    latents = request.get("initial_latents")
    pointer = ("request", "initial_latents", "shape") if isinstance(latents, dict) else ("request", "latent_shape")
    shape = latents.get("shape") if isinstance(latents, dict) else request.get("latent_shape")
    if shape and (size := 4 * math.prod(shape) * count) > MAX_LATENT_BYTES:
        message = (
            f"the latents of {count} requests take {size >> 20} MiB; at most {MAX_LATENT_BYTES >> 20} fit one case"
        )
        yield case.at(pointer, "suite", message, hint="correct the shape, or split the case")


def _prompt_file(case: CaseContext, key: str) -> int | Problem:
    """The number of prompts in a file; a missing file is another rule's, and counts as one prompt."""
    pointer = ("suite", key)
    path = project_path(case.document.folder(pointer), case.data["suite"][key])
    if not case.files.is_inside(path) or case.files.kind(path) != "file":
        return 1
    try:
        source = read_source(case.files.root / path, display=path, root=case.files.root)
        prompts = parse_prompts(decode(source, display=path))
    except ManifestError as error:
        return case.at(pointer, "suite", f"{path}: {error.problems[0].message}", hint=error.problems[0].hint)
    if not prompts:
        return case.at(pointer, "suite", f"{path} holds no prompt", hint="write one prompt a line; # starts a comment")
    return len(prompts)


def model(case: CaseContext) -> Iterable[Problem]:
    """A digest as revision belongs to a folder that can be digested."""
    data: Mapping[str, Any] = case.data["model"]
    if data["revision"].startswith("sha256:") and "path" not in data and "path_env" not in data:
        message = "the revision is the digest of a folder, but no folder is named"
        yield case.at(("model", "revision"), "model", message, hint="add model.path, or give the commit of the hub")


def task_output(case: CaseContext) -> Iterable[Problem]:
    """The kind of output is what the task makes, and its size what the suite asks for."""
    task, output = case.data["task"], case.data["output"]
    kind = output["kind"]
    for index, size in enumerate(case.data.get("suite", {}).get("sizes", ())):
        declared = [output.get("width", size[0]), output.get("height", size[1])]
        if declared != size:
            message = f"{size[0]}x{size[1]} is asked for, but output declares {declared[0]}x{declared[1]}"
            hint = "remove output.width and output.height: images then have the size that is asked for"
            yield case.at(("suite", "sizes", index), "task-output", message, hint=hint)
    if kind != TASK_OUTPUT[task]:
        message = f"the task {task} makes {TASK_OUTPUT[task]}, not {kind}"
        yield case.at(("output", "kind"), "task-output", message, hint=f"write kind: {TASK_OUTPUT[task]}")
    elif task == "layered" and "layers" not in output:
        yield case.at_key(
            ("output",), "task-output", "the task layered declares the number of layers", hint="add output.layers"
        )


def output_keys(case: CaseContext) -> Iterable[Problem]:
    """What is said of the output belongs to its kind: a representation to clips and sound, a background to RGBA."""
    output = case.data["output"]
    if "representation" in output and output["kind"] in ("images", "tensors"):
        message = f"{output['kind']} are kept lossless, as arrays: they have no representation to choose"
        yield case.at_key(("output", "representation"), "output-keys", message, hint="remove representation")
    if "composite" in output and (output["kind"], output.get("mode")) != ("images", "RGBA"):
        message = "only images of mode RGBA can be laid on a colour"
        yield case.at_key(("output", "composite"), "output-keys", message, hint="remove composite")
