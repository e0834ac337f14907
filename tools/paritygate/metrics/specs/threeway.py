"""Facts about what is measured on an exact reference, a low-precision reference and a target."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
THREEWAY: tuple[Spec, ...] = ()
