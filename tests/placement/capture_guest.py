"""While a stream is captured, another is given what brings all memory home, which a launch elsewhere has yet to write.

    capture_guest.py joined | legacy

joined: that launch is in a stream that takes part in the capture afterwards; legacy: in the default one, meanwhile.
Prints what it wrote.
"""

import ctypes
import sys
import time
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, store_ptx, use_gpu

WRITTEN = driver.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT
REACHED = driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ


def take_part(stream: Any, captured: Any, event: Any) -> None:
    call(driver.cuEventRecord(event, captured))
    call(driver.cuStreamWaitEvent(stream, event, 0))
    call(driver.cuEventRecord(event, stream))
    call(driver.cuStreamWaitEvent(captured, event, 0))


def main() -> None:
    use_gpu()
    store = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(store_ptx("u32"))), b"store"))
    memory, other = (call(driver.cuMemAlloc(2 << 20)) for _ in range(2))
    stream, captured, there = (
        call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(3)
    )
    event = call(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    pinned = call(driver.cuMemHostAlloc(4, driver.CU_MEMHOSTALLOC_DEVICEMAP))
    go = (ctypes.c_uint32 * 1).from_address(pinned)
    go[0] = 0
    for address in (memory, other):
        call(driver.cuMemsetD32(address, 1, 8))
    call(driver.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, there, ((other,), (None,)), 0))
    call(driver.cuCtxSynchronize())

    joined = sys.argv[1] == "joined"
    writer = stream if joined else driver.CUstream(driver.CU_STREAM_LEGACY)
    begin = (driver.cuStreamBeginCapture, captured, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    if not joined:
        call(begin[0](*begin[1:]))
    call(driver.cuStreamWaitValue32(writer, call(driver.cuMemHostGetDevicePointer(pinned, 0)), 1, REACHED))
    call(driver.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, writer, ((memory,), (None,)), 0))
    if joined:
        call(begin[0](*begin[1:]))
        take_part(stream, captured, event)
    call(driver.cuStreamWriteValue32(there, int(other) + 8, 5, WRITTEN))
    time.sleep(0.2)
    go[0] = 1
    call(driver.cuStreamEndCapture(captured))
    call(driver.cuCtxSynchronize())
    found = numpy.zeros(1, numpy.uint32)
    call(driver.cuMemcpyDtoH(found, memory, found.nbytes))
    print(found[0])


if __name__ == "__main__":
    main()
