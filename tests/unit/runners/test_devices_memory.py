"""Memory that another program holds is named before the case runs out of it."""

from pathlib import Path

import msgspec
import pytest

from paritygate.runners import devices_memory
from paritygate.runners.drivers import cards
from paritygate.runners.python import load_file

sound = load_file(Path(__file__).with_name("sound_case.py"))

TOOL = """#!/bin/sh
case "$1" in
  *compute_cap*) printf '%s' "{cards}" ;;
  *memory.total*) printf '%s' "{memory}" ;;
  *compute-apps*) printf '%s' "{processes}" ;;
esac
"""
H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def driver(tmp_path):
    """Stands in for the driver of two cards; returns the environment that has it."""

    def build(*, memory: str = "", processes: str = "") -> dict[str, str]:
        path = tmp_path / "bin" / "nvidia-smi"
        path.parent.mkdir(exist_ok=True)
        names = "".join(f"{i}, GPU-{i}, {H100}, 9.0\n" for i in range(2))
        path.write_text(TOOL.format(cards=names, memory=memory, processes=processes))
        path.chmod(0o755)
        return {"PATH": f"{path.parent}:/bin:/usr/bin"}

    return build


def told(environ: dict[str, str], *, needed_mib: int = 0) -> list[str]:
    found = devices_memory.card_problems(cards(environ), needed_mib << 20, environ)
    return [f"{problem.message}; {problem.fix}" for problem in found]


def test_idle_cards_are_no_problem(driver):
    environ = driver(memory="GPU-0, 81559, 4, 81555\nGPU-1, 81559, 600, 80959\n", processes="GPU-1, 7, python, 500\n")
    assert told(environ, needed_mib=60_000) == []


def test_a_card_that_still_holds_a_server_is_named_with_its_process(driver):
    # Field traps B112 and B113: what ran before has not gone, and the next one runs out of memory.
    environ = driver(
        memory="GPU-0, 81559, 4, 81555\nGPU-1, 81559, 61234, 20325\n", processes="GPU-1, 4711, /usr/bin/vllm, 61000\n"
    )
    (text,) = told(environ)
    assert text == (
        f"card 1 ({H100}) has 61234 of 81559 MiB in use: vllm (pid 4711) holds 61000 MiB; "
        "end it, wait for it, or choose another card with CUDA_VISIBLE_DEVICES"
    )


def test_a_holder_outside_the_container_shows_by_the_memory_alone(driver):
    (text,) = told(driver(memory="GPU-0, 81559, 61234, 20325\n"))
    assert "61234 of 81559 MiB in use; find the program on the host" in text


def test_a_card_that_is_too_small_for_the_weights_is_named(driver):
    (text,) = told(driver(memory="GPU-0, 24564, 300, 24264\n"), needed_mib=40_000)
    assert f"card 0 ({H100}) has 24264 MiB free, the weights alone take 40000 MiB" in text


@pytest.mark.parametrize("memory", ["", "GPU-0, [N/A], [N/A], [N/A]\n", "garbage\n", "GPU-9, 1, 1, 0\n"])
def test_a_driver_that_does_not_say_is_no_problem(driver, memory):
    assert told(driver(memory=memory), needed_mib=1) == []


def test_preflight_looks_at_the_cards_that_the_case_will_use(driver, tmp_path):
    case = sound.build(tmp_path)
    case = msgspec.structs.replace(case, ci=msgspec.structs.replace(case.ci, sku=("H100",), cards=1))
    environ = driver(memory="GPU-0, 81559, 4, 81555\nGPU-1, 81559, 61234, 20325\n")
    assert sound.found(case, environ=environ) == []
    ((code, message),) = sound.found(case, environ={**environ, "CUDA_VISIBLE_DEVICES": "1"})
    assert code == "memory"
    assert "card 1" in message


def test_preflight_says_when_the_weights_do_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("paritygate.runners.preflight.import_problems", lambda *_, **__: [])
    case = sound.build(tmp_path)
    case = msgspec.structs.replace(case, reference=sound.leg("reference", runner="diffusers"))
    assert sound.found(case) == []
    monkeypatch.setattr(devices_memory, "free_memory", lambda: 1 << 20)
    ((code, message),) = sound.found(case)
    assert code == "memory"
    assert "1 MiB of memory are free" in message


def test_the_limit_of_a_container_counts(tmp_path):
    machine = devices_memory.free_memory(tmp_path / "none")
    assert machine > 0
    for name, text in (
        ("memory.max", "1000000"),
        ("memory.current", "900000"),
        ("memory.stat", "inactive_file 5000\n"),
    ):
        (tmp_path / name).write_text(text)
    assert devices_memory.free_memory(tmp_path) == 105_000
    (tmp_path / "memory.max").write_text("max")
    assert devices_memory.free_memory(tmp_path) == pytest.approx(machine, rel=0.5)
