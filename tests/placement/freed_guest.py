"""Ordinary memory is freed behind a kernel that still uses it, in a stream that has had no work of its own.

argv: the kernel's stream and that of the free, `legacy`, `blocking` or `own`: each waits for the other by the legacy
stream's rules. What is allocated next must keep what the program writes there. Prints "right", or fails with the
driver's error.
"""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu
from tests.placement.pool_guest import BYTES, PTX


def main() -> None:
    use_gpu()
    function = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(PTX)), b"late"))
    streams = {
        "legacy": driver.CUstream(driver.CU_STREAM_LEGACY),
        "own": driver.CUstream(driver.CU_STREAM_PER_THREAD),
        "blocking": call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT)),
    }
    other = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    buffer = call(driver.cuMemAlloc(BYTES))
    call(driver.cuMemsetD8(buffer, 0, BYTES))
    call(driver.cuCtxSynchronize())
    parameters = ((int(buffer),), (ctypes.c_void_p,))
    call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[sys.argv[1]], parameters, 0))
    call(driver.cuMemFreeAsync(buffer, streams[sys.argv[2]]))
    again = call(driver.cuMemAlloc(BYTES))
    call(driver.cuMemsetD8Async(again, 5, BYTES, other))
    call(driver.cuStreamSynchronize(other))
    call(driver.cuCtxSynchronize())
    found = numpy.zeros(BYTES, numpy.uint8)
    call(driver.cuMemcpyDtoH(found, again, BYTES))
    sys.stdout.write("right\n" if (found == 5).all() else f"wrong: {found[:8]}\n")


if __name__ == "__main__":
    main()
