"""Code comes to other GPUs in the background (TESSERA_PREPARE=1, as on real GPUs): no launch waits for it."""

from pathlib import Path

import pytest

from tests.emulated import ALL_GPUS, Machine, Ran, run, until_known
from tests.fault.fault_driver import build, delays
from tests.placement.prepared_guest import STEPS

GUEST = Path(__file__).parent / "prepared_guest.py"
MODULES, REQUESTS, PAUSE_S = 3, 8, 2
SLOW_US = 300_000  # loading a module
MACHINE = Machine(2, "launch_latency_ns: 30000")


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("slow"))


def longest_ms(ran: Ran) -> float:
    """What a launch took, of the longest."""
    return float(ran.errors.splitlines()[-1])


@pytest.mark.full
def test_no_launch_waits_for_code(native_build: Path, tree: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    program = (GUEST, MODULES, REQUESTS, 0)
    alone = run(native, tmp_path, MACHINE, program)
    until_known(lambda: run(native, tmp_path, MACHINE, program, ALL_GPUS), alone.lines)
    slow = delays(native, tree, 1, "cuModuleLoadData", SLOW_US)

    program_with_pause = (*program[:-1], PAUSE_S)
    ahead = run(native, tmp_path, MACHINE, program_with_pause, ALL_GPUS, variables={**slow, "TESSERA_PREPARE": "1"})
    assert ahead.lines == alone.lines
    assert longest_ms(ahead) < SLOW_US / 2000
    assert min(ahead.by_device.values()) > REQUESTS * STEPS // 4

    waiting = run(native, tmp_path, MACHINE, program, ALL_GPUS, variables={**slow, "TESSERA_PREPARE": "0"})
    assert waiting.lines == alone.lines
    assert longest_ms(waiting) > SLOW_US / 1000
