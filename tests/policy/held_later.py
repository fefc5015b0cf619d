"""Launches a kernel that reads a variable, asks where that is, changes it, and launches again. Prints "right"."""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu

READER = """
.visible .global .align 4 .u32 scale = 1;
.visible .entry reader(.param .u64 sum)
{
    .reg .b32 %r<3>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [sum]; ld.global.u32 %r1, [scale]; red.global.add.u32 [%d1], %r1;
    ret;
}
"""
LAUNCHES = 3


def main() -> None:
    use_gpu()
    sums = call(driver.cuMemAlloc(4))
    call(driver.cuMemsetD32(sums, 0, 1))
    module = call(driver.cuModuleLoadData((HEAD + READER).encode()))
    function = call(driver.cuModuleGetFunction(module, b"reader"))

    def launch() -> None:
        for _ in range(LAUNCHES):
            call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((sums,), (None,)), 0))

    launch()
    variable, _ = call(driver.cuModuleGetGlobal(module, b"scale"))
    call(driver.cuCtxSynchronize())
    call(driver.cuMemsetD32(variable, 5, 1))
    launch()
    result = (ctypes.c_uint32 * 1)()
    call(driver.cuMemcpyDtoH(ctypes.addressof(result), sums, 4))
    print("right" if result[0] == LAUNCHES * (1 + 5) else f"WRONG:{result[0]}")


if __name__ == "__main__":
    main()
