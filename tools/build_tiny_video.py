#!/usr/bin/env python3
"""Write the tiny-video pipeline: a WanPipeline of 0.5 MB with random weights that are not blind to their prompt.

Weights as PyTorch draws them move the picture about as much for another prompt as bfloat16 does, so every Linear and
Conv weight is drawn again at unit gain, N(0, 1/fan_in), with zero biases. NumPy draws them, so that the bits do not
depend on the kernels of the machine.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

SEED = 20261201
WORDS = (
    "a",
    "the",
    "red",
    "green",
    "blue",
    "ball",
    "cat",
    "dog",
    "moves",
    "left",
    "right",
    "up",
    "down",
    "on",
    "of",
    "and",
)
CHANNELS = 16
TEXT_WIDTH = 32
MODEL = Path(__file__).resolve().parents[1] / "tests/e2e/accuracy/tiny_video/model"


def build(*, redraw: bool = True) -> Any:
    """The pipeline, in float32 on the CPU.

    Args:
        redraw: False leaves the weights as PyTorch draws them, which shows why they are drawn again.
    """
    torch.manual_seed(SEED)
    tokenizer = _tokenizer()
    text_encoder = UMT5EncoderModel(
        UMT5Config(
            vocab_size=len(tokenizer),
            d_model=TEXT_WIDTH,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            relative_attention_num_buckets=8,
        )
    )
    transformer = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        text_dim=TEXT_WIDTH,
        freq_dim=64,
        ffn_dim=48,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    vae = AutoencoderKLWan(
        base_dim=8, z_dim=CHANNELS, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=3.0
    )
    if redraw:
        draw = np.random.default_rng(SEED)
        for module in (text_encoder, transformer, vae):
            _redraw(module, draw)
    return WanPipeline(
        tokenizer=tokenizer,
        text_encoder=text_encoder.eval(),
        vae=vae.eval(),
        scheduler=scheduler,
        transformer=transformer.eval(),
    )


def main() -> None:
    """Write the pipeline in Diffusers layout, in place of what lies there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=MODEL, help="folder to write; what lies there is replaced")
    out = parser.parse_args().out
    if out.exists() and not (out / "model_index.json").is_file():
        parser.error(f"{out} exists and is no pipeline; name another folder")
    shutil.rmtree(out, ignore_errors=True)
    build().save_pretrained(out)


def _tokenizer() -> PreTrainedTokenizerFast:
    """One token a word; unknown words share one."""
    vocabulary = {word: index for index, word in enumerate(("<pad>", "</s>", "<unk>", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - a token of text
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32, **special)


def _redraw(module: torch.nn.Module, draw: np.random.Generator) -> None:
    """Every parameter anew, in order of its name: weights of matrices at unit gain, scales 1, biases 0."""
    norms = {
        f"{owner}.{name}".removeprefix(".")
        for owner, child in module.named_modules()
        for name, value in child.named_parameters(recurse=False)
        if "norm" in type(child).__name__.lower() and name != "bias" and value is not None
    }
    with torch.no_grad():
        for name, value in sorted(module.named_parameters()):
            if name in norms:
                value.fill_(1.0)
            elif value.ndim < 2:
                value.zero_()
            else:
                # An embedding is looked up, not summed over: its rows have unit size.
                embedding = name.endswith(("shared.weight", "embed_tokens.weight", "relative_attention_bias.weight"))
                table = name.endswith("scale_shift_table")  # added as it is; Wan draws it so as well
                fan_in = 1 if embedding else value.shape[-1] if table else int(np.prod(value.shape[1:]))
                drawn = draw.standard_normal(tuple(value.shape)) / np.sqrt(fan_in)
                value.copy_(torch.from_numpy(drawn.astype(np.float32)))


if __name__ == "__main__":
    main()
