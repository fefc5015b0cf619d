"""The driver that delays calls: those that it is told to, and programs have the same results whatever the delays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN
from tests.fault.executor_faults import FOLLOW, POLICY
from tests.fault.fault_driver import build, delays
from tests.sample import sampled

TIMEOUT_S = 60
SLOW_US = 40_000
TIMED = """
import ctypes, sys, time
driver = ctypes.CDLL(sys.argv[1])
found = ctypes.c_void_p()
assert driver.cuGetProcAddress_v2(b"cuDriverGetVersion", ctypes.byref(found), 12000, ctypes.c_uint64(0), None) == 0
assert found.value == ctypes.cast(driver.cuDriverGetVersion, ctypes.c_void_p).value, "found past the driver in front"
def seconds(call):
    start = time.monotonic()
    call()
    return time.monotonic() - start
number = ctypes.byref(ctypes.c_int())
print(seconds(lambda: driver.cuDriverGetVersion(number)), seconds(lambda: driver.cuInit(0)))
"""


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("delay"))


def environment(native_build: Path, tree: Path, seed: int, calls: str = "", microseconds: int = 300) -> dict[str, str]:
    return {**os.environ, **delays(native_build / "native", tree, seed, calls, microseconds)}


@pytest.mark.parametrize("seed", [1, 0])
def test_the_calls_named_are_delayed(seed: int, native_build: Path, tree: Path) -> None:
    command = [sys.executable, "-c", TIMED, str(tree / "emulator" / "libcuda.so.1")]
    variables = environment(native_build, tree, seed, "cuMemAlloc_v2,cuDriverGetVersion", SLOW_US)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    named, other = map(float, done.stdout.split())
    assert (named >= SLOW_US / 1e6, other >= SLOW_US / 1e6) == (bool(seed), False)


@pytest.mark.parametrize("seed", sampled([1, 2, 3], [1]))
def test_results_do_not_depend_on_delays(seed: int, native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + FOLLOW)
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--policy", str(policy), "--"]
    done = subprocess.run(
        [*command, str(native_build / "fault" / "fault_worker"), "5"],
        env=environment(native_build, tree, seed),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["right"]), done.stderr
