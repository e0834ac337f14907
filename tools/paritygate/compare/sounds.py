"""One pair of sounds of a request: structure first, then the metrics on whole signals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.compare.checklist import counted
from paritygate.compare.measure import Values, wanted_metrics
from paritygate.compare.place import Place, Refused, Side, verified_file
from paritygate.errors import MetricError
from paritygate.manifest.case import Measurement, Output
from paritygate.media.audio import read_audio
from paritygate.media.npy import decode_float
from paritygate.media.paths import read_contained
from paritygate.metrics import audio
from paritygate.metrics.values import refused
from paritygate.records.model import Finding

#: Samples that span less than one step of 16 bits are silence, whatever their constant part.
SILENT_SPAN = 2.0**-15


@dataclass(frozen=True)
class _Sound:
    """``samples``: ``(samples, channels)`` floats, full scale 1."""

    samples: NDArray[Any]
    sample_rate_hz: int


def compare_sounds(
    place: Place, measurements: tuple[Measurement, ...], into: Values | None
) -> tuple[list[Finding], bool]:
    """Findings about one pair of sounds, and whether their samples are equal.

    Args:
        place: which pair.
        measurements: what the case measures; those on sound count here.
        into: where the numbers go, keyed ``<item>/<index>``; None to check only.
    """
    sounds, findings = place.load(lambda side: _load(side, place))
    if findings:
        return findings, False
    reference, candidate = sounds
    lengths = len(reference.samples), len(candidate.samples)
    if lengths[0] != lengths[1]:
        message = f"item {place.item}: the reference has {lengths[0]} samples, the candidate {lengths[1]}"
        return [Finding(code="length", message=f"{message}; nothing is cut or padded", item=place.item)], False
    if into is not None:
        names = wanted_metrics(measurements, ("audio",)).get("stored", ())
        rate = reference.sample_rate_hz
        try:
            found = audio.measure(names, reference.samples, candidate.samples, sample_rate_hz=rate)
        except MetricError as error:
            found = dict.fromkeys(names, refused(error.message))
        into.add(place.key, found)
    return [], np.array_equal(reference.samples, candidate.samples)


def _load(side: Side, place: Place) -> _Sound:
    """The verified sound of one side.

    Raises:
        MediaError: when its file cannot be read.
        Refused: when it is not of the declared structure, not finite, or silent.
    """
    output = place.output
    # An encoded clip brings its sound in the same file.
    role = "video" if output.has_video and output.compared_as == "encoded" else "audio"
    media = side.media(role, place.index)
    path = verified_file(side, media, output)
    if media.representation == "raw":
        samples = decode_float(read_contained(side.directory, media.path), name=media.path, ndim=2)
        sound = _Sound(samples, media.sample_rate_hz or 0)
    else:
        read = read_audio(path)
        sound = _Sound(read.samples, read.sample_rate_hz)
    _check(sound, output, name=media.path)
    return sound


def _check(sound: _Sound, output: Output, *, name: str) -> None:
    if sound.sample_rate_hz != output.sample_rate_hz:
        found = f"{sound.sample_rate_hz} Hz, declared {output.sample_rate_hz} Hz"
        raise Refused("sample-rate", f"{name} has {found}; nothing is resampled")
    channels = sound.samples.shape[1]
    if channels != output.channels:
        raise Refused(
            "channels", f"{name} has {counted(channels, 'channel')}, declared {output.channels}; nothing is mixed"
        )
    finite = np.isfinite(sound.samples)
    if not finite.all():
        first = tuple(int(index) for index in np.argwhere(~finite)[0])
        count = int((~finite).sum())
        raise Refused(
            "non-finite", f"{name} holds {count} NaN or infinite values, the first at (sample, channel) {first}"
        )
    if float(np.max(np.ptp(sound.samples, axis=0))) < SILENT_SPAN:
        raise Refused("degenerate", f"{name} is silent: no channel spans one step of 16 bits")
