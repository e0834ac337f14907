"""Does a picture show what its prompt asked for? Read by a classifier that is no part of the pipeline.

The ink and paper are taken from the palette by least squares, which also gives the strokes as a mask; a support
vector machine trained on the real digits' strokes reads the digit. It saw the same 1,437 training digits as the
pipeline and none of the 360 held-out ones, on which its own accuracy is measured. This checks the content of a
picture, not how varied or how natural the pictures are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from sklearn.svm import SVC

from tiny_digits.data import COLOURS, PALETTE, WORDS, Digits, Pictures, paint, split, strokes

#: Times each training digit is drawn, with other strokes and colours, to train the classifier.
COPIES = 4


class Reading(NamedTuple):
    """What pictures show: each (n,) integers; colours index ``COLOURS``."""

    digits: np.ndarray
    inks: np.ndarray
    papers: np.ndarray


class Share(NamedTuple):
    """Shares in [0, 1] of pictures whose digit, ink, paper, and all three, are as they should be."""

    digit: float
    ink: float
    paper: float
    all: float


def recover(images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inks (n,), papers (n,) and stroke masks (n, 32, 32) in [0, 1] of images (n, 32, 32, 3) in [0, 1].

    The paper is the palette colour nearest to the median of the two outermost pixels on each side. The ink is the
    colour for which mixtures of ink and paper leave the smallest squared error; the mixture's share is the mask.
    """
    palette = np.array(list(PALETTE.values()))
    frame = np.ones(images.shape[1:3], dtype=bool)
    frame[2:-2, 2:-2] = False
    border = np.median(images[:, frame], axis=1)
    papers = ((border[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1)
    inks, masks = np.empty(len(images), dtype=int), np.empty(images.shape[:3])
    for row, (image, paper) in enumerate(zip(images, papers, strict=True)):
        best = np.inf
        for ink in set(range(len(COLOURS))) - {int(paper)}:
            direction = palette[ink] - palette[paper]
            mask = np.clip((image - palette[paper]) @ direction / (direction @ direction), 0, 1)
            error = float(((image - palette[paper] - mask[..., None] * direction) ** 2).sum())
            if error < best:
                best, inks[row], masks[row] = error, ink, mask
    return inks, papers, masks


def features(masks: np.ndarray) -> np.ndarray:
    """Masks (n, 32, 32) averaged over 2x2 pixels and flattened to (n, 256)."""
    means: np.ndarray = masks.reshape(len(masks), 16, 2, 16, 2).mean(axis=(2, 4))
    return means.reshape(len(masks), -1)


def draw(digits: Digits, *, copies: int, seed: int) -> Pictures:
    """Every digit ``copies`` times, with random strokes and colours."""
    generator = torch.Generator().manual_seed(seed)
    repeated = Digits(digits.images.repeat(copies, 1, 1, 1), digits.labels.repeat(copies))
    count = len(repeated.labels)
    inks = torch.arange(count) % len(COLOURS)
    papers = (inks + torch.randint(1, len(COLOURS), (count,), generator=generator)) % len(COLOURS)
    masks = strokes(repeated.images, generator)
    return Pictures(paint(masks, inks, papers, generator), repeated.labels, inks, papers)


def to_unit(images: torch.Tensor) -> np.ndarray:
    """(n, 3, 32, 32) in [-1, 1] as (n, 32, 32, 3) in [0, 1]."""
    pixels: np.ndarray = images.permute(0, 2, 3, 1).numpy().astype(np.float64)
    return pixels / 2 + 0.5


class Classifier:
    """Reads digit, ink and paper from pictures; trained on the training digits when it is made."""

    def __init__(self) -> None:
        training, _ = split()
        pictures = draw(training, copies=COPIES, seed=11)
        masks = recover(to_unit(pictures.images))[2]
        self._machine = SVC(C=10.0, gamma="scale").fit(features(masks), pictures.digits.numpy())

    def read(self, images: np.ndarray) -> Reading:
        """What images (n, 32, 32, 3) in [0, 1] show."""
        inks, papers, masks = recover(images)
        return Reading(self._machine.predict(features(masks)), inks, papers)

    def held_out(self) -> Share:
        """Its own accuracy on pictures of the held-out digits."""
        pictures = draw(split()[1], copies=1, seed=12)
        wanted = Reading(pictures.digits.numpy(), pictures.inks.numpy(), pictures.papers.numpy())
        return share(self.read(to_unit(pictures.images)), wanted)


def share(seen: Reading, wanted: Reading) -> Share:
    """How often ``seen`` is what was ``wanted``."""
    right = np.array([one == other for one, other in zip(seen, wanted, strict=True)])
    digit, ink, paper = right.mean(axis=1).tolist()
    return Share(digit, ink, paper, float(right.all(axis=0).mean()))


def requests(count: int) -> Reading:
    """``count`` combinations: digits in turn, and all thirty pairs of ink and paper in turn."""
    pairs = [(ink, paper) for ink in range(len(COLOURS)) for paper in range(len(COLOURS)) if ink != paper]
    # A stride that shares no factor with thirty: digits and pairs do not move in step.
    chosen = np.array([pairs[7 * index % len(pairs)] for index in range(count)])
    return Reading(np.arange(count) % len(WORDS), chosen[:, 0], chosen[:, 1])


def generate(model: Path, wanted: Reading, *, seed: int, guidance: float, log: Callable[[str], None]) -> np.ndarray:
    """Pictures (n, 32, 32, 3) in [0, 1] for "a {ink} {digit} on a {paper} background", in 20 steps."""
    pipeline: Any = StableDiffusionPipeline.from_pretrained(model, dtype=torch.float32, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    prompts = [
        f"a {COLOURS[ink]} {WORDS[digit]} on a {COLOURS[paper]} background"
        for digit, ink, paper in zip(*wanted, strict=True)
    ]
    images: list[np.ndarray] = []
    for start in range(0, len(prompts), 10):
        batch = prompts[start : start + 10]
        generators = [torch.Generator().manual_seed(seed + start + row) for row in range(len(batch))]
        result = pipeline(
            batch, num_inference_steps=20, guidance_scale=guidance, generator=generators, output_type="np"
        )
        images.extend(result.images)
        log(f"{len(images)} of {len(prompts)} pictures")
    return np.stack(images).astype(np.float64)
