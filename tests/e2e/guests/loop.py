"""Launches a kernel 500 times, waits for a line, and again; the sum tells whether every launch ran. Ends with 7."""

from __future__ import annotations

import array
import sys
from ctypes import c_uint64
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[3]))

from tests.bindings import call, use_gpu

LAUNCHES = 500
PTX = b"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry increment(.param .u64 sum)
{
    .reg .b64 %a;
    .reg .f32 %f;
    ld.param.u64 %a, [sum];
    ld.global.f32 %f, [%a];
    add.f32 %f, %f, 0f3F800000;
    st.global.f32 [%a], %f;
    ret;
}
"""


def main() -> int:
    use_gpu()
    function = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(PTX)), b"increment"))
    place = call(driver.cuMemAlloc(4))
    call(driver.cuMemsetD8(place, 0, 4))
    result = array.array("f", [0.0])

    def launch() -> None:
        for _ in range(LAUNCHES):
            arguments = ((int(place),), (c_uint64,))
            call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
        call(driver.cuMemcpyDtoH(result.buffer_info()[0], place, 4))

    launch()
    print(f"launched {LAUNCHES}", flush=True)
    sys.stdin.readline()
    launch()
    print(f"launched {2 * LAUNCHES}: {result[0]}", flush=True)
    return 7


if __name__ == "__main__":
    sys.exit(main())
