"""Facts about what is measured on two clips beyond their single frames."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
VIDEO = (
    Spec(
        name="temporal_error",
        version=1,
        kinds=("video",),
        formula=(
            "mean |(candidate[i] - candidate[i-1]) - (reference[i] - reference[i-1])| / data range, over pixels and "
            "channels, for each frame i after the first"
        ),
        source="definition",
        direction="lower",
        unit="1",
        low=0.0,
        high=2.0,
        identical=0.0,
        blind_to="an error that stays the same from frame to frame, and the order of equal transitions",
        default=True,
    ),
)
