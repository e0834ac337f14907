"""Pictures of the page: both sides and their amplified difference in the worst frames, read again from the files."""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.compare.files.declared import Declared
from paritygate.compare.files.pairing import Pair
from paritygate.compare.files.pictures import opened
from paritygate.compare.files.result import Outcome, Part
from paritygate.errors import MediaError
from paritygate.media.images import encode_png
from paritygate.media.levels import to_stored
from paritygate.report.pictures import amplification, to_rgb

#: Frames of a clip that are shown.
MAX_FRAMES = 3
#: Larger pictures are shown smaller by a whole factor: means of the sides, the largest of the difference.
MAX_SIDE = 1024
#: Smaller pictures show their single pixels.
SMALL_SIDE = 300
#: Whose worst frame is worth a look, in this order, where no bound says it.
_LOOKED_AT = ("ssim", "temporal_error", "ssim_worst_tile", "psnr_db", "abs_diff_mean")
#: Whose place is outlined.
_TILES = ("ssim_worst_tile", "abs_diff_worst_tile")

_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Three pictures of one frame: title and base64 PNG each; ``outline`` is SVG in pixels of ``width x height``."""

    title: str
    pictures: tuple[tuple[str, str], ...]
    width: int
    height: int
    is_small: bool
    outline: str


def worst_pictures(
    part: Part, pair: Pair, declared: Declared, *, bounds: tuple[Outcome, ...]
) -> tuple[Shown, ...] | str:
    """The image, or the worst frames of the clip; or why they cannot be shown."""
    wanted = _worst_frames(part, bounds) if part.kind == "video" else {0: ()}
    if not wanted:
        return "no frame has a value"
    shown = []
    try:
        with (
            opened(pair.reference, declared, kind=pair.kind) as left,
            opened(pair.candidate, declared, kind=pair.kind) as right,
        ):
            both = itertools.islice(zip(left.frames, right.frames, strict=True), max(wanted) + 1)
            for index, frames in enumerate(both):
                if index in wanted:
                    reference, candidate = (_stored(frame, left.data_range) for frame in frames)
                    shown.append(_shown(reference, candidate, part, index=index, metrics=wanted[index]))
    except (MediaError, ValueError) as error:
        return f"no pictures: {error}"
    return tuple(shown)


def _worst_frames(part: Part, bounds: tuple[Outcome, ...]) -> dict[int, tuple[str, ...]]:
    """Frame -> the metrics that are worst there; missed bounds first."""
    missed = [outcome.metric for outcome in bounds if not outcome.satisfied]
    order = [*missed, *(outcome.metric for outcome in bounds), *_LOOKED_AT]
    by_metric = {series.metric: series for series in part.series}
    found: dict[int, tuple[str, ...]] = {}
    for metric in dict.fromkeys((*order, *by_metric)):
        if metric not in by_metric or not by_metric[metric].worst_key:
            continue
        frame = int(by_metric[metric].worst_key)
        if frame in found or len(found) < (MAX_FRAMES if metric in order else 1):
            found[frame] = (*found.get(frame, ()), metric)
    return found


def _shown(reference: _Bytes, candidate: _Bytes, part: Part, *, index: int, metrics: tuple[str, ...]) -> Shown:
    difference = np.abs(reference.astype(np.int16) - candidate.astype(np.int16))
    largest = int(difference.max())
    factor = amplification(largest)
    if difference.shape[2] in (2, 4):
        # A picture of a difference has no transparency: the alpha channel counts like a colour.
        difference = difference.max(axis=2, keepdims=True)
    amplified = to_rgb(np.minimum(difference * factor, 255).astype(np.uint8))
    height, width = reference.shape[:2]
    scale = -(-max(height, width) // MAX_SIDE)
    what = f"difference x{factor}, largest {largest} of 255 levels" if largest else "no difference in 8 bits"
    smaller = f", shown at 1/{scale}" if scale > 1 else ""
    many = f"{', '.join(metrics[:4])}{' and others' if len(metrics) > 4 else ''}"
    title = f"frame {index}, worst by {many}" if part.kind == "video" else "reference, candidate, difference"
    pictures = (
        (f"reference{smaller}", _png(_reduced(_rgb(reference), scale, how=np.mean))),
        (f"candidate{smaller}", _png(_reduced(_rgb(candidate), scale, how=np.mean))),
        (what, _png(_reduced(amplified, scale, how=np.max))),
    )
    outline, tile = _outline(part, index, width=width, height=height) if largest else ("", "")
    title += f"; outlined: {tile}" if tile else ""
    is_small = max(width, height) <= SMALL_SIDE
    return Shown(title=title, pictures=pictures, width=width, height=height, is_small=is_small, outline=outline)


def _outline(part: Part, index: int, *, width: int, height: int) -> tuple[str, str]:
    """The worst tile of this picture and its metric; for a clip, only the tile of its worst frame is known."""
    for series in part.series:
        place = series.detail
        here = not series.worst_key or int(series.worst_key) == index
        if series.metric in _TILES and here and {"x", "y", "width", "height"} <= place.keys():
            x, y, w, h = (int(place[key]) for key in ("x", "y", "width", "height"))
            size = f'width="{min(w, width - x)}" height="{min(h, height - y)}"'
            return f'<rect class="tile" x="{x}" y="{y}" {size}/>', series.metric
    return "", ""


def _stored(frame: NDArray[Any], data_range: float) -> _Bytes:
    return frame if frame.dtype == np.uint8 else to_stored((frame / data_range).astype(np.float32))


def _rgb(image: _Bytes) -> _Bytes:
    if image.shape[2] == 2:
        image = np.concatenate([np.repeat(image[..., :1], 3, axis=2), image[..., 1:]], axis=2)
    return to_rgb(image)


def _reduced(image: _Bytes, scale: int, *, how: Any) -> _Bytes:
    if scale == 1:
        return image
    height, width = image.shape[0] // scale * scale, image.shape[1] // scale * scale
    blocks = image[:height, :width].reshape(height // scale, scale, width // scale, scale, -1)
    reduced: _Bytes = np.rint(how(blocks, axis=(1, 3))).astype(np.uint8)
    return reduced


def _png(image: _Bytes) -> str:
    return base64.b64encode(encode_png(image)).decode("ascii")
