"""The facts table: complete, and usable where NumPy is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paritygate.metrics.specs import SPECS


@pytest.mark.parametrize("name", sorted(SPECS))
def test_every_fact_of_a_metric_is_stated(name):
    spec = SPECS[name]
    assert spec.version >= 1
    assert spec.low < spec.high
    assert spec.kinds
    assert all([spec.formula, spec.source, spec.unit, spec.blind_to, spec.non_finite])


@pytest.mark.parametrize("name", sorted(name for name, spec in SPECS.items() if spec.identical is not None))
def test_identical_inputs_reach_the_better_end_of_the_range(name):
    spec = SPECS[name]
    assert spec.direction == "none" or spec.identical == (spec.high if spec.direction == "higher" else spec.low)


def test_the_table_imports_nothing_heavy():
    code = "import sys; import paritygate.metrics.specs; sys.exit('numpy' in sys.modules or 'PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
