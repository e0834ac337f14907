"""Facts about what is measured on the sound of two files."""

from __future__ import annotations

import math

from paritygate.metrics.specs.spec import Spec

_DEFINITION = "definition"
_SPECTRUM = (
    "power of Hann windows of 64 ms (up to a power of two samples) every 16 ms, none padded, in 64 triangular bands "
    "evenly spaced from 0 to half the rate on the mel scale 2595 log10(1 + f / 700), in dB over -100 dB of full scale"
)

#: Sorted by name.
AUDIO: tuple[Spec, ...] = (
    Spec(
        name="level_difference_abs_db",
        version=1,
        kinds=("audio",),
        formula="|20 log10(RMS of the candidate / RMS of the reference)| of the channel where it is largest",
        source=_DEFINITION,
        direction="lower",
        unit="dB",
        low=0.0,
        high=math.inf,
        identical=0.0,
        blind_to="everything but loudness: another sound of equal power scores 0",
        default=True,
    ),
    Spec(
        name="level_difference_db",
        version=1,
        kinds=("audio",),
        formula="20 log10(RMS of the candidate / RMS of the reference) of the channel where it is furthest from 0",
        source=_DEFINITION,
        direction="none",
        unit="dB",
        low=-math.inf,
        high=math.inf,
        identical=0.0,
        blind_to="everything but loudness; the sign says which side is louder",
    ),
    Spec(
        name="log_mel_distance_db",
        version=1,
        kinds=("audio",),
        formula=f"mean |candidate - reference| over windows and bands of the worst channel; {_SPECTRUM}",
        source="O'Shaughnessy 1987 for the mel scale; the rest by definition",
        direction="lower",
        unit="dB",
        low=0.0,
        high=math.inf,
        identical=0.0,
        blind_to="phase, and delays well below the window of 64 ms; what lies below -100 dB of full scale: bands "
        "that do on both sides count as equal, which dilutes a pure tone; the last samples, fewer than 16 ms, that "
        "fill no window",
        default=True,
    ),
    Spec(
        name="log_mel_similarity",
        version=1,
        kinds=("audio",),
        formula=f"correlation over windows and bands of the worst channel; {_SPECTRUM}",
        source="Pearson 1895 on the spectrum of log_mel_distance_db",
        direction="higher",
        unit="1",
        low=-1.0,
        high=1.0,
        identical=1.0,
        blind_to="what log_mel_distance_db is blind to, and loudness: bound level_difference_abs_db beside it",
        default=True,
    ),
    Spec(
        name="silence_share_difference",
        version=1,
        kinds=("audio",),
        formula="|share of silent pieces of the candidate - that of the reference| of the worst channel; pieces of 16 "
        "ms, silent below an RMS of -60 dB of full scale",
        source=_DEFINITION,
        direction="lower",
        unit="1",
        low=0.0,
        high=1.0,
        identical=0.0,
        blind_to="where the silence is, and everything about the sound",
        default=True,
    ),
)
