"""Coloured pictures of handwritten digits, and captions for them.

The digits are the 1,797 that ship inside scikit-learn (UCI "Optical Recognition of Handwritten Digits", CC BY 4.0),
8x8 pixels each; nothing is downloaded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own idiom

SIZE = 32
HELD_OUT = 360
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PALETTE = {
    "black": (0.06, 0.06, 0.08),
    "white": (0.96, 0.96, 0.94),
    "red": (0.86, 0.14, 0.16),
    "green": (0.14, 0.62, 0.24),
    "blue": (0.16, 0.28, 0.84),
    "yellow": (0.96, 0.84, 0.16),
}
COLOURS = tuple(PALETTE)
OTHER_WORDS = ("a", "the", "digit", "handwritten", "on", "background", "paper", "in", "ink", "of", "photo", "picture")

#: caption template -> how often it is used, relative to the others
CAPTIONS = {
    "a handwritten {digit}": 2,
    "a {ink} {digit}": 2,
    "a {ink} {digit} on {paper}": 4,
    "a {ink} {digit} on a {paper} background": 3,
    "a handwritten {ink} {digit} on {paper} paper": 3,
    "{digit}": 1,
    "the digit {digit} in {ink} ink on {paper} paper": 2,
    "a handwritten {digit} on {paper}": 1,
    "a handwritten digit {digit}": 1,
    "the {ink} digit {digit} on {paper}": 1,
}


class Digits(NamedTuple):
    """``images``: (n, 1, 8, 8) float32 in [0, 1], ink is 1. ``labels``: (n,) int64 in 0..9."""

    images: torch.Tensor
    labels: torch.Tensor


class Pictures(NamedTuple):
    """``images``: (n, 3, 32, 32) float32 in [-1, 1], RGB. The rest: (n,) int64; colours index ``COLOURS``."""

    images: torch.Tensor
    digits: torch.Tensor
    inks: torch.Tensor
    papers: torch.Tensor


def split() -> tuple[Digits, Digits]:
    """The (training, held-out) digits: 1,437 and 360, the same ones each time."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - a second to import, and not needed to sample

    source = load_digits()
    order = np.random.default_rng(0).permutation(len(source.target))
    images = torch.tensor(source.images[order] / 16.0, dtype=torch.float32)[:, None]
    labels = torch.tensor(source.target[order])
    return Digits(images[HELD_OUT:], labels[HELD_OUT:]), Digits(images[:HELD_OUT], labels[:HELD_OUT])


def strokes(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Ink masks (n, 1, 32, 32) in [0, 1] of digits (n, 1, 8, 8), each turned, sheared, scaled and moved a little."""
    count = len(images)

    def draw(low: float, high: float) -> torch.Tensor:
        return torch.empty(count).uniform_(low, high, generator=generator)

    turn, shear = draw(-0.14, 0.14), draw(-0.10, 0.10)
    scale_x, scale_y = draw(0.80, 0.96), draw(0.80, 0.96)
    move_x, move_y = draw(-0.09, 0.09), draw(-0.09, 0.09)
    row_x = torch.stack([turn.cos() / scale_x, (shear - turn.sin()) / scale_x, move_x], dim=1)
    row_y = torch.stack([turn.sin() / scale_y, turn.cos() / scale_y, move_y], dim=1)
    grid = F.affine_grid(torch.stack([row_x, row_y], dim=1), [count, 1, SIZE, SIZE], align_corners=False)
    enlarged = F.grid_sample(images, grid, mode="bicubic", padding_mode="zeros", align_corners=False)
    return torch.sigmoid((enlarged - 0.45) * 12.0)


def paint(masks: torch.Tensor, inks: torch.Tensor, papers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Pictures (n, 3, 32, 32) in [-1, 1]: masks in colours that each vary a little around the palette."""
    palette = torch.tensor(list(PALETTE.values()))

    def colour(index: torch.Tensor) -> torch.Tensor:
        noise = 0.04 * torch.randn(len(index), 3, generator=generator)
        return (palette[index] + noise).clamp(0, 1)[:, :, None, None]

    return (colour(inks) * masks + colour(papers) * (1 - masks)) * 2 - 1


def colour_pairs(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """``count`` random inks and papers, never the same colour for both."""
    inks = torch.randint(0, len(COLOURS), (count,), generator=generator)
    papers = (inks + torch.randint(1, len(COLOURS), (count,), generator=generator)) % len(COLOURS)
    return inks, papers


def pictures(digits: Digits, count: int, *, generator: torch.Generator) -> Pictures:
    """``count`` random pictures of random digits out of ``digits``."""
    chosen = torch.randint(0, len(digits.images), (count,), generator=generator)
    inks, papers = colour_pairs(count, generator)
    masks = strokes(digits.images[chosen], generator)
    return Pictures(paint(masks, inks, papers, generator), digits.labels[chosen], inks, papers)


def caption(random: np.random.Generator, *, digit: int, ink: int, paper: int, drop: float) -> str:
    """A random caption of a picture; with probability ``drop`` the empty one that guidance needs."""
    if random.random() < drop:
        return ""
    weights = np.array(list(CAPTIONS.values()), dtype=float)
    template = list(CAPTIONS)[random.choice(len(CAPTIONS), p=weights / weights.sum())]
    return template.format(digit=WORDS[digit], ink=COLOURS[ink], paper=COLOURS[paper])
