"""Every case beneath this folder is one node of this test; add cases, not tests."""

from paritygate.pytest_plugin.check import AccuracyCase


def test_accuracy(accuracy_case: AccuracyCase) -> None:
    """Run both legs, compare, judge, record; only a green verdict passes."""
    accuracy_case.check()
