"""Memory is given back while a stream is held up by what the program does only afterwards: `held_up_guest.py HELD WAY`.

HELD: the stream waits for a word of host memory (`wait`), or a kernel in it does (`kernel`). WAY: the memory is
unmapped (`unmap`), or another context of the same GPU frees it (`free`) or page-locked memory (`host`), allocates some
again, and frees that. Prints the sum of what kernels counted.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu

BYTES = 2 << 20
AWAIT = """
.visible .entry count_after(.param .u64 word, .param .u64 sum)
{
    .reg .b64 %word, %sum;
    .reg .b32 %found;
    .reg .pred %p;
    ld.param.u64 %word, [word];
    ld.param.u64 %sum, [sum];
again:
    ld.volatile.global.u32 %found, [%word];
    setp.eq.u32 %p, %found, 0;
    @%p bra again;
    red.global.add.u32 [%sum], 1;
    ret;
}
"""
PROPERTIES = driver.CUmemAllocationProp()
PROPERTIES.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
PROPERTIES.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
ACCESS = driver.CUmemAccessDesc()
ACCESS.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
ACCESS.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE


class Mapped:
    """Memory that the program maps itself."""

    def __init__(self) -> None:
        self.address = call(driver.cuMemAddressReserve(BYTES, 0, 0, 0))
        self._memory = call(driver.cuMemCreate(BYTES, PROPERTIES, 0))
        self.make()

    def make(self) -> None:
        call(driver.cuMemMap(self.address, BYTES, 0, self._memory, 0))
        call(driver.cuMemSetAccess(self.address, BYTES, [ACCESS], 1))

    def free(self) -> None:
        call(driver.cuMemUnmap(self.address, BYTES))


class Allocated:
    """Memory of the context that is current, of either kind."""

    def __init__(self, host: bool) -> None:
        self._host = host
        self.make()

    def make(self) -> None:
        self.address = call(driver.cuMemHostAlloc(BYTES, 0) if self._host else driver.cuMemAlloc(BYTES))

    def free(self) -> None:
        call(driver.cuMemFreeHost(self.address) if self._host else driver.cuMemFree(self.address))


def count(function: Any, stream: Any, word: Any, total: Any) -> None:
    parameters = ((int(word), int(total)), (ctypes.c_uint64, ctypes.c_uint64))
    call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0))


def main() -> None:
    held, way = sys.argv[1:]
    use_gpu()
    function = functions(AWAIT)["count_after"]
    stream, free = (call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2))
    words = call(driver.cuMemHostAlloc(8, 0))
    word = ctypes.cast(int(words), ctypes.POINTER(ctypes.c_uint32))
    word[0], word[1] = 0, 1
    total = call(driver.cuMemAlloc(4))
    call(driver.cuMemsetD32(total, 0, 1))
    first = call(driver.cuCtxGetCurrent())
    other = None if way == "unmap" else call(driver.cuCtxCreate(None, 0, 0))
    used = Mapped() if way == "unmap" else Allocated(way == "host")
    call(driver.cuCtxPushCurrent(first))
    count(function, free, int(words) + 4, total)
    count(function, stream, int(words) + 4, used.address if way == "unmap" else total)
    call(driver.cuCtxSynchronize())
    if held == "wait":
        call(driver.cuStreamWaitValue32(stream, int(words), 1, 0))
    count(function, stream, words, total)
    if other:
        call(driver.cuCtxPushCurrent(other))
    for _ in range(3):
        used.free()
        used.make()
    used.free()
    if other:
        call(driver.cuCtxPopCurrent())
    count(function, free, int(words) + 4, total)
    call(driver.cuStreamSynchronize(free))
    word[0] = 1
    call(driver.cuCtxSynchronize())
    found = numpy.zeros(1, numpy.uint32)
    call(driver.cuMemcpyDtoH(found, total, 4))
    print(found[0])


if __name__ == "__main__":
    main()
