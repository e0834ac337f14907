"""Facts about what other libraries compute, so that their thresholds carry over."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
MIGRATION: tuple[Spec, ...] = ()
