"""A pool is destroyed whose memory was freed behind a kernel that still uses it, in a stream without work of its own.

argv: the kernel's stream and that of the free, `legacy` or `blocking`: each waits for the other by the legacy stream's
rules. Prints "right", or fails with the driver's error.
"""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry late(.param .u64 buffer)
{
    .reg .b64 %a; .reg .b32 %r<3>; .reg .pred %p;
    mov.u32 %r1, 400000;
SPIN:
    sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra SPIN;
    ld.param.u64 %a, [buffer];
    st.global.u32 [%a], 7;
    ret;
}
"""
BYTES = 4096


def main() -> None:
    call(driver.cuInit(0))
    context = call(driver.cuDevicePrimaryCtxRetain(0))
    call(driver.cuCtxSetCurrent(context))
    module = call(driver.cuModuleLoadData(PTX))
    function = call(driver.cuModuleGetFunction(module, b"late"))
    streams = {
        "legacy": driver.CUstream(driver.CU_STREAM_LEGACY),
        "blocking": call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT)),
    }
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    pool = call(driver.cuMemPoolCreate(properties))
    buffer = call(driver.cuMemAllocFromPoolAsync(BYTES, pool, streams[sys.argv[1]]))
    call(driver.cuCtxSynchronize())
    parameters = ((int(buffer),), (ctypes.c_void_p,))
    call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[sys.argv[1]], parameters, 0))
    call(driver.cuMemFreeAsync(buffer, streams[sys.argv[2]]))
    call(driver.cuMemPoolDestroy(pool))
    call(driver.cuCtxSynchronize())
    sys.stdout.write("right\n")


if __name__ == "__main__":
    main()
