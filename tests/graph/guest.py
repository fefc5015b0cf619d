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

from tests.bindings import call
from tests.policy.launches import HEAD

COUNT, THREADS = 1024, 128
KERNEL = """
.visible .entry {name}(.param .u64 out, .param .u64 one, .param .u64 other)
{{
    .reg .b64 %a<5>; .reg .b32 %r<6>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %a4, %r4, 4;
    ld.param.u64 %a1, [out]; ld.param.u64 %a2, [one]; ld.param.u64 %a3, [other];
    add.u64 %a1, %a1, %a4; add.u64 %a2, %a2, %a4; add.u64 %a3, %a3, %a4;
    ld.global.u32 %r1, [%a2]; ld.global.u32 %r2, [%a3];
    add.u32 %r5, %r1, %r2;
    st.global.u32 [%a1], %r5;
    ret;
}}
"""


class Gpu:
    def __init__(self) -> None:
        call(driver.cuInit(0))
        call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
        source = HEAD + KERNEL.format(name="add_weights") + KERNEL.format(name="double_it")
        module = call(driver.cuModuleLoadData(source.encode()))
        self.add, self.double = (
            call(driver.cuModuleGetFunction(module, name)) for name in (b"add_weights", b"double_it")
        )

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
