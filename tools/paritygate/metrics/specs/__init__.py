"""Facts about every metric, without the code that computes it.

Manifest rules, contracts, gates and reports read this table in a bare CI image, so it imports the standard
library only. Raising a metric's ``version`` changes every contract that uses it: old bounds then no longer apply.
"""

from __future__ import annotations

from paritygate.metrics.specs.audio import AUDIO
from paritygate.metrics.specs.image import IMAGE
from paritygate.metrics.specs.migration import MIGRATION
from paritygate.metrics.specs.perceptual import PERCEPTUAL
from paritygate.metrics.specs.spec import Kind, Spec
from paritygate.metrics.specs.tensor import TENSOR
from paritygate.metrics.specs.threeway import THREEWAY
from paritygate.metrics.specs.video import VIDEO

__all__ = ["SPECS", "Kind", "Spec", "default_metrics"]

#: metric name -> facts, sorted by name.
SPECS: dict[str, Spec] = {
    spec.name: spec
    for spec in sorted(
        (*AUDIO, *IMAGE, *MIGRATION, *PERCEPTUAL, *TENSOR, *THREEWAY, *VIDEO), key=lambda spec: spec.name
    )
}


def default_metrics(kind: Kind) -> tuple[str, ...]:
    """The names that are measured on this kind when nobody asks for others, sorted."""
    return tuple(name for name, spec in SPECS.items() if spec.default and kind in spec.kinds)
