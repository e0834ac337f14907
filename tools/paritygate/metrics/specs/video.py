"""Facts about what is measured on two clips beyond their single frames."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
VIDEO: tuple[Spec, ...] = ()
