"""The untrained parts of tiny-digits, and how they are saved as one Diffusers directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from tiny_digits.data import COLOURS, OTHER_WORDS, SIZE, WORDS

TOKENS = 16
WIDTH = 64
#: Latents are this many times smaller than the picture in each direction.
FACTOR = 4


def build_tokenizer(directory: Path) -> Any:
    """A CLIP tokenizer whose byte-pair merges were learnt from the words of the captions; saved in ``directory``.

    The trainer orders equally frequent merges differently in each process, so ids differ between trainings.
    """
    learner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=100_000, min_frequency=1, end_of_word_suffix="</w>", show_progress=False)
    words = [*WORDS, *COLOURS, *OTHER_WORDS]
    learner.train_from_iterator([word for word in words for _ in range(3)], trainer)
    merges = [tuple(merge) for merge in json.loads(learner.to_str())["model"]["merges"]]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(letter + "</w>" for letter in alphabet), *("".join(merge) for merge in merges)]
    pieces = [*dict.fromkeys(pieces), "<|startoftext|>", "<|endoftext|>"]

    directory.mkdir(parents=True, exist_ok=True)
    vocabulary, merge_file = directory / "vocab.json", directory / "merges.txt"
    vocabulary.write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}, ensure_ascii=False))
    merge_file.write_text("#version: 0.2\n" + "".join(" ".join(merge) + "\n" for merge in merges))
    CLIPTokenizer(str(vocabulary), str(merge_file), model_max_length=TOKENS).save_pretrained(directory)
    return CLIPTokenizer.from_pretrained(directory)


def build_vae() -> Any:
    """An AutoencoderKL from 3x32x32 pictures to 4x8x8 latents, with random weights."""
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=4,
        sample_size=SIZE,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(16, 24, 32),
        layers_per_block=1,
        norm_num_groups=8,
    )


def build_text_encoder(tokenizer: Any) -> Any:
    """A CLIP text encoder of two layers for the vocabulary of ``tokenizer``, with random weights."""
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=TOKENS,
            projection_dim=WIDTH,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def build_unet() -> Any:
    """A UNet over 4x8x8 latents with cross-attention in its lower level and middle, with random weights."""
    return UNet2DConditionModel(
        sample_size=SIZE // FACTOR,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32, 64),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=4,
    )


def build_scheduler() -> Any:
    """DDIM with 1,000 linear betas that predicts v; steps are spaced ``leading`` with an offset of one."""
    return DDIMScheduler(
        num_train_timesteps=1000,
        beta_start=1e-4,
        beta_end=0.02,
        beta_schedule="linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
        prediction_type="v_prediction",
    )


def save_pipeline(directory: Path, *, tokenizer: Any, text_encoder: Any, unet: Any, vae: Any, scheduler: Any) -> None:
    """Write a directory that ``StableDiffusionPipeline.from_pretrained`` loads."""
    StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(directory, safe_serialization=True)
    # transformers 5.6 and later drop the "text_model." prefix that every published Stable Diffusion text encoder
    # has. With the prefix put back the directory looks like those; transformers 5.24 loads both forms.
    path = directory / "text_encoder" / "model.safetensors"
    prefix = "text_model."
    tensors = {prefix + name.removeprefix(prefix): tensor.clone() for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
