"""``paritygate metrics``: the catalog, without NumPy, and every fact of one metric."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from paritygate.cli.main import run
from paritygate.metrics.specs import SPECS


def test_the_catalog_lists_every_metric_once_with_direction_and_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.removeprefix(" *").split()[0] for line in lines if line.startswith((" *", "   "))]
    assert set(named) == set(SPECS)
    assert any(line.split() == ["*", "psnr_db", "higher", "0", "to", "inf", "dB"] for line in lines)
    assert "Engine: " in lines[-1]


def test_one_metric_is_explained_with_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "torchmetrics_ssim"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    spec = SPECS["torchmetrics_ssim"]
    assert all(" ".join(fact.split()) in text for fact in (spec.formula, spec.source, spec.blind_to, spec.peer))


def test_json_is_strict_and_spells_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "psnr_db", "--json"]) == 0

    def refuse(word: str) -> None:
        raise AssertionError(word)

    (entry,) = json.loads(capsys.readouterr().out, parse_constant=refuse)["metrics"]
    assert (entry["high"], entry["identical"], entry["default"]) == ("inf", "inf", True)


def test_a_kind_shows_what_is_measured_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "--kind", "video", "--json"]) == 0
    names = {entry["name"] for entry in json.loads(capsys.readouterr().out)["metrics"]}
    assert names == {name for name, spec in SPECS.items() if "video" in spec.kinds}


def test_a_misspelt_name_gets_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "relativ_l2"]) == 2
    assert "did you mean 'relative_l2'?" in capsys.readouterr().err


def test_the_catalog_needs_nothing_that_extras_bring() -> None:
    script = (
        "import sys\nfor name in ('numpy', 'PIL', 'threadpoolctl', 'psutil', 'packaging'): sys.modules[name] = None\n"
        "from paritygate.cli.main import main\nmain(['metrics'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
