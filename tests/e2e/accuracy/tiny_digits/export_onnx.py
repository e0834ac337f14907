"""Build the ONNX graphs that the tiny-digits candidates run, from the weights in ``model/``.

    python tests/e2e/accuracy/tiny_digits/export_onnx.py

writes ``text_encoder.onnx``, ``unet.onnx``, ``unet_int8.onnx`` and ``vae_decoder.onnx`` into
``build/tiny-digits-onnx`` at the project root, and ``graphs.json``, which says which weights and which versions they
came from. It takes about half a minute, and a moment when everything is up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.metadata
import json
import logging
import os
import site
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paritygate.media.digests import tree_digest
from paritygate.records.canonical import sha256_file
from paritygate.records.store import write_bytes_atomic, write_text_atomic

ROOT = Path(__file__).resolve().parents[4]
MODEL = Path(__file__).resolve().parent / "model"
GRAPHS = ROOT / "build" / "tiny-digits-onnx"
NAMES = ("text_encoder.onnx", "unet.onnx", "unet_int8.onnx", "vae_decoder.onnx")
LIST = "graphs.json"
EXPORTERS = ("diffusers", "onnx", "onnxruntime", "onnxscript", "torch", "transformers")


def origin(model: Path) -> dict[str, Any]:
    """What the graphs depend on: the weights, this file, and the versions of everything that writes graphs."""
    versions = {name: importlib.metadata.version(name) for name in EXPORTERS}
    return {"model": tree_digest(model), "exporter": sha256_file(Path(__file__)), "made_with": versions}


def up_to_date(folder: Path, wanted: dict[str, Any]) -> bool:
    """Whether ``folder`` holds every graph, unchanged since it was built from ``wanted``."""
    try:
        found = json.loads((folder / LIST).read_text(encoding="utf-8"))
        digests = {name: sha256_file(folder / name) for name in NAMES}
    except (OSError, ValueError):
        return False
    return bool(found == wanted | {"graphs": digests})


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other export writes to ``folder``; the lock ends with the process, whatever becomes of it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def strip(graph_file: Path) -> None:
    """Drop the exporter's notes from a graph.

    Stack traces hold absolute paths and up to 40 % of the bytes. Inferred shapes are inferred again by whoever needs
    them, and ONNX Runtime 1.23 contradicts the exporter's when it quantises.
    """
    import onnx  # noqa: PLC0415 - nothing heavy loads while everything is up to date

    model = onnx.load(graph_file)
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        del graph.value_info[:]
        for noted in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
            del noted.metadata_props[:]
            noted.doc_string = ""
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    del model.metadata_props[:]
    model.doc_string = ""
    onnx.save(model, graph_file)


def machine_paths() -> tuple[str, ...]:
    """Paths that would tell where a graph was built, and so differ from machine to machine."""
    paths = {str(ROOT), str(Path.home()), sysconfig.get_path("purelib"), *site.getsitepackages()}
    return tuple(sorted(paths - {"/"}))


def leaks(data: bytes, paths: Iterable[str]) -> list[str]:
    """Those of ``paths`` that occur in ``data``."""
    return [path for path in paths if os.fsencode(path) in data]


def export(model: Path, folder: Path) -> None:
    """Export the three parts of the pipeline into ``folder``.

    Shapes are fixed on purpose: two rows (unconditional and prompt) for guidance, one picture for the decoder.
    """
    import torch  # noqa: PLC0415
    from diffusers import StableDiffusionPipeline  # noqa: PLC0415

    class Part(torch.nn.Module):  # type: ignore[misc]
        """A module called in one particular way, with tensors in and one tensor out."""

        def __init__(self, module: Any, call: Any) -> None:
            super().__init__()
            self.module, self.call = module.eval(), call

        def forward(self, *inputs: Any) -> Any:
            """What ``call`` says."""
            return self.call(self.module, *inputs)

    torch.set_num_threads(1)
    pipeline: Any = StableDiffusionPipeline.from_pretrained(model, dtype=torch.float32, local_files_only=True)
    unet, text_encoder = pipeline.unet, pipeline.text_encoder
    tokens, size = text_encoder.config.max_position_embeddings, unet.config.sample_size
    ids = torch.arange(2 * tokens).reshape(2, tokens)
    latents = torch.randn(2, unet.config.in_channels, size, size)
    text = torch.randn(2, tokens, text_encoder.config.hidden_size)
    parts = {
        "text_encoder": (Part(text_encoder, lambda part, *given: part(*given, return_dict=False)[0]), (ids,)),
        "unet": (
            Part(unet, lambda part, *given: part(*given, return_dict=False)[0]),
            (latents, torch.tensor([951]), text),
        ),
        "vae_decoder": (
            Part(pipeline.vae, lambda part, *given: part.decode(*given, return_dict=False)[0]),
            (latents[:1],),
        ),
    }
    for name, (part, inputs) in parts.items():
        print(f"exporting {name}", flush=True)
        torch.onnx.export(part, inputs, folder / f"{name}.onnx", dynamo=True, external_data=False, verbose=False)


def quantise(folder: Path) -> None:
    """Make ``unet_int8.onnx`` out of ``unet.onnx``: MatMuls with unsigned 8-bit weights, one scale per channel.

    Unsigned, because signed weights (QInt8) saturate the 16-bit sums of processors without VNNI instructions, which
    costs fidelity there and not elsewhere.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    print("quantising unet", flush=True)
    quantize_dynamic(
        folder / "unet.onnx",
        folder / "unet_int8.onnx",
        op_types_to_quantize=["MatMul"],
        weight_type=QuantType.QUInt8,
        per_channel=True,
    )


def build(model: Path, folder: Path, wanted: dict[str, Any]) -> None:
    """Build all graphs aside, then move them into ``folder``, their list last.

    Raises:
        RuntimeError: when a graph still names a path of this machine.
    """
    with tempfile.TemporaryDirectory(prefix="tiny-digits-onnx-") as name:
        aside = Path(name)
        export(model, aside)
        strip(aside / "unet.onnx")
        quantise(aside)
        for graph in NAMES:
            strip(aside / graph)
            if found := leaks((aside / graph).read_bytes(), machine_paths()):
                raise RuntimeError(f"{graph} holds the path {found[0]}; its metadata was not all stripped")
        for graph in NAMES:
            write_bytes_atomic(folder / graph, (aside / graph).read_bytes())
            print(f"wrote {graph}, {(folder / graph).stat().st_size} bytes", flush=True)
    digests = {graph: sha256_file(folder / graph) for graph in NAMES}
    write_text_atomic(folder / LIST, json.dumps(wanted | {"graphs": digests}, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """Parse the command line and build what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL, help="the Diffusers pipeline to export")
    parser.add_argument("--out", type=Path, default=GRAPHS, help="folder for the graphs")
    options = parser.parse_args()
    if not (options.model / "model_index.json").is_file():
        parser.error(f"{options.model} holds no pipeline (no model_index.json)")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    # Exporter and quantiser warn about their own internals; what matters here is checked on the graphs.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with exclusive(options.out):
        wanted = origin(options.model)
        if up_to_date(options.out, wanted):
            print(f"{options.out}: up to date")
            return
        build(options.model, options.out, wanted)


if __name__ == "__main__":
    main()
