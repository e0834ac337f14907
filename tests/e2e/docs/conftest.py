"""Commands of documents keep the caches of this machine as they are."""

from tests.unit.conftest import private_caches

__all__ = ["private_caches"]
