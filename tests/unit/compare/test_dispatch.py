"""One call for metrics of several modules, each computed where it lives."""

from __future__ import annotations

import numpy as np
import pytest

from paritygate.compare import dispatch
from paritygate.errors import MetricError
from paritygate.metrics import image
from paritygate.metrics.specs import SPECS

PAIR = np.random.default_rng(0).integers(0, 256, (2, 24, 24, 3), dtype=np.uint8)


def test_every_metric_that_is_defined_for_images_has_a_module():
    names = [name for name, spec in SPECS.items() if "image" in spec.kinds]
    assert sorted(name for group in dispatch.by_module(names) for name in group) == sorted(names)


def test_names_come_back_in_the_order_asked_for_whatever_module_computes_them():
    names = ("torchmetrics_ssim", "ssim", "psnr_db", "torchmetrics_psnr_db", "ssim")
    found = dispatch.measure_images(names, *PAIR, data_range=255, mode="RGB")
    assert list(found) == list(dict.fromkeys(names))
    assert found["ssim"] == image.measure(["ssim"], *PAIR, data_range=255, mode="RGB")["ssim"]
    assert not any(value.problem for value in found.values())


def test_metrics_of_one_module_share_their_work(monkeypatch):
    calls = []
    real = image.measure
    monkeypatch.setattr(
        image, "measure", lambda names, *pair, **facts: calls.append(names) or real(names, *pair, **facts)
    )
    dispatch.measure_images(("ssim", "torchmetrics_ssim", "psnr_db"), *PAIR, data_range=255, mode="RGB")
    assert calls == [["ssim", "psnr_db"]] or calls == [("ssim", "psnr_db")]


def test_a_name_that_is_no_image_metric_is_refused():
    with pytest.raises(MetricError, match="no image metric has the name relative_l2"):
        dispatch.measure_images(("ssim", "relative_l2"), *PAIR, data_range=255, mode="RGB")
