"""Facts about what is measured on the sound of two files."""

from __future__ import annotations

from paritygate.metrics.specs.spec import Spec

#: Sorted by name.
AUDIO: tuple[Spec, ...] = ()
