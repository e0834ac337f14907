"""Under which heading of the checklist a setting belongs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Group = Literal["source", "randomness", "numerics", "output"]

#: Group -> its heading, in the order in which people read them.
HEADINGS: Mapping[Group, str] = MappingProxyType(
    {
        "source": "Source and inputs",
        "randomness": "Randomness and sampling",
        "numerics": "Numerical path",
        "output": "Output and comparison",
    }
)
#: Group -> dotted names, without ``config.``, whose settings belong there; the longest that fits decides.
_NAMES: Mapping[Group, tuple[str, ...]] = MappingProxyType(
    {
        "source": (
            "class", "clip_skip", "git", "golden", "graph", "import", "input", "input_fingerprint", "inputs", "layers",
            "max_sequence_length", "model", "model_id", "negative_prompt", "negative_prompt_2", "pipeline",
            "preprocess", "preprocessing", "prompt", "prompt_2", "provenance", "reference", "requires", "revision",
            "runner", "source", "text_encoder", "token_ids", "tokenizer", "tokens", "version", "versions", "weights",
        ),
        "randomness": (
            "audio_guidance_scale", "batch", "batch_size", "boundary_ratio", "eta", "flow_shift", "generator",
            "guidance", "guidance_rescale", "guidance_scale", "guidance_scale_2", "image_guidance_scale",
            "initial_latents", "latent", "latents", "noise", "num_images_per_prompt", "num_inference_steps",
            "num_videos_per_prompt", "rng", "sampler", "scheduler", "seed", "seeds", "shift", "sigmas", "steps",
            "strength", "timesteps", "true_cfg_scale",
        ),
        "numerics": (),
        "output": (
            "codec", "container", "count", "decode_frames", "duration_s", "encode", "encoding", "fps", "frame_rate",
            "frames", "height", "num_frames", "output", "output_type", "pixel_format", "postprocess", "representation",
            "resolution", "sample_rate_hz", "size", "width",
        ),
    }
)  # fmt: skip
_GROUP_OF: Mapping[str, Group] = MappingProxyType({name: group for group, names in _NAMES.items() for name in names})


def group_of(setting: str) -> Group:
    """The group of a dotted setting name.

    A name of the table, or the beginning of one up to a dot or an underscore (``noise_device``, ``scheduler.class``);
    everything else (precision, kernels, threads, flags, compilation, caches, parallelism) may change the numbers, and
    belongs to the numerical path.
    """
    name = setting.removeprefix("config.")
    while name:
        if name in _GROUP_OF:
            return _GROUP_OF[name]
        name = name[: max(name.rfind("."), name.rfind("_"), 0)]
    return "numerics"
