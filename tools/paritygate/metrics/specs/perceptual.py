"""Facts about perceptual metrics, each named with its implementation."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
PERCEPTUAL: tuple[Spec, ...] = ()
