"""Both ways to compute."""

from __future__ import annotations

import pytest

from paritygate.metrics import kernel, ssim


@pytest.fixture(params=["kernel", "numpy"])
def engine(request, monkeypatch):
    """The same test with the compiled kernel and without; SSIM of small images takes the way of large ones."""
    monkeypatch.setattr(ssim, "_SMALL", 0)
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "library", lambda: None)
    elif kernel.library() is None:
        pytest.skip(kernel.engine())
    return request.param
