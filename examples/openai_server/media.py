"""Pictures and clips as files: all of them lossless."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
from PIL import Image, ImageOps

from openai_server.refusal import Refusal

_FORMATS = ("PNG", "JPEG", "WEBP")
_MOST_PIXELS = 2048 * 2048


def to_levels(pixels: Any) -> Any:
    """Floats in [0, 1] to 8 bits, rounded as Diffusers does it."""
    return (np.asarray(pixels, np.float32) * 255).round().astype(np.uint8)


def png(levels: Any) -> bytes:
    """``(height, width, 3)`` uint8 as a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(levels).save(stream, format="PNG")
    return stream.getvalue()


def mp4(levels: Any, *, fps: float) -> bytes:
    """``(frames, height, width, 3)`` uint8 as H.264 in RGB at quantiser 0, which is lossless; one thread, no dates."""
    stream = io.BytesIO()
    with av.open(stream, "w", format="mp4", options={"fflags": "+bitexact"}) as file:
        video = file.add_stream("libx264rgb", rate=Fraction(fps).limit_denominator(1001), options={"qp": "0"})
        video.height, video.width = levels.shape[1:3]
        video.pix_fmt = "rgb24"
        video.codec_context.thread_count = 1
        for frame in levels:
            file.mux(video.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        file.mux(video.encode(None))
    return stream.getvalue()


def picture(data: bytes) -> Image.Image:
    """An uploaded picture, upright, RGB, 8 bits.

    Raises:
        Refusal: for another kind of file, a broken or huge one, or one that is transparent.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as file:
            if file.width * file.height > _MOST_PIXELS:
                raise Refusal(f"the image has {file.width}x{file.height} pixels, too many", param="image")
            image = ImageOps.exif_transpose(file)
            image.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Refusal("the image is not a whole PNG, JPEG or WebP file", param="image") from error
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema()[0] < 255:
        raise Refusal("the image is transparent; lay it on a colour", param="image")
    if image.mode.startswith(("I", "F")):
        raise Refusal("the image has more than 8 bits a value", param="image")
    return image.convert("RGB")
