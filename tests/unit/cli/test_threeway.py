"""``paritygate threeway``: files and folders by name, the rule, and everything that is no pass."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from paritygate.cli.main import run

RNG = np.random.default_rng(3)
EXACT = RNG.normal(size=(64, 64)).astype(np.float32)
LOW = EXACT + RNG.normal(size=EXACT.shape).astype(np.float32) * np.float32(1e-3)
NEAR = EXACT + RNG.normal(size=EXACT.shape).astype(np.float32) * np.float32(9e-4)
FAR = EXACT + RNG.normal(size=EXACT.shape).astype(np.float32) * np.float32(1e-2)


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def write(**arrays: np.ndarray) -> None:
        for name, array in arrays.items():
            np.save(f"{name}.npy", array)

    return write


def test_a_target_as_near_as_the_low_precision_passes(save, capsys) -> None:
    save(exact=EXACT, low=LOW, target=NEAR)
    assert run(["threeway", "exact.npy", "low.npy", "target.npy"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "passed"
    assert "bins: " in shown


def test_a_target_ten_times_as_far_fails_and_says_by_which_clause(save, capsys) -> None:
    save(exact=EXACT, low=LOW, target=FAR)
    assert run(["threeway", "exact.npy", "low.npy", "target.npy"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("missed")] == [
        "missed bhattacharyya >= 0.99 or sigma_ratio <= 1",
        "missed linf_ratio < 5",
        "missed l2_ratio < 3",
    ]
    assert lines[-1] == "failed"


def test_the_limits_can_be_changed_but_not_disarmed(save, capsys) -> None:
    save(exact=EXACT, low=LOW, target=FAR)
    wide = ["--linf-ratio", "20", "--l2-ratio", "20", "--sigma-ratio", "20"]
    assert run(["threeway", "exact.npy", "low.npy", "target.npy", *wide]) == 0
    for limit in ("nan", "inf", "-1", "0"):
        assert run(["threeway", "exact.npy", "low.npy", "target.npy", "--l2-ratio", limit]) == 2


@pytest.mark.parametrize("leg", ["exact", "low", "target"])
def test_a_value_that_is_not_finite_in_any_leg_is_never_a_pass(save, capsys, leg) -> None:
    arrays = {"exact": EXACT.copy(), "low": LOW.copy(), "target": NEAR.copy()}
    arrays[leg][3, 4] = np.nan
    save(**arrays)
    assert run(["threeway", "exact.npy", "low.npy", "target.npy"]) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "invalid"
    assert "[3, 4]" in shown


def test_shapes_that_differ_are_a_failure_without_numbers(save, capsys) -> None:
    save(exact=EXACT, low=LOW, target=NEAR[:, :32])
    assert run(["threeway", "exact.npy", "low.npy", "target.npy"]) == 1
    assert "shapes differ: FP32 [64, 64], LOW [64, 64], TARGET [64, 32]" in capsys.readouterr().out


def test_folders_are_matched_by_name_and_what_lacks_is_named(tmp_path, capsys) -> None:
    for leg, array in (("exact", EXACT), ("low", LOW), ("target", NEAR)):
        (tmp_path / leg).mkdir()
        np.savez(tmp_path / leg / "a.npz", w=array, ids=np.arange(3))
        if leg != "target":
            np.save(tmp_path / leg / "b.npy", array)
    paths = [str(tmp_path / leg) for leg in ("exact", "low", "target")]
    assert run(["threeway", *paths, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["result"]["verdict"]) == ("invalid", "passed")
    assert [(found["code"], found["message"]) for found in data["findings"]] == [("missing", "TARGET has no 'b.npy'")]
    assert [row["name"] for row in data["result"]["rows"]] == ["a.npz: w"]
    (tmp_path / "target" / "a.npz").unlink()
    np.savez(tmp_path / "target" / "a.npz", w=NEAR, ids=np.arange(3)[::-1])
    (tmp_path / "low" / "b.npy").unlink()
    (tmp_path / "exact" / "b.npy").unlink()
    assert run(["threeway", *paths]) == 1
    assert "int64 values differ" in capsys.readouterr().out


def test_nothing_to_compare_and_missing_files_are_no_pass(tmp_path, capsys) -> None:
    paths = [str(tmp_path / leg) for leg in ("a", "b", "c")]
    assert run(["threeway", *paths]) == 2
    for path in paths:
        Path(path).mkdir()
    assert run(["threeway", *paths]) == 1


def test_the_same_file_twice_is_said(save, capsys) -> None:
    save(exact=EXACT, low=LOW)
    run(["threeway", "exact.npy", "low.npy", "low.npy"])
    assert "LOW and TARGET are the same files" in capsys.readouterr().out
