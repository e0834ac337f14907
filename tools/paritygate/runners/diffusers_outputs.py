"""What a pipeline returns -> the outputs of each item."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import missing_extra
from paritygate.manifest.case import Item, Output
from paritygate.runners.diffusers_names import refused
from paritygate.runners.job import Job, Writer

#: Where pipelines keep the rate of their sound: component, then the key of its configuration.
_RATES = (
    ("vocoder", "output_sampling_rate"),
    ("vocoder", "sampling_rate"),
    ("audio_vae", "sample_rate"),
    ("vae", "sampling_rate"),
    ("vae", "sample_rate"),
    ("unet", "sample_rate"),
)
#: Kind of output -> the fields of the pipeline's answer that hold it, by role.
_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": ("sounds",),
        "images": ("images",),
        "video": ("clips",),
        "video_audio": ("clips", "sounds"),
    }
)
_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"clips": ("frames",), "images": ("images",), "sounds": ("audios", "audio")}
)

_Output = TypeVar("_Output")


@dataclass(frozen=True, kw_only=True)
class Made:
    """What one call gave: the outputs of an item lie side by side.

    ``images``: ``(height, width, channels)``; ``clips``: ``(frames, height, width, channels)``, both float32 in
    [0, 1] or uint8. ``sounds``: ``(samples, channels)`` float32 at ``sample_rate_hz``.
    """

    images: list[NDArray[Any]] = field(default_factory=list)
    clips: list[NDArray[Any]] = field(default_factory=list)
    sounds: list[NDArray[np.float32]] = field(default_factory=list)
    sample_rate_hz: int | None = None

    @property
    def size(self) -> dict[str, int]:
        """Height and width, and with clips the number of frames, as made."""
        if self.clips:
            frames, height, width = self.clips[0].shape[:3]
            return {"height": height, "width": width, "num_frames": frames}
        return dict(zip(("height", "width"), self.images[0].shape[:2], strict=True)) if self.images else {}


def made_of(result: Any, job: Job, pipeline: Any) -> Made:
    """The arrays in a pipeline's answer, as the declared kind of output wants them.

    Raises:
        LegError: when the answer holds no such thing, a sound whose rate the pipeline does not state, or images that
            a safety checker blanked.
    """
    if blanked := sum(map(bool, getattr(result, "nsfw_content_detected", None) or ())):
        hint = "use weights without a safety checker, or another prompt or seed"
        raise refused(f"the safety checker of the pipeline blanked {blanked} of its images", hint=hint)
    found: dict[str, Any] = {}
    for role in _FIELDS[job.output.kind]:
        value = next((value for name in _NAMES[role] if (value := getattr(result, name, None)) is not None), None)
        if value is None:
            given = ", ".join(name for name in vars(result) if getattr(result, name) is not None) or "nothing"
            message = f"{type(pipeline).__name__} gives {given}, and output.kind is {job.output.kind}"
            raise refused(message, hint="declare the kind of output that this class makes")
        found[role] = _READERS[role](value)
    if "sounds" in found:
        found["sample_rate_hz"] = sample_rate(pipeline)
    return Made(**found)


def sample_rate(pipeline: Any) -> int:
    """Samples a second of the sound that a pipeline makes, from the configuration of its parts.

    Raises:
        LegError: when none of them states it.
    """
    for component, key in _RATES:
        rate = getattr(getattr(getattr(pipeline, component, None), "config", None), key, None)
        if rate:
            return int(rate)
    places = ", ".join(f"{component}.config.{key}" for component, key in _RATES)
    raise refused(f"{type(pipeline).__name__} states no sample rate; looked at: {places}")


def frame_rate(job: Job, item: Item) -> float:
    """Frames a second of an item's clip: what was asked for, else what is declared.

    Raises:
        LegError: when neither the request nor the output says.
    """
    rate = item.request.get("fps") or item.request.get("frame_rate") or job.output.fps
    if not rate:
        raise refused("neither the request nor the output states the frame rate of the clip")
    return float(rate)


def check_encoding(job: Job) -> None:
    """Encode one black frame as declared, with a moment of silence, before anything costs time.

    Raises:
        LegError: when encoded clips are compared and the leg does not say how it encodes, or cannot do it.
    """
    output = job.output
    if not _is_encoded(output):
        return
    if not output.has_video:
        raise refused("output.representation is encoded, and this runner encodes clips only", hint="compare raw arrays")
    if not job.spec.get("encode"):
        hint = "add encode: {container: mp4, codec: libx264, pixel_format: yuv420p}, as the other engine encodes"
        raise refused("output.representation is encoded, and the leg does not say how it encodes", hint=hint)
    frame = np.zeros((1, output.height or 2, output.width or 2, 3), np.uint8)
    rate = output.sample_rate_hz if output.has_audio else None
    silence = [np.zeros((rate // 10, output.channels or 1), np.float32)] if rate else []
    trial = Made(clips=[frame], sounds=silence, sample_rate_hz=rate)
    _encode(job, job.items[:1], trial, lambda _item, _path, _index: None)


def store(job: Job, group: Sequence[Item], made: Made, writer: Writer) -> None:
    """Store the outputs of a group of items, as arrays, or as encoded clips where the case compares those.

    Raises:
        LegError: when the outputs cannot be dealt out to the items, or cannot be encoded as the leg says.
    """
    count = len(group)
    if _is_encoded(job.output):
        _encode(job, group, made, lambda item, path, index: writer.video(item.id, path, index=index))
        return
    for (number, index), image in _dealt(made.images, count).items():
        writer.image(group[number].id, image, index=index)
    for (number, index), clip in _dealt(made.clips, count).items():
        writer.video(group[number].id, clip, fps=frame_rate(job, group[number]), index=index)
    for (number, index), sound in _dealt(made.sounds, count).items():
        writer.audio(group[number].id, sound, sample_rate_hz=made.sample_rate_hz, index=index)


def _dealt(outputs: list[_Output], count: int) -> dict[tuple[int, int], _Output]:
    """``(number of the item, index within it)`` -> output, as many for each of ``count`` items."""
    each, rest = divmod(len(outputs), count)
    if rest:
        raise refused(f"the pipeline gave {len(outputs)} outputs for {count} items")
    return {divmod(number, each): output for number, output in enumerate(outputs)}


def _is_encoded(output: Output) -> bool:
    return output.compared_as == "encoded" and (output.has_video or output.has_audio)


def _encode(job: Job, group: Sequence[Item], made: Made, keep: Callable[[Item, Path, int], None]) -> None:
    """Encode the clips of a group, each with its sound, and hand over each file before it is gone."""
    try:
        from paritygate.runners.encode import encode_clip  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    spec, sounds = job.spec["encode"], _dealt(made.sounds, len(group))
    with tempfile.TemporaryDirectory(dir=job.directory) as folder:
        for place, clip in _dealt(made.clips, len(group)).items():
            item = group[place[0]]
            target = Path(folder) / f"{item.id}-{place[1]}.{spec['container']}"
            encode_clip(
                target,
                clip,
                spec,
                fps=frame_rate(job, item),
                samples=sounds.get(place),
                sample_rate_hz=made.sample_rate_hz,
            )
            keep(item, target, place[1])


def _images(value: Any) -> list[NDArray[Any]]:
    """Images one by one: a batch of arrays, of PIL pictures, or of lists of layers."""
    found = []
    for entry in value:
        layers = entry if isinstance(entry, (list, tuple)) or np.ndim(entry) == 4 else [entry]
        found += [_pixels(layer) for layer in layers]
    return found


def _clips(value: Any) -> list[NDArray[Any]]:
    return [np.stack([_pixels(frame) for frame in clip]) for clip in value]


def _pixels(value: Any) -> NDArray[Any]:
    """``(height, width, channels)`` uint8, or float32, which holds every half-precision value."""
    array = np.asarray(value)
    array = array[..., None] if array.ndim == 2 else array
    return array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array


def _sounds(value: Any) -> list[NDArray[np.float32]]:
    """``(samples, channels)`` for each: pipelines give ``(batch, samples)`` or ``(batch, channels, samples)``."""
    plain = value.detach().cpu().float().numpy() if hasattr(value, "detach") else value
    return [np.ascontiguousarray(np.atleast_2d(np.asarray(sound, np.float32)).T) for sound in plain]


_READERS: Mapping[str, Callable[[Any], list[Any]]] = MappingProxyType(
    {"clips": _clips, "images": _images, "sounds": _sounds}
)
