"""Fills GPU 1 with copies of home's memory, some of whose bytes only they hold, and then allocates on GPU 1 itself.

    full_guest.py alloc|pitch|async|pool|create BUFFERS BYTES TIMES
    full_guest.py left BUFFERS

Each buffer is written on GPU 1; then TIMES allocations of BYTES are made there, written and read; then all buffers are
written on GPU 1 again. Prints what became of the allocations, whether they held what was written, and whether the
buffers are right. `left`: prints how many bytes the copies have left free on GPU 1.
"""

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu
from tests.placement.guest import KERNELS

COUNT = 4096


def alloc(size: int) -> int:
    return int(call(driver.cuMemAlloc(size)))


def pitch(size: int) -> int:
    return int(call(driver.cuMemAllocPitch(size // 1024, 1024, 16))[0])


def from_stream(size: int) -> int:
    return int(call(driver.cuMemAllocAsync(size, 0)))


def _location() -> driver.CUmemLocation:
    location = driver.CUmemLocation()
    location.type, location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 1
    return location


def from_pool(size: int) -> int:
    properties = driver.CUmemPoolProps()
    properties.allocType, properties.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, _location()
    return int(call(driver.cuMemAllocFromPoolAsync(size, call(driver.cuMemPoolCreate(properties)), 0)))


def create(size: int) -> int:
    properties = driver.CUmemAllocationProp()
    properties.type, properties.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, _location()
    address = call(driver.cuMemAddressReserve(size, 0, 0, 0))
    call(driver.cuMemMap(address, size, 0, call(driver.cuMemCreate(size, properties, 0)), 0))
    access = driver.CUmemAccessDesc()
    access.location, access.flags = _location(), driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    call(driver.cuMemSetAccess(address, size, [access], 1))
    return int(address)


WAYS: dict[str, Callable[[int], int]] = {
    "alloc": alloc,
    "pitch": pitch,
    "async": from_stream,
    "pool": from_pool,
    "create": create,
}


def add(function: Any, stream: Any, buffers: list[Any]) -> None:
    for buffer in buffers:
        parameters = ((buffer, COUNT), (None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(function, COUNT // 256, 1, 1, 256, 1, 1, 0, stream, parameters, 0))


def written(address: int, size: int, value: int) -> bool:
    call(driver.cuMemsetD8(address, value, size))
    found = numpy.zeros(size, numpy.uint8)
    call(driver.cuMemcpyDtoH(found, address, size))
    return bool((found == value).all())


def main() -> None:
    how, buffer_count = sys.argv[1], int(sys.argv[2])
    home, function = use_gpu(), functions(*KERNELS)["alpha"]
    stream = call(driver.cuStreamCreate(1))
    buffers = [call(driver.cuMemAlloc(4 << 20)) for _ in range(buffer_count)]
    for buffer in buffers:
        call(driver.cuMemsetD8(buffer, 0, 4 << 20))
    call(driver.cuCtxSynchronize())
    add(function, stream, buffers)
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(1))))))
    if how == "left":
        call(driver.cuCtxSynchronize())
        print(int(call(driver.cuMemGetInfo())[0]))
        return
    size, times = map(int, sys.argv[3:])
    got = [WAYS[how](size) for _ in range(times)]
    kept = all(written(address, size, 7 + n) for n, address in enumerate(got))
    call(driver.cuCtxSetCurrent(home))
    add(function, stream, buffers)
    call(driver.cuCtxSynchronize())
    found = numpy.zeros((buffer_count, COUNT), numpy.uint32)
    for n, buffer in enumerate(buffers):
        call(driver.cuMemcpyDtoH(found[n], buffer, 4 * COUNT))
    print(len(got), kept, bool((found == 2).all()))


if __name__ == "__main__":
    main()
