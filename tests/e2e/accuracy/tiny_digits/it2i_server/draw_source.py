#!/usr/bin/env python3
"""Draw the picture that tiny-digits-it2i-server edits: a yellow three on blue, 32x32, by plain lines."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw

#: A polyline in a picture four times as large.
_STROKE = [(40, 30), (88, 30), (62, 58), (84, 72), (84, 92), (64, 102), (40, 94)]


def draw() -> Image.Image:
    """The picture, RGB."""
    large = Image.new("RGB", (128, 128), (35, 75, 200))
    ImageDraw.Draw(large).line(_STROKE, fill=(240, 210, 40), width=13, joint="curve")
    return large.resize((32, 32), Image.Resampling.BOX)


if __name__ == "__main__":
    draw().save(Path(__file__).with_name("source.png"))
