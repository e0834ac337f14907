"""tiny-digits without PyTorch: the same weights through ONNX Runtime, everything else written anew in NumPy.

An independent implementation is what gives a comparison its worth, so this adapter reads the weights' own
configuration files and shares no code with Diffusers or Transformers: it tokenizes with the ``tokenizers`` library, and
does the DDIM schedule, the guidance and the picture itself. A setting that it does not implement is refused by name.

Options (``candidate.options`` in the manifest):
    unet: graph of the denoiser, ``unet.onnx`` (default) or ``unet_int8.onnx``.
    graphs: folder of the graphs, from the project root; ``build/tiny-digits-onnx`` by default.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from paritygate.errors import LegError
from paritygate.media.digests import tree_digest
from paritygate.records.canonical import sha256_bytes
from paritygate.runners.job import Job, Writer

GRAPHS = "build/tiny-digits-onnx"
EXPORT = "python tests/e2e/accuracy/tiny_digits/export_onnx.py"
FEATURE = "int8-matmul"
QUANTISED = {"DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearMatMul"}
#: graph of the denoiser -> what it computes in
UNETS = {"unet.onnx": "float32", "unet_int8.onnx": "float32 with uint8 MatMul"}

#: What each kind of settings must say here, because nothing else is implemented.
ONLY: dict[str, dict[str, Any]] = {
    "options": {},
    "request": {"eta": 0, "guidance_rescale": 0, "num_images_per_prompt": 1},
    "scheduler": {
        "_class_name": "DDIMScheduler",
        "beta_schedule": "linear",
        "clip_sample": False,
        "prediction_type": "v_prediction",
        "rescale_betas_zero_snr": False,
        "thresholding": False,
        "timestep_spacing": "leading",
        "trained_betas": None,
    },
    "vae": {"latents_mean": None, "latents_std": None, "shift_factor": None},
}
#: Settings that are implemented, or have no effect while those of ``ONLY`` hold. The rest of ``vae`` is in its graph.
FREE = {
    "options": {"graphs", "unet"},
    "request": {"guidance_scale", "height", "negative_prompt", "num_inference_steps", "prompt", "seed", "width"},
    "scheduler": {"_diffusers_version", "beta_end", "beta_start", "clip_sample_range", "dynamic_thresholding_ratio"}
    | {"num_train_timesteps", "sample_max_value", "set_alpha_to_one", "steps_offset"},
}


class Step(NamedTuple):
    """One denoising step: its timestep, and the cumulative alphas here and at the next step."""

    timestep: int
    alpha: float
    next_alpha: float


def unsupported(message: str) -> LegError:
    """The error for a job that asks for more than is implemented."""
    return LegError(f"onnx_candidate.py does not implement {message}", kind="crash")


def stale(message: str) -> LegError:
    """The error for graphs that have to be built, or built again."""
    return LegError(f"{message}; run: {EXPORT}", kind="weights")


def refuse(what: str, settings: Mapping[str, Any]) -> None:
    """Raise ``LegError`` that names every setting which is not implemented."""
    only, free = ONLY[what], FREE.get(what, settings.keys())
    unknown = sorted(f"{key} (unknown)" for key in settings if key not in only and key not in free)
    differing = [key for key, value in only.items() if settings.get(key, value) != value]
    wrong = [f"{key}: {settings[key]!r} (only {only[key]!r})" for key in differing]
    if unknown or wrong:
        raise unsupported(f"these {what} settings: {', '.join(unknown + wrong)}")


def plan(scheduler: Mapping[str, Any], steps: int) -> list[Step]:
    """The DDIM steps of a scheduler configuration, noisiest first.

    Linear betas and ``leading`` spacing: every ``num_train_timesteps // steps``-th timestep from ``steps_offset`` up.
    """
    refuse("scheduler", scheduler)
    trained, offset = scheduler["num_train_timesteps"], scheduler["steps_offset"]
    # Python floats: a NumPy float64 scalar would turn the float32 latents into float64.
    alphas = np.cumprod(1 - np.linspace(scheduler["beta_start"], scheduler["beta_end"], trained)).tolist()
    stride, last = trained // steps, 1.0 if scheduler["set_alpha_to_one"] else alphas[0]
    timesteps = [index * stride + offset for index in reversed(range(steps))]
    return [Step(time, alphas[time], alphas[time - stride] if time >= stride else last) for time in timesteps]


def denoise(latents: np.ndarray, velocity: np.ndarray, step: Step) -> np.ndarray:
    """Latents after one deterministic DDIM step, from the predicted velocity."""
    signal, noise = step.alpha**0.5, (1 - step.alpha) ** 0.5
    clean = signal * latents - noise * velocity
    direction = signal * velocity + noise * latents
    after: np.ndarray = step.next_alpha**0.5 * clean + (1 - step.next_alpha) ** 0.5 * direction
    return after


def load_tokenizer(folder: Path, tokens: int) -> Tokenizer:
    """A tokenizer that cuts and pads every text to ``tokens`` ids."""
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pad = settings["pad_token"]
    tokenizer.enable_truncation(tokens)
    tokenizer.enable_padding(length=tokens, pad_token=pad, pad_id=tokenizer.token_to_id(pad))
    return tokenizer


class Graphs:
    """The exported graphs, verified against the weights that the case pins."""

    def __init__(self, folder: Path, *, model: Path, threads: int) -> None:
        try:
            origin = json.loads((folder / "graphs.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise stale(f"{folder} holds no graphs") from error
        self.model = tree_digest(model)
        if origin["model"] != self.model:
            raise stale(f"the graphs in {folder} come from the weights {origin['model']}, the case has {self.model}")
        self._folder, self._listed, self._threads = folder, origin["graphs"], threads

    def read(self, name: str) -> tuple[bytes, str]:
        """A graph's bytes and digest."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError as error:
            raise stale(f"the graph {name} cannot be read: {error.strerror}") from error
        if (digest := sha256_bytes(data)) != self._listed.get(name):
            raise stale(f"the graph {name} is not the one that graphs.json lists")
        return data, digest

    def session(self, data: bytes, *, profile: Path | None = None) -> ort.InferenceSession:
        """A runtime session on the CPU; with ``profile``, one that records every kernel into that folder."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, str(profile / "kernels")
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def call(session: ort.InferenceSession, *inputs: np.ndarray) -> np.ndarray:
    """The only output of a graph for inputs in the graph's own order."""
    names = [given.name for given in session.get_inputs()]
    result: np.ndarray = session.run(None, dict(zip(names, inputs, strict=True)))[0]
    return result


class Pipeline:
    """Everything that is loaded once: configuration, tokenizer, graphs."""

    def __init__(self, job: Job) -> None:
        options = {"graphs": GRAPHS, "unet": "unet.onnx"} | (job.spec.get("options") or {})
        refuse("options", options)
        if options["unet"] not in UNETS:
            raise unsupported(f"the graph {options['unet']!r}, only {', '.join(UNETS)}")
        if job.feature not in (None, FEATURE):
            raise unsupported(f"the feature {job.feature!r}, only {FEATURE!r}")
        model = Path(job.model_dir or "")
        self.scheduler, self.vae, text, unet = (
            json.loads((model / f"{name}.json").read_text(encoding="utf-8"))
            for name in ("scheduler/scheduler_config", "vae/config", "text_encoder/config", "unet/config")
        )
        refuse("vae", self.vae)
        self.threads = int(job.spec.get("threads") or 1)
        self.pixels = unet["sample_size"] * 2 ** (len(self.vae["block_out_channels"]) - 1)
        self.tokenizer = load_tokenizer(model / "tokenizer", text["max_position_embeddings"])
        self.graphs = Graphs(Path(job.root) / options["graphs"], model=model, threads=self.threads)
        names = ("text_encoder.onnx", options["unet"], "vae_decoder.onnx")
        read = dict(zip(("text_encoder", "unet", "vae"), map(self.graphs.read, names), strict=True))
        self.digests = {part: digest for part, (_, digest) in read.items()}
        self.text_encoder, self.unet, self.decoder = (self.graphs.session(data) for data, _ in read.values())
        self.unet_data, self.unet_dtype = read["unet"][0], UNETS[options["unet"]]

    def embed(self, texts: list[str]) -> tuple[list[list[int]], np.ndarray]:
        """Token ids (one row per text) and their hidden states (rows, tokens, width) float32."""
        rows = [self.tokenizer.encode(text).ids for text in texts]
        return rows, call(self.text_encoder, np.array(rows, dtype=np.int64))

    def predict(self, latents: np.ndarray, timestep: int, *, text: np.ndarray, guidance: float) -> np.ndarray:
        """The guided velocity (1, channels, height, width); ``text`` is unconditional first."""
        both = call(self.unet, *unet_inputs(latents, timestep, text))
        result: np.ndarray = both[:1] + guidance * (both[1:] - both[:1])
        return result

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """The picture (height, width, 3) float32 in [0, 1]."""
        picture = call(self.decoder, latents / self.vae["scaling_factor"])[0].transpose(1, 2, 0)
        result: np.ndarray = np.clip(picture / 2 + 0.5, 0, 1)
        return result


def unet_inputs(latents: np.ndarray, timestep: int, text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the denoiser's graph takes: the same latents twice, the timestep, both hidden states."""
    return np.concatenate([latents, latents]), np.array([timestep], dtype=np.int64), text


def checked(request: Mapping[str, Any], pixels: int) -> float:
    """The guidance scale of a request that this file can answer.

    Raises:
        LegError: for anything not implemented; with a scale of 1 or less Diffusers drops the unconditional row, and
            the graphs have two rows.
    """
    refuse("request", request)
    guidance, size = float(request["guidance_scale"]), (request.get("width", pixels), request.get("height", pixels))
    if guidance <= 1:
        raise unsupported(f"request.guidance_scale {guidance:g}, only more than 1")
    if size != (pixels, pixels):
        raise unsupported(f"pictures of {size[0]}x{size[1]}, only {pixels}x{pixels}")
    return guidance


def draw(pipeline: Pipeline, job: Job, writer: Writer) -> None:
    """Answer every item of the suite, one picture at a time."""
    if job.latents_path is None:
        raise unsupported("initial latents of its own, only `initial_latents: shared`")
    latents = np.load(job.latents_path, allow_pickle=False)
    if len(latents) != len(job.items):
        raise LegError(f"{len(latents)} initial latents for {len(job.items)} items", kind="crash")
    for row, item in enumerate(job.items):
        guidance = checked(item.request, pipeline.pixels)
        steps = plan(pipeline.scheduler, item.request["num_inference_steps"])
        ids, text = pipeline.embed([item.request.get("negative_prompt") or "", item.request["prompt"]])
        current = latents[row : row + 1]
        writer.token_ids(item.id, ids)
        writer.initial_latents(item.id, current[0])
        if row == 0:
            report(pipeline, item.request, steps, writer=writer)
            if job.feature is not None:
                prove(pipeline, unet_inputs(current, steps[0].timestep, text), writer)
        for step in steps:
            velocity = pipeline.predict(current, step.timestep, text=text, guidance=guidance)
            current = denoise(current, velocity, step)
        writer.image(item.id, pipeline.decode(current))


def report(pipeline: Pipeline, request: Mapping[str, Any], steps: list[Step], *, writer: Writer) -> None:
    """Tell the writer what took effect, under the names that the ``diffusers`` runner uses."""
    sigmas = [((1 - step.alpha) / step.alpha) ** 0.5 for step in steps]
    writer.schedule(timesteps=[step.timestep for step in steps], sigmas=sigmas)
    settings = {
        "attention_backend": "onnx",
        "batch_size": 1,
        "device": "cpu",
        "threads": pipeline.threads,
        "dtype.text_encoder": "float32",
        "dtype.unet": pipeline.unet_dtype,
        "dtype.vae": "float32",
        "config.guidance_scale": request["guidance_scale"],
        "config.num_inference_steps": len(steps),
        "config.negative_prompt": request.get("negative_prompt") or "",
        "config.width": pipeline.pixels,
        "config.height": pipeline.pixels,
        "config.vae.scaling_factor": pipeline.vae["scaling_factor"],
        "config.scheduler.class": pipeline.scheduler["_class_name"],
    }
    settings |= {f"config.scheduler.{key}": value for key, value in pipeline.scheduler.items() if key[0] != "_"}
    settings |= {f"graph.{part}": digest for part, digest in pipeline.digests.items()}
    for name, value in settings.items():
        writer.setting(name, value)
    writer.environment("graphs_made_from", pipeline.graphs.model)


def prove(pipeline: Pipeline, inputs: tuple[np.ndarray, ...], writer: Writer) -> None:
    """Count the kernels of one forward pass on the run's own graph and first inputs, by the runtime's profile."""
    with tempfile.TemporaryDirectory() as folder:
        session = pipeline.graphs.session(pipeline.unet_data, profile=Path(folder))
        call(session, *inputs)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    kernels = Counter(event["args"]["op_name"] for event in events if "op_name" in event["args"])
    quantised, plain = sum(kernels[name] for name in QUANTISED), kernels["MatMul"] + kernels["FusedMatMul"]
    writer.feature(FEATURE, quantized_matmul_calls=quantised, float_matmul_calls=plain, forwards_profiled=1)


def run(job: Job, writer: Writer) -> None:
    """Answer the job's suite with ONNX Runtime.

    Raises:
        LegError: for settings that are not implemented, and for graphs that are missing or stale.
    """
    draw(Pipeline(job), job, writer)
