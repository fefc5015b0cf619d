"""A pool is destroyed whose memory was freed behind a kernel that still uses it, in a stream without work of its own.

argv: the kernel's stream and that of the free, `legacy` or `blocking`: each waits for the other by the legacy stream's
rules. With a third, `captured`, the kernel is done and memory is looked for while another blocking stream is captured.
Prints "right", or fails with the driver's error.
"""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

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


def look_for_memory_during_capture(properties: driver.CUmemPoolProps, freed_in: driver.CUstream) -> None:
    """A new pool has no memory yet; what was freed may be released for it."""
    captured = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT))
    other = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    pool = call(driver.cuMemPoolCreate(properties))
    call(driver.cuStreamBeginCapture(captured, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    while driver.cuStreamQuery(freed_in)[0] != driver.CUresult.CUDA_SUCCESS:
        pass
    call(driver.cuMemAllocFromPoolAsync(BYTES, pool, other))
    call(driver.cuStreamEndCapture(captured))


def main() -> None:
    use_gpu()
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
    if len(sys.argv) > 3:
        call(driver.cuCtxSynchronize())
    call(driver.cuMemFreeAsync(buffer, streams[sys.argv[2]]))
    if len(sys.argv) > 3:
        look_for_memory_during_capture(properties, streams[sys.argv[2]])
    call(driver.cuMemPoolDestroy(pool))
    call(driver.cuCtxSynchronize())
    sys.stdout.write("right\n")


if __name__ == "__main__":
    main()
