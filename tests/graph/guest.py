"""Requests one after another, through temporary memory that all of them use.

    guest.py REQUESTS

Each request copies its input, adds the weights to it and doubles that; its result has memory of its own. In the end
all results are copied to the host, and their sum is printed.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

COUNT, THREADS = 1024, 128
SUM = """
    ld.global.u32 %r1, [%one];
    ld.global.u32 %r2, [%other];
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%out], %r1;
"""


class Gpu:
    def __init__(self) -> None:
        use_gpu()
        names = ("add_weights", "double_it")
        made = functions(*(elementwise(name, ("out", "one", "other"), (), SUM) for name in names))
        self.add, self.double = (made[name] for name in names)

    def memory(self) -> int:
        return int(call(driver.cuMemAlloc(4 * COUNT)))

    def launch(self, function: object, *pointers: int) -> None:
        values = (pointers, (ctypes.c_uint64,) * len(pointers))
        call(driver.cuLaunchKernel(function, COUNT // THREADS, 1, 1, THREADS, 1, 1, 0, 0, values, 0))


def main() -> None:
    requests = int(sys.argv[1])
    gpu = Gpu()
    weights, given, between = gpu.memory(), gpu.memory(), gpu.memory()
    results = [gpu.memory() for _ in range(requests)]
    values = array("I", range(COUNT))
    call(driver.cuMemcpyHtoD(weights, values.tobytes(), 4 * COUNT))
    for result in results:
        call(driver.cuMemcpyHtoD(given, values.tobytes(), 4 * COUNT))
        gpu.launch(gpu.add, between, given, weights)
        gpu.launch(gpu.double, result, between, between)
    total = 0
    for result in results:
        out = bytearray(4 * COUNT)
        call(driver.cuMemcpyDtoH(out, result, 4 * COUNT))
        total += sum(array("I", bytes(out)))
    print(total)


if __name__ == "__main__":
    main()
