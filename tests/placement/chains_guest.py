"""Chains of launches in one stream: `chains_guest.py CHAINS STEPS KIB`.

Chain n changes its buffer, step by step, with the kernel `step_n`; chains share a buffer of constants that all read.
Prints the sum of each chain's buffer.
"""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call

KERNEL = """
.visible .entry step_{number}(.param .u64 buffer, .param .u64 constants, .param .u32 count)
{{
    .reg .b64 %a<5>;
    .reg .b32 %r<7>;
    .reg .pred %p;
    ld.param.u64 %a1, [buffer];
    ld.param.u64 %a3, [constants];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    mul.wide.u32 %a2, %r2, 4;
    add.u64 %a1, %a1, %a2;
    add.u64 %a3, %a3, %a2;
    ld.global.u32 %r1, [%a1];
    ld.global.u32 %r5, [%a3];
    mad.lo.u32 %r1, %r1, 3, %r5;
    st.global.u32 [%a1], %r1;
done:
    ret;
}}
"""


def main() -> None:
    chains, steps, kib = map(int, sys.argv[1:])
    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
    kernels = "".join(KERNEL.format(number=number) for number in range(chains))
    module = call(driver.cuModuleLoadData((".version 7.0\n.target sm_70\n.address_size 64\n" + kernels).encode()))
    functions = [call(driver.cuModuleGetFunction(module, f"step_{n}".encode())) for n in range(chains)]
    stream = call(driver.cuStreamCreate(1))
    count = kib * 256
    buffers = [call(driver.cuMemAlloc(4 * count)) for _ in range(chains + 1)]
    for number, buffer in enumerate(buffers):
        call(driver.cuMemcpyHtoD(buffer, numpy.arange(number, count + number, dtype=numpy.uint32), 4 * count))
    for _ in range(steps):
        for number in range(chains):
            parameters = ((buffers[number], buffers[-1], count), (None, None, ctypes.c_uint32))
            call(driver.cuLaunchKernel(functions[number], -(-count // 256), 1, 1, 256, 1, 1, 0, stream, parameters, 0))
    call(driver.cuStreamSynchronize(stream))
    for buffer in buffers[:-1]:
        numbers = numpy.zeros(count, numpy.uint32)
        call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
        print(int(numbers.sum()))


if __name__ == "__main__":
    main()
