"""Draw the first frame of the Wan2.2 case: ``python draw_first_frame.py first_frame.png``.

A sailing boat at sunset, 832 x 480, RGB: smooth areas, hard edges and thin lines, so that a shifted resize, a
swapped channel or a cropped border shows. Integer arithmetic only, so that every machine draws the same pixels.
"""

import sys

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT, HORIZON = 832, 480, 300


def draw() -> Image.Image:
    """The picture, 832 x 480, RGB."""
    rows = np.arange(HEIGHT, dtype=np.int64)[:, None]
    columns = np.arange(WIDTH, dtype=np.int64)[None, :]
    depth = np.minimum(rows, HORIZON)
    sky = np.stack([60 + depth * 180 // HORIZON, 70 + depth * 80 // HORIZON, 150 - depth * 60 // HORIZON], axis=-1)
    pixels = np.broadcast_to(sky, (HEIGHT, WIDTH, 3)).copy()
    # Triangle waves that widen towards the viewer.
    period = 8 + (rows - HORIZON) // 6
    wave = np.abs((columns + rows * 3) % (2 * period.clip(1)) - period)
    water = np.stack([20 + wave * 3, 60 + wave * 3, 110 + wave * 2 + columns * 0], axis=-1)
    pixels[HORIZON:] = water[HORIZON:]
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    pen.ellipse((560, 210, 680, 330), fill=(255, 214, 120))
    pen.rectangle((0, HORIZON, WIDTH, HORIZON + 1), fill=(240, 200, 140))
    pen.polygon([(220, 350), (420, 350), (390, 390), (250, 390)], fill=(90, 40, 30))
    pen.polygon([(316, 140), (316, 340), (230, 340)], fill=(240, 240, 230))
    pen.polygon([(324, 170), (324, 340), (400, 340)], fill=(200, 60, 50))
    pen.rectangle((318, 120, 322, 350), fill=(50, 30, 20))
    return image


if __name__ == "__main__":
    draw().save(sys.argv[1], optimize=True)
