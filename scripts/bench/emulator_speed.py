#!/usr/bin/env python3
"""How fast the emulated driver is, in real time: kernels on one and two workers, module load, time to the first launch.

    scripts/bench/emulator_speed.py [--repeat N] [--json]

Runs itself once per number of worker threads under `tessera-run --emulate 1` and takes the best of N runs of each
kernel. The kernels are in emulator_kernels.cu. A goal is what the emulator promises on one core; `-` where it promises
nothing.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT))

from tests.command import with_project  # noqa: E402

KERNELS = HERE / "emulator_kernels.ptx"
WORKERS = (1, 2)
MODULE_BYTES = 1_000_000


class DriverError(RuntimeError):
    """A driver call failed."""


class Driver:
    """The driver API, as far as this script needs it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise DriverError(f"{name}: error {result}")

    def start(self) -> None:
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def load(self, text: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text))
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def allocate(self, count: int, data: array.array[float] | None = None) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * count))
        if data is not None:
            source = (ctypes.c_float * count).from_buffer(data)
            self.call("cuMemcpyHtoD_v2", address, source, ctypes.c_size_t(4 * count))
        return address

    def read(self, address: ctypes.c_uint64, count: int) -> array.array[float]:
        data = array.array("f", bytes(4 * count))
        self.call("cuMemcpyDtoH_v2", (ctypes.c_float * count).from_buffer(data), address, ctypes.c_size_t(4 * count))
        return data

    def launch(
        self, function: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], arguments: Sequence[object]
    ) -> None:
        slots = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))  # type: ignore[arg-type]
        shape = [*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block))]
        self.call("cuLaunchKernel", function, *shape, 0, None, slots, None)
        self.call("cuCtxSynchronize")


def best(repeat: int, action: Callable[[], object]) -> float:
    """Seconds of the quickest of `repeat` runs."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def large_module(text: bytes) -> bytes:
    """Copies of the kernels under other names, until there are MODULE_BYTES bytes."""
    head, _, body = text.partition(b".address_size 64")
    copies = [head + b".address_size 64\n"]
    size = len(copies[0])
    names = (b"sgemm_tiles", b"sgemm_registers", b"vector_add", b"softmax", b"multiply_add", b"block_reduce")
    while size < MODULE_BYTES:
        copy = body
        for name in names:
            copy = copy.replace(name, name + b"_%d" % len(copies))
        copies.append(copy)
        size += len(copy)
    return b"".join(copies)


def check(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"{what}: wrong result")


def measure_sgemm(driver: Driver, module: ctypes.c_void_p, repeat: int) -> dict[str, float]:
    n = 256
    left = array.array("f", (i * 7 % 13 - 6 for i in range(n * n)))
    right = array.array("f", (i * 5 % 11 - 5 for i in range(n * n)))
    a, b, c = driver.allocate(n * n, left), driver.allocate(n * n, right), driver.allocate(n * n)
    size = ctypes.c_int(n)
    result = {}
    for name, grid, block in (("sgemm_tiles", (16, 16), (16, 16)), ("sgemm_registers", (4, 4), (256,))):
        function = driver.function(module, name)

        def run(function: ctypes.c_void_p = function, grid: Sequence[int] = grid, block: Sequence[int] = block) -> None:
            driver.launch(function, grid, block, (a, b, c, size))

        result[f"{name}_256_ms"] = best(repeat, run) * 1e3
        got = driver.read(c, n * n)
        for i, j in ((0, 0), (17, 200), (255, 255), (100, 3)):
            check(got[i * n + j] == sum(left[i * n + k] * right[k * n + j] for k in range(n)), name)
    return result


def measure_vector_add(driver: Driver, module: ctypes.c_void_p, repeat: int) -> dict[str, float]:
    n = 1 << 20
    x = driver.allocate(n, array.array("f", (i % 1000 for i in range(n))))
    out = driver.allocate(n)
    function = driver.function(module, "vector_add")
    size = ctypes.c_int(n)
    seconds = best(repeat, lambda: driver.launch(function, (n // 256,), (256,), (x, x, out, size)))
    got = driver.read(out, n)
    check(all(got[i] == 2 * (i % 1000) for i in range(0, n, 4099)), "vector_add")
    return {"vector_add_1m_ms": seconds * 1e3}


def measure_softmax(driver: Driver, module: ctypes.c_void_p, repeat: int) -> dict[str, float]:
    n = 2048
    data = driver.allocate(n * n, array.array("f", (i * 31 % 97 / 10 for i in range(n * n))))
    out = driver.allocate(n * n)
    function = driver.function(module, "softmax")
    size = ctypes.c_int(n)
    seconds = best(repeat, lambda: driver.launch(function, (n,), (256,), (data, out, size)))
    got = driver.read(out, n * n)
    check(all(abs(sum(got[row * n : row * n + n]) - 1) < 1e-4 for row in (0, 1000, 2047)), "softmax")
    return {"softmax_2048x2048_ms": seconds * 1e3}


def measure_rate(driver: Driver, module: ctypes.c_void_p, repeat: int) -> dict[str, float]:
    steps, threads, blocks = 2048, 256, 16
    out = driver.allocate(threads * blocks)
    function = driver.function(module, "multiply_add")
    count = ctypes.c_int(steps)
    seconds = best(repeat, lambda: driver.launch(function, (blocks,), (threads,), (out, count)))
    check(abs(driver.read(out, 1)[0] - 8) < 1e-3, "multiply_add")
    return {"multiply_adds_g_per_s": 4 * steps * threads * blocks / seconds / 1e9}


def measure(repeat: int) -> dict[str, float]:
    """All figures, in a process that sees the emulated driver."""
    text = KERNELS.read_bytes()
    driver = Driver()
    begin = time.perf_counter()
    driver.start()
    module = driver.load(text)
    out = driver.allocate(256)
    driver.launch(driver.function(module, "multiply_add"), (1,), (32,), (out, ctypes.c_int(1)))
    first = time.perf_counter() - begin
    large = large_module(text)
    figures = {
        "first_launch_ms": first * 1e3,
        "module_load_1mb_ms": best(min(repeat, 5), lambda: driver.unload(driver.load(large))) * 1e3,
        "launch_us": best(
            50, lambda: driver.launch(driver.function(module, "multiply_add"), (1,), (32,), (out, ctypes.c_int(1)))
        )
        * 1e6,
    }
    for part in (measure_sgemm, measure_vector_add, measure_softmax, measure_rate):
        figures |= part(driver, module, repeat)
    return figures


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; a goal of 0 is none."""

    key: str
    title: str
    goal: float


ROWS = (
    Row("sgemm_tiles_256_ms", "SGEMM 256^3, 16x16 tiles, ms", 20),
    Row("sgemm_registers_256_ms", "SGEMM 256^3, 64x64 register tiles, ms", 7),
    Row("softmax_2048x2048_ms", "softmax 2048x2048, ms", 0),
    Row("vector_add_1m_ms", "vector add of 2^20, ms", 0),
    Row("multiply_adds_g_per_s", "multiply-adds of lanes, 10^9/s", 0),
    Row("module_load_1mb_ms", "load of a PTX module of 1 MB, ms", 50),
    Row("first_launch_ms", "cuInit to first launch done, ms", 50),
    Row("launch_us", "launch of one warp and wait, us", 0),
)


def run_inside(workers: int, repeat: int) -> dict[str, float]:
    """Starts this script under tessera-run with so many worker threads and gives what it measured."""
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory, "figures.json")
        environment = with_project(TESSERA_WORKERS=str(workers))
        runner = "import sys; from controlplane.commands.run import main; sys.exit(main())"
        inside = [sys.executable, __file__, "--inside", str(result), "--repeat", str(repeat)]
        command = [sys.executable, "-c", runner, "--no-summary", "--emulate", "1", "--", *inside]
        subprocess.run(command, env=environment, check=True)
        figures: dict[str, float] = json.loads(result.read_text())
        return figures


def print_table(results: dict[int, dict[str, float]]) -> None:
    print(f"{'':40} {'goal':>8}" + "".join(f" {f'{workers} worker(s)':>12}" for workers in results))
    for row in ROWS:
        goal = f"{row.goal:g}" if row.goal else "-"
        print(f"{row.title:40} {goal:>8}" + "".join(f" {figures[row.key]:12.2f}" for figures in results.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the emulated driver in real time.")
    parser.add_argument("--repeat", type=int, default=10, help="runs of each kernel, of which the best counts")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        arguments.inside.write_text(json.dumps(measure(arguments.repeat)))
        return
    results = {workers: run_inside(workers, arguments.repeat) for workers in WORKERS}
    if arguments.json:
        print(json.dumps({"goals": {row.key: row.goal for row in ROWS if row.goal}, "workers": results}))
    else:
        print_table(results)


if __name__ == "__main__":
    main()
