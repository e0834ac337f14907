"""When frames are shown: a stated frame rate is believed only where the time stamps agree with it."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

#: Time stamps are whole ticks, so the time between two of them is off by less than this many.
_TICKS = 2


def frame_rate(source: Any, video: Any) -> tuple[float | None, tuple[str, ...]]:
    """Frames per second, and what must be said of it.

    Args:
        source: an open PyAV container, which is read to its end without decoding.
        video: its stream.

    Returns:
        The stated rate when every frame lasts as long as it says, else the mean of the time stamps; the stated one
        where there are none, and None where nothing is known.
    """
    import av  # noqa: PLC0415 (an extra)

    stated = video.average_rate or None
    rate = None if stated is None else float(stated)
    try:
        shown = [packet.pts for packet in source.demux(video) if packet.size and not packet.is_discard]
    except av.FFmpegError:  # decoding comes to the same place, and says how far it came
        return rate, ()
    if len(shown) < 2 or None in shown or not video.time_base:
        return rate, ()
    times = sorted(shown)
    lengths = [later - earlier for earlier, later in pairwise(times)]
    if stated is not None and all(abs(length - 1 / stated / video.time_base) < _TICKS for length in lengths):
        return rate, ()
    if times[0] == times[-1]:
        return rate, ("its time stamps do not advance",)
    mean = (len(times) - 1) / (Fraction(times[-1] - times[0]) * video.time_base)
    low, high = (1000 * float(length * video.time_base) for length in (min(lengths), max(lengths)))
    says = "states no frame rate" if rate is None else f"states {rate:g} frames per second"
    return float(mean), (f"variable frame rate: frames last from {low:g} to {high:g} ms; the file {says}",)
