"""Audio metrics: two arrays of samples in, numbers out. Not for files, resampling or bounds.

Samples are ``(samples, channels)`` floats with full scale 1, of one rate. Nothing is cut, padded, mixed, aligned or
normalised: a delay and a change of loudness are errors like any other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MetricError
from paritygate.metrics import tensor
from paritygate.metrics.specs import SPECS
from paritygate.metrics.values import Value, refused

_Samples = NDArray[Any]
_Floats = NDArray[np.float64]

WINDOW_S, HOP_S = 0.064, 0.016
BANDS = 64
#: Powers and levels end here, in dB of full scale: below is the noise of any format.
FLOOR_DB = -100.0
SILENT_DB = -60.0
#: Times full scale. Squares of more would overflow, and float32 cannot hold more.
MAX_PEAK = 1e100
#: Windows transformed at once.
_BATCH = 256


def measure(names: Iterable[str], reference: _Samples, candidate: _Samples, *, sample_rate_hz: int) -> dict[str, Value]:
    """Every named metric of two sounds.

    Args:
        names: metrics of kind ``audio``.
        reference: ``(samples, channels)`` float32 or float64, full scale 1.
        candidate: the same shape.
        sample_rate_hz: of both; comparing the two rates is the caller's.

    Returns:
        A value for each name. When a side is silent or not finite, none has a number: two silent sounds have no error
        either, and prove nothing.

    Raises:
        MetricError: when the shapes differ, or an argument is not what it must be.
    """
    wanted = tuple(dict.fromkeys(names))
    _check(wanted, reference, candidate, sample_rate_hz)
    x, y = (np.asarray(side, np.float64) for side in (reference, candidate))
    if reason := _unfit(x, y):
        return {name: refused(reason) for name in wanted}
    pair = _Pair(x, y, sample_rate_hz)
    shared = tensor.measure([name for name in wanted if name not in _OWN], reference, candidate)
    return {name: _OWN[name](pair) if name in _OWN else shared[name] for name in wanted}


@dataclass(frozen=True)
class _Pair:
    """Two sounds that can be measured; their spectra are computed once, and only when a metric asks."""

    reference: _Floats
    candidate: _Floats
    rate: int

    @functools.cached_property
    def spectra(self) -> tuple[tuple[_Floats, _Floats], ...]:
        """Of each channel, the spectrum of the reference and that of the candidate."""
        channels = zip(self.reference.T, self.candidate.T, strict=True)
        return tuple((log_mel(r, self.rate), log_mel(c, self.rate)) for r, c in channels)


def _check(names: tuple[str, ...], reference: _Samples, candidate: _Samples, sample_rate_hz: int) -> None:
    for name in names:
        if name not in SPECS or "audio" not in SPECS[name].kinds:
            raise MetricError(f"no metric {name!r} on sound")
    for side, array in (("reference", reference), ("candidate", candidate)):
        if array.dtype.name not in ("float32", "float64") or array.ndim != 2 or array.size == 0:
            raise MetricError(
                f"the {side} is {array.dtype.name} of shape {array.shape}, expected non-empty float32 or float64 "
                "(samples, channels)"
            )
    if reference.shape != candidate.shape:
        raise MetricError(
            f"shapes (samples, channels) differ: reference {reference.shape}, candidate {candidate.shape}"
        )
    if not sample_rate_hz > 0:
        raise MetricError(f"the sample rate is {sample_rate_hz} Hz, expected a positive number")


def _unfit(x: _Floats, y: _Floats) -> str:
    """Why these two sounds cannot be compared; empty when they can."""
    for side, samples in (("reference", x), ("candidate", y)):
        if bad := int(np.count_nonzero(~np.isfinite(samples))):
            return f"the {side} holds {bad} values that are not finite"
        peak = float(np.abs(samples).max())
        if peak == 0:
            return f"the {side} is silent"
        if peak > MAX_PEAK:
            return f"the {side} reaches {peak:.3g} times full scale, which is no sound"
    return ""


def _levels(x: _Floats, y: _Floats) -> list[float]:
    """Each channel's level difference in dB; 0 for one that is silent on both sides, infinite for one on one side."""
    found = []
    for r, c in zip(_rms(x), _rms(y), strict=True):
        found.append(0.0 if r == c else math.inf if r == 0 else -math.inf if c == 0 else 20 * math.log10(c / r))
    return found


def _rms(samples: _Floats) -> list[float]:
    """Each channel's root mean square, scaled so that the squares neither vanish nor overflow."""
    peaks = np.abs(samples).max(axis=0)
    safe = np.where(peaks > 0, peaks, 1.0)
    return [float(value) for value in safe * np.sqrt(np.mean(np.square(samples / safe), axis=0))]


def _level_difference(pair: _Pair) -> Value:
    levels = _levels(pair.reference, pair.candidate)
    channel = int(np.argmax(np.abs(levels)))
    # A detail is JSON, which has no infinity.
    by_channel = [level if math.isfinite(level) else str(level) for level in levels]
    return Value(levels[channel], {"channel": channel, "by_channel": by_channel})


def _level_difference_abs(pair: _Pair) -> Value:
    signed = _level_difference(pair)
    return Value(abs(signed.number), signed.detail)


def _log_mel_distance(pair: _Pair) -> Value:
    return _worst_channel(pair, lambda r, c: Value(float(np.mean(np.abs(c - r)))), key=lambda value: value.number)


def _log_mel_similarity(pair: _Pair) -> Value:
    return _worst_channel(pair, _correlation, key=lambda value: -value.number)


def _correlation(r: _Floats, c: _Floats) -> Value:
    if np.array_equal(r, c):
        return Value(1.0)
    r, c = r - np.mean(r), c - np.mean(c)
    power = math.sqrt(float(np.sum(r * r)) * float(np.sum(c * c)))
    if power == 0.0:
        return refused("a spectrum without any structure has no correlation")
    return Value(max(-1.0, min(1.0, float(np.sum(r * c)) / power)))


def _worst_channel(pair: _Pair, score: Callable[[_Floats, _Floats], Value], *, key: Callable[[Value], float]) -> Value:
    if reason := _no_spectrum(pair):
        return refused(reason)
    scores = [score(r, c) for r, c in pair.spectra]
    if missing := next((value for value in scores if value.problem), None):
        return missing
    channel = max(range(len(scores)), key=lambda index: key(scores[index]))
    by_channel = [value.number for value in scores]
    return Value(by_channel[channel], {"channel": channel, "by_channel": by_channel})


def _no_spectrum(pair: _Pair) -> str:
    """Why a spectrum of these sounds would say nothing; empty when it says something."""
    window = _window_length(pair.rate)
    samples = len(pair.reference)
    if samples < window:
        return f"{samples} samples are less than one window of {window} ({window / pair.rate * 1000:.0f} ms)"
    if not mel_bands(window, pair.rate).any(axis=1).all():
        return f"at {pair.rate} Hz some of the {BANDS} bands hold no frequency"
    for side, spectra in zip(("reference", "candidate"), zip(*pair.spectra, strict=True), strict=True):
        if all(spectrum.max() <= FLOOR_DB for spectrum in spectra):
            return f"the {side} lies below {FLOOR_DB:g} dB of full scale everywhere"
    return ""


def _window_length(rate: int) -> int:
    wanted = math.ceil(WINDOW_S * rate)
    return 1 << max(0, wanted - 1).bit_length()


def log_mel(samples: _Floats, sample_rate_hz: int) -> _Floats:
    """``(windows, bands)`` in dB of full scale, at least ``FLOOR_DB``; a full-scale sine reads about 0 dB at its band.

    Windows and bands are those of ``SPECS["log_mel_distance_db"]``.

    Args:
        samples: one channel, at least one window long.
        sample_rate_hz: its rate.
    """
    length, hop = _window_length(sample_rate_hz), max(1, round(HOP_S * sample_rate_hz))
    window = np.hanning(length + 1)[:-1]
    bands = mel_bands(length, sample_rate_hz)
    pieces = np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]
    # A sine of amplitude 1 has the amplitude sum(window) / 2 in its bin.
    scale = (2.0 / float(window.sum())) ** 2
    rows = []
    for start in range(0, len(pieces), _BATCH):
        spectrum = np.fft.rfft(pieces[start : start + _BATCH] * window, axis=1)
        power = (np.square(spectrum.real) + np.square(spectrum.imag)) * scale
        rows.append(10 * np.log10(np.maximum(power @ bands.T, 10 ** (FLOOR_DB / 10))))
    found: _Floats = np.concatenate(rows)
    return found


def mel_bands(length: int, sample_rate_hz: int) -> _Floats:
    """``(bands, length // 2 + 1)`` weights: triangles of height 1, evenly spaced in mel from 0 to half the rate."""
    top = 2595 * math.log10(1 + sample_rate_hz / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.arange(length // 2 + 1) * (sample_rate_hz / length)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    weights: _Floats = np.maximum(0.0, np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)))
    return weights


def _silence_share_difference(pair: _Pair) -> Value:
    shares = [_silent_shares(side, pair.rate) for side in (pair.reference, pair.candidate)]
    differences = np.abs(shares[1] - shares[0])
    channel = int(np.argmax(differences))
    sides = {
        name: [float(share) for share in side] for name, side in zip(("reference", "candidate"), shares, strict=True)
    }
    return Value(float(differences[channel]), {"channel": channel, **sides})


def _silent_shares(samples: _Floats, rate: int) -> _Floats:
    """Of each channel, the share of pieces below ``SILENT_DB``; the last piece may be shorter."""
    starts = np.arange(0, len(samples), max(1, round(HOP_S * rate)))
    lengths = np.diff(np.append(starts, len(samples)))[:, None]
    powers = np.add.reduceat(np.square(samples), starts, axis=0) / lengths
    shares: _Floats = np.mean(powers < 10 ** (SILENT_DB / 10), axis=0)
    return shares


#: Metrics of sound alone -> function; the others are those of tensors.
_OWN: Mapping[str, Callable[[_Pair], Value]] = MappingProxyType(
    {
        "level_difference_abs_db": _level_difference_abs,
        "level_difference_db": _level_difference,
        "log_mel_distance_db": _log_mel_distance,
        "log_mel_similarity": _log_mel_similarity,
        "silence_share_difference": _silence_share_difference,
    }
)
