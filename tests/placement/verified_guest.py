"""Launches the kernel that it is given on zeros, three times, and prints the sum: `alpha` adds 1, `look` only reads."""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.placement.guest import PTX

COUNT = 2048
LOOK = """
.visible .entry look(.param .u64 buffer, .param .u32 count)
{
    .reg .b64 %a<3>;
    .reg .b32 %r<5>;
    .reg .pred %p;
    ld.param.u64 %a1, [buffer];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    mul.wide.u32 %a2, %r2, 4;
    add.u64 %a1, %a1, %a2;
    ld.global.u32 %r1, [%a1];
done:
    ret;
}
"""


def main() -> None:
    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
    function = call(
        driver.cuModuleGetFunction(call(driver.cuModuleLoadData((PTX + LOOK).encode())), sys.argv[1].encode())
    )
    buffer = call(driver.cuMemAlloc(4 * COUNT))
    call(driver.cuMemsetD8(buffer, 0, 4 * COUNT))
    for _ in range(3):
        parameters = ((buffer, COUNT), (None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(function, COUNT // 256, 1, 1, 256, 1, 1, 0, 0, parameters, 0))
    numbers = numpy.zeros(COUNT, numpy.uint32)
    call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
    print(int(numbers.sum()))


if __name__ == "__main__":
    main()
