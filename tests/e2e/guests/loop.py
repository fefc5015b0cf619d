"""Launches a kernel 500 times, waits for a line, and again; the sum tells whether every launch ran. Ends with 7."""

from __future__ import annotations

import array
import sys
from ctypes import c_uint64
from typing import Any

from cuda.bindings import driver

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


def check(answer: tuple[Any, ...]) -> Any:
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


def main() -> int:
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    function = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(PTX)), b"increment"))
    place = check(driver.cuMemAlloc(4))
    check(driver.cuMemsetD8(place, 0, 4))
    result = array.array("f", [0.0])

    def launch() -> None:
        for _ in range(LAUNCHES):
            arguments = ((int(place),), (c_uint64,))
            check(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
        check(driver.cuMemcpyDtoH(result.buffer_info()[0], place, 4))

    launch()
    print(f"launched {LAUNCHES}", flush=True)
    sys.stdin.readline()
    launch()
    print(f"launched {2 * LAUNCHES}: {result[0]}", flush=True)
    return 7


if __name__ == "__main__":
    sys.exit(main())
