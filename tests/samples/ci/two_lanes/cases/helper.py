"""Imported by the adapter, so a step depends on it."""


def run(job: object, writer: object) -> None:
    """Does nothing."""
