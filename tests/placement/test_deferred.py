"""Launches that a thread of their own carries out (TESSERA_DEFER=1; on real GPUs under --gpus): the program does not
wait for the driver, and sees nothing of it.
"""

from pathlib import Path

import pytest

from tests.emulated import ALL_GPUS, Machine, Ran, run, until_known
from tests.fault.fault_driver import build, delays

GUEST = Path(__file__).parent / "deferred_guest.py"
MACHINE = Machine(2, "launch_latency_ns: 20000")
LAUNCHES, SLOW_US = 200, 3000  # of a launch in the driver
AT_HOME = {"TESSERA_LEAD": str(10**12)}
DEFERRED, AT_ONCE = {"TESSERA_DEFER": "1"}, {"TESSERA_DEFER": "0"}
CALL = "cuLaunchKernel"


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("slow"))


def middle_ms(ran: Ran) -> float:
    return float(ran.errors.split()[0])


@pytest.mark.parametrize(
    "way",
    [
        "mixed",
        *(pytest.param(way, marks=pytest.mark.full) for way in ("graph", "quiet", "forked", "threads", "shared graph")),
    ],
)
def test_nobody_waits_for_the_driver_and_all_is_the_same(
    way: str, native_build: Path, tree: Path, tmp_path: Path
) -> None:
    native = native_build / "native"
    program = (GUEST, LAUNCHES, way)
    alone = run(native, tmp_path, MACHINE, program)
    until_known(lambda: run(native, tmp_path, MACHINE, program, ALL_GPUS), alone.lines)

    graphs = "graph" in way
    apart = run(native, tmp_path, MACHINE, program, ALL_GPUS, variables=DEFERRED)
    slow = {**delays(native, tree, 1, "cuGraphLaunch" if graphs else CALL, SLOW_US), **AT_HOME}
    at_once = run(native, tmp_path, MACHINE, program, ALL_GPUS, variables={**slow, **AT_ONCE})
    deferred = run(native, tmp_path, MACHINE, program, ALL_GPUS, variables={**slow, **DEFERRED})
    assert apart.lines == at_once.lines == deferred.lines == alone.lines
    assert middle_ms(at_once) > SLOW_US / 1000
    assert middle_ms(deferred) < SLOW_US / 4000
    assert sum((deferred.graphs if graphs else deferred.by_device).values()) == LAUNCHES


def test_a_fork_waits_for_what_is_deferred_where_the_home_gpu_alone_is_shown(
    native_build: Path, tree: Path, tmp_path: Path
) -> None:
    native = native_build / "native"
    slow = {**delays(native, tree, 1, CALL, SLOW_US), **AT_HOME, **DEFERRED}
    options = (*ALL_GPUS, "--show", "home")
    alone = run(native, tmp_path, MACHINE, (GUEST, LAUNCHES, "forked"))
    shown = run(native, tmp_path, MACHINE, (GUEST, LAUNCHES, "forked"), options, variables=slow, timeout_s=60)
    assert shown.lines == alone.lines


@pytest.mark.parametrize("way", ["refused", pytest.param("refused before its end", marks=pytest.mark.full)])
def test_what_the_driver_refuses_a_later_call_says_once(
    way: str, native_build: Path, tree: Path, tmp_path: Path
) -> None:
    """The last one, so that the wait says it. With such a lead no launch leaves home: all go to the driver."""
    native = native_build / "native"
    mark = tmp_path / "mark"
    fault = {
        **delays(native, tree, 0),
        **DEFERRED,
        **AT_HOME,
        "TESSERA_FAULT": f"python3:{LAUNCHES // 2}:{CALL}",
        "TESSERA_FAULT_MARK": str(mark),
    }
    ran = run(native, tmp_path, MACHINE, (GUEST, LAUNCHES // 2, way), ALL_GPUS, variables=fault)
    assert mark.read_text().strip() == CALL
    assert ran.lines[0] == "CUDA_ERROR_OUT_OF_MEMORY CUDA_SUCCESS"


def test_what_is_set_is_not_seen_by_launches_before(native_build: Path, tree: Path, tmp_path: Path) -> None:
    """Those of another thread are still to be given to the driver when a function's attribute is set."""
    native, program = native_build / "native", (GUEST.with_name("lowered_guest.py"), LAUNCHES // 2)
    variables = {**delays(native, tree, 1, CALL, SLOW_US), **AT_HOME, **DEFERRED}
    ran = run(native, tmp_path, MACHINE, program, ALL_GPUS, variables=variables)
    assert ran.lines == ["CUDA_SUCCESS", f"{LAUNCHES // 2} {LAUNCHES // 2}"]
