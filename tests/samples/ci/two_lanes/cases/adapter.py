"""An adapter; never run."""


def run(job: object, writer: object) -> None:
    """Does nothing."""
