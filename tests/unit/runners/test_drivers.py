"""Cards of every maker are known by what their own tool prints; a small script stands in for each tool."""

import json
import time
from pathlib import Path

import psutil
import pytest

from paritygate.manifest.case import Ci
from paritygate.runners import devices, devices_memory, drivers

ROCM = {
    "card1": {"Card Series": "AMD Instinct MI300X", "Card Model": "0x74a1", "GFX Version": "gfx942",
              "VRAM Total Memory (B)": str(191 << 30), "VRAM Total Used Memory (B)": str(100 << 30)},
    "card0": {"Card series": "AMD Instinct MI300X OAM", "Card model": "0x74a1", "GFX Version": "gfx942",
              "VRAM Total Memory (B)": str(191 << 30), "VRAM Total Used Memory (B)": str(283 << 20)},
    "system": {"Driver version": "6.10.5"},
}  # fmt: skip
NPU = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 95.7        38                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3350 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 92.0        37                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          60112/ 65536         |
+===========================+===============+====================================================+
"""


@pytest.fixture
def tool(tmp_path):
    """Puts a tool on a PATH of its own that prints a text."""

    def build(name: str, text: str) -> dict[str, str]:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".txt").write_text(text)
        path.write_text(f"#!/bin/sh\ncat {path.with_suffix('.txt')}\n")
        path.chmod(0o755)
        return {"PATH": f"{path.parent}:/bin"}

    return build


def profile(environ: dict[str, str], sku: str, count: int = 1):
    ci = Ci(lane="n", group=None, sku=(sku,), cards=count, timeout_minutes=5, sources=(), setup=())
    return devices.profile_for(ci, drivers.cards(environ))


def used(environ: dict[str, str]) -> list[str]:
    return [problem.message for problem in devices_memory.card_problems(drivers.cards(environ), 0, environ)]


def test_cards_of_rocm_are_known_in_the_order_of_their_numbers(tool):
    environ = tool("rocm-smi", json.dumps(ROCM))
    found = profile(environ, "MI300X", 2)
    assert (found.platform, found.cards, found.arch, found.name) == ("rocm", 2, "gfx942", "AMD Instinct MI300X OAM")
    assert devices.DEVICES[found.platform] == "cuda"
    assert used(environ) == ["card 1 (AMD Instinct MI300X) has 102400 of 195584 MiB in use"]


def test_cards_of_ascend_are_known_by_chip(tool):
    environ = tool("npu-smi", NPU)
    found = profile(environ, "ASCEND_910B3", 2)
    assert (found.platform, found.arch, found.name) == ("npu", "910b3", "910B3")
    assert used(environ) == ["card 1 (910B3) has 60112 of 65536 MiB in use"]
    assert profile(environ, "ASCEND_910B1") is None


@pytest.mark.parametrize(
    ("variables", "indexes"),
    [
        ({}, "01"),
        ({"HIP_VISIBLE_DEVICES": "1"}, "1"),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, "10"),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, "1"),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, ""),
        ({"HIP_VISIBLE_DEVICES": "-1"}, ""),
        ({"HIP_VISIBLE_DEVICES": ""}, ""),
        ({"HIP_VISIBLE_DEVICES": "0,0,1"}, "0"),
    ],
)
def test_hidden_cards_of_rocm_are_none(tool, variables, indexes):
    environ = {**tool("rocm-smi", json.dumps(ROCM)), **variables}
    assert "".join(card.index for card in drivers.cards(environ)) == indexes


def test_hidden_chips_of_ascend_are_none(tool):
    environ = {**tool("npu-smi", NPU), "ASCEND_RT_VISIBLE_DEVICES": "1"}
    assert [card.uuid for card in drivers.cards(environ)] == ["0000:01:00.0"]


@pytest.mark.parametrize("name", ["nvidia-smi", "rocm-smi", "npu-smi"])
@pytest.mark.parametrize("text", ["", "no devices were found\n", "{}", "[1]", '{"card0": []}', "| | |\n"])
def test_a_tool_that_lists_no_card_is_no_card(tool, name, text):
    environ = tool(name, text)
    assert drivers.cards(environ) == ()


def test_a_name_that_is_in_no_table_has_no_sku(tool):
    environ = tool("rocm-smi", json.dumps({"card0": {"Card Series": "AMD Instinct MI999", "GFX Version": "gfx999"}}))
    assert [(card.name, card.sku) for card in drivers.cards(environ)] == [("AMD Instinct MI999", "")]


def test_a_tool_is_looked_for_on_the_path_alone(tmp_path: Path):
    assert drivers.cards({"PATH": str(tmp_path)}) == ()


GARBAGE = [
    ("nvidia-smi", "GPU-0, \u00b2, \u00b2, \u00b2\n"),
    ("nvidia-smi", f"GPU-0, {'9' * 5000}, 1, 1\n"),
    ("npu-smi", f"| 0 N | OK | x |\n| 0 | bus | {'9' * 5000} / {'9' * 5000} |\n"),
    ("rocm-smi", '{"card\u00b2": {}}'),
    ("rocm-smi", f'{{"card{"9" * 5000}": {{}}}}'),
    ("rocm-smi", '{"card0": {"a": ' + "[" * 100_000),
    ("rocm-smi", '{"card0": {"VRAM Total Memory (B)": "\u00b2", "VRAM Total Used Memory (B)": "\u00b2"}}'),
]


@pytest.mark.parametrize(("name", "text"), GARBAGE)
def test_what_no_driver_prints_breaks_nothing(tool, name, text):
    environ = tool(name, text)
    drivers.cards(environ)
    for query, _ in devices_memory._PLATFORMS.values():
        query(environ)
    assert drivers.silent_tools(environ) == [name]


@pytest.mark.parametrize("script", ["sleep 600 & echo $! > PID; wait", "sleep 600 & echo $! > PID; yes"])
def test_a_tool_that_hangs_or_floods_is_ended_with_all_that_it_started(tmp_path, tool, monkeypatch, script):
    monkeypatch.setattr(drivers, "_TIMEOUT_S", 0.5)
    environ = {"PATH": tool("nvidia-smi", "")["PATH"] + ":/usr/bin"}
    pid = tmp_path / "pid"
    (tmp_path / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\n{script.replace('PID', str(pid))}\n")
    assert drivers.ask("nvidia-smi", (), environ) == ""
    wait_until = time.monotonic() + 5
    while psutil.pid_exists(int(pid.read_text())) and time.monotonic() < wait_until:
        if psutil.Process(int(pid.read_text())).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    else:
        assert not psutil.pid_exists(int(pid.read_text()))
