"""Training of tiny-digits: first the autoencoder, then the UNet and the text encoder together.

Both loops run a fixed number of optimiser steps on one thread, with fixed seeds. The shipped weights came from the
same recipe under a time budget that ended at the default step counts. Their bits are not reproduced: the order of
floating-point sums differs between versions and processors, and training amplifies it.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own idiom

from tiny_digits import parts
from tiny_digits.data import COLOURS, SIZE, caption, pictures, split

VAE_STEPS = 1392
STEPS = 7201
POOL = 40_000
DROP_CAPTION = 0.12
Log = Callable[[str], None]


class Average:
    """An exponential moving average of a module's parameters: what is saved in place of the last step."""

    def __init__(self, module: torch.nn.Module, *, decay: float) -> None:
        self.module = copy.deepcopy(module).eval().requires_grad_(False)
        self._decay = decay
        self._updates = 0

    def update(self, module: torch.nn.Module) -> None:
        """Move towards ``module``; quickly in the first updates, which are far from the end."""
        self._updates += 1
        decay = min(self._decay, (1 + self._updates) / (10 + self._updates))
        with torch.no_grad():
            for average, latest in zip(self.module.parameters(), module.parameters(), strict=True):
                average.lerp_(latest, 1 - decay)


class Optimiser:
    """AdamW with a linear warm-up, a cosine decay to a floor, and gradients clipped to norm 1."""

    def __init__(self, module: torch.nn.Module, *, rate: float, warmup: int, floor: float, **adamw: Any) -> None:
        self._parameters = list(module.parameters())
        self._adamw = torch.optim.AdamW(self._parameters, lr=rate, **adamw)
        self._rate, self._warmup, self._floor = rate, warmup, floor

    def step(self, loss: torch.Tensor, *, index: int, total: int) -> None:
        """Step ``index`` (from 0) of ``total``."""
        cosine = 0.5 * (1 + math.cos(math.pi * (index + 1) / total))
        for group in self._adamw.param_groups:
            group["lr"] = self._rate * max(self._floor, cosine) * min(1.0, (index + 1) / self._warmup)
        self._adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._adamw.step()


def progress(name: str, total: int, log: Log) -> Iterator[tuple[int, Callable[[float], None]]]:
    """Step indices, each with a function that takes its loss; logs the mean loss of every 200 steps."""
    started, losses = time.monotonic(), list[float]()
    for index in range(total):
        yield index, losses.append
        if (index + 1) % 200 == 0 or index + 1 == total:
            seconds = time.monotonic() - started
            log(f"{name}: step {index + 1} of {total}, {seconds:.0f} s, mean loss {np.mean(losses):.4f}")
            losses.clear()


def train_vae(*, steps: int, log: Log) -> Any:
    """A trained autoencoder whose ``scaling_factor`` gives its latents a standard deviation of 1."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    digits, _ = split()
    vae = parts.build_vae()
    optimiser = Optimiser(vae, rate=2e-3, warmup=100, floor=0.02, weight_decay=1e-4)
    average = Average(vae, decay=0.995)
    for index, report in progress("vae", steps, log):
        images = pictures(digits, 32, generator=generator).images
        posterior = vae.encode(images).latent_dist
        decoded = vae.decode(posterior.sample()).sample
        divergence = posterior.kl().mean() / images[0].numel()
        loss = (decoded - images).abs().mean() + F.mse_loss(decoded, images) + 2e-3 * divergence
        optimiser.step(loss, index=index, total=steps)
        average.update(vae)
        report(loss.item())

    vae = average.module
    with torch.no_grad():
        images = pictures(digits, 1024, generator=generator).images
        latents = vae.encode(images).latent_dist.mean
        error = F.mse_loss(vae.decode(latents).sample.clamp(-1, 1), images)
    vae.register_to_config(scaling_factor=round(float(1 / latents.std()), 5))
    log(f"vae: scaling factor {vae.config.scaling_factor}, {10 * math.log10(4 / float(error)):.2f} dB on new pictures")
    return vae


def encode_pool(vae: Any, *, size: int, generator: torch.Generator) -> tuple[torch.Tensor, np.ndarray]:
    """Scaled latents (size, 4, 8, 8) of random pictures, and their (digit, ink, paper) as (size, 3) integers."""
    digits, _ = split()
    latents, facts = [], []
    with torch.no_grad():
        for start in range(0, size, 500):
            batch = pictures(digits, min(500, size - start), generator=generator)
            latents.append(vae.encode(batch.images).latent_dist.mean * vae.config.scaling_factor)
            facts.append(torch.stack([batch.digits, batch.inks, batch.papers], dim=1))
    return torch.cat(latents), torch.cat(facts).numpy()


def curriculum(facts: np.ndarray) -> list[tuple[float, torch.Tensor]]:
    """(share of the steps until which it holds, rows to draw from), in order.

    With all colour pairs at once the sign of "ink minus paper" flips from pair to pair, so the mean gradient of the
    digit word is about zero: colours come out right and digits stay at chance for thousands of steps. Black on white
    first, dark on light next and everything last makes the digits come out too.
    """
    ink, paper = facts[:, 1], facts[:, 2]
    dark = [COLOURS.index(name) for name in ("black", "red", "green", "blue")]
    light = [COLOURS.index(name) for name in ("white", "yellow")]
    black_on_white = (ink == COLOURS.index("black")) & (paper == COLOURS.index("white"))
    dark_on_light = np.isin(ink, dark) & np.isin(paper, light)
    everything = np.ones(len(facts), dtype=bool)
    stages = ((0.2, black_on_white), (0.4, dark_on_light), (math.inf, everything))
    return [(end, torch.from_numpy(rows.nonzero()[0])) for end, rows in stages]


def train_denoiser(vae: Any, tokenizer: Any, *, steps: int, pool: int, log: Log) -> tuple[Any, Any]:
    """A trained (UNet, text encoder)."""
    torch.manual_seed(2)
    generator, random = torch.Generator().manual_seed(2), np.random.default_rng(2)
    text_encoder, unet, scheduler = parts.build_text_encoder(tokenizer), parts.build_unet(), parts.build_scheduler()
    latents, facts = encode_pool(vae.eval(), size=pool, generator=generator)
    log(f"denoiser: encoded {pool} pictures, standard deviation {latents.std():.3f}")
    stages = curriculum(facts)
    both = torch.nn.ModuleList([unet, text_encoder])
    optimiser = Optimiser(both, rate=1.5e-3, warmup=300, floor=0.01, weight_decay=1e-3, betas=(0.9, 0.98))
    average = Average(both, decay=0.999)
    batch = 64
    for index, report in progress("denoiser", steps, log):
        rows = next(rows for end, rows in stages if (index + 1) / steps < end)
        chosen = rows[torch.randint(0, len(rows), (batch,), generator=generator)]
        captions = [
            caption(random, digit=digit, ink=ink, paper=paper, drop=DROP_CAPTION)
            for digit, ink, paper in facts[chosen.numpy()].tolist()
        ]
        ids = tokenizer(captions, padding="max_length", truncation=True, return_tensors="pt").input_ids
        noise = torch.randn(batch, 4, SIZE // parts.FACTOR, SIZE // parts.FACTOR, generator=generator)
        # One timestep out of each 64th of the range: less variance than 64 independent draws.
        offset = torch.randint(0, 1000, (1,), generator=generator)
        timesteps = (torch.arange(batch) * 1000 // batch + offset) % 1000
        noisy = scheduler.add_noise(latents[chosen], noise, timesteps)
        # v-prediction gives weight to the noisy steps, where the digit is decided.
        target = scheduler.get_velocity(latents[chosen], noise, timesteps)
        predicted = unet(noisy, timesteps, encoder_hidden_states=text_encoder(ids)[0]).sample
        loss = F.mse_loss(predicted, target)
        optimiser.step(loss, index=index, total=steps)
        average.update(both)
        report(loss.item())
    return average.module[0], average.module[1]


def train(directory: Path, *, vae_steps: int, steps: int, pool: int, log: Log) -> None:
    """Train everything and leave a Diffusers pipeline in ``directory``."""
    tokenizer = parts.build_tokenizer(directory / "tokenizer")
    vae = train_vae(steps=vae_steps, log=log)
    unet, text_encoder = train_denoiser(vae, tokenizer, steps=steps, pool=pool, log=log)
    parts.save_pipeline(
        directory,
        tokenizer=tokenizer,
        text_encoder=text_encoder,
        unet=unet,
        vae=vae,
        scheduler=parts.build_scheduler(),
    )
    log(f"saved {directory}")
