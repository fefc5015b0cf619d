"""Launches in two streams, each with memory of its own: sizes_guest.py MEBIBYTES [after].

With `after` both are used in the second stream, one after the other, and the first one's memory in between by many
memsets in the first stream. Prints sums.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call

PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 values, .param .u32 more)
{
    .reg .b64 %a<3>;
    .reg .b32 %r<7>;
    ld.param.u64 %a1, [values];
    ld.param.u32 %r5, [more];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    mul.wide.u32 %a2, %r2, 4;
    add.u64 %a1, %a1, %a2;
    ld.global.u32 %r1, [%a1];
    add.u32 %r1, %r1, %r5;
    st.global.u32 [%a1], %r1;
    ret;
}
"""
BLOCK, LAUNCHES = 256, 3


def run(add: Any, stream: Any, memory: Any, count: int) -> int:
    for number in range(LAUNCHES):
        parameters = ((memory, number), (None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(add, count // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, 0))
    values = numpy.zeros(count, numpy.uint32)
    call(driver.cuMemcpyDtoHAsync(values, memory, 4 * count, stream))
    call(driver.cuStreamSynchronize(stream))
    return int(values.sum())


def main() -> None:
    count = int(sys.argv[1]) * 2**18
    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
    add = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(PTX.encode())), b"add"))
    streams = [call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2)]
    memory = [call(driver.cuMemAlloc(4 * count)) for _ in streams]
    for number, part in enumerate(memory):
        call(driver.cuMemsetD32(part, number, count))
    call(driver.cuCtxSynchronize())
    if sys.argv[2:] == ["after"]:
        print(run(add, streams[1], memory[0], count))
        for number in range(100):
            call(driver.cuMemsetD32Async(memory[0], number, count, streams[0]))
        call(driver.cuStreamSynchronize(streams[0]))
        print(run(add, streams[1], memory[1], count), run(add, streams[0], memory[0], count))
        return
    for _ in range(2):
        print([run(add, stream, part, count) for stream, part in zip(streams, memory, strict=True)])


if __name__ == "__main__":
    main()
