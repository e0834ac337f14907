"""Facts about what is measured on two tensors."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
TENSOR: tuple[Spec, ...] = ()
