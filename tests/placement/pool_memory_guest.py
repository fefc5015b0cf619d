"""A program that takes its GPU's memory in one way: `pool_memory_guest.py mapped|handles|beside|idle|taken|code ...`.

mapped, handles: maps pages that it makes, the latter such that it could share them, until it is refused; prints how
many there were, whether each holds what was written there, and what is told of the last one. beside MIB: takes so much
of another GPU by itself; prints whether memory is given that fits what is left of both. idle KEPT: allocates what a
pool, which keeps so many bytes, has just got back. taken MIB ...: takes so much of its GPU as memory that is another
pool's, and goes on as large_guest.py. code MIB ...: after that, loads a module with so large a variable.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.placement import large_guest

PAGE, MEBIBYTE = 2 << 20, 1 << 20
HANDLES = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
OUT_OF_MEMORY = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY


def on_gpu(properties: Any) -> Any:
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    return properties


def mapped(types: Any = None) -> None:
    properties = on_gpu(driver.CUmemAllocationProp())
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    if types is not None:
        properties.requestedHandleTypes = types
    access = on_gpu(driver.CUmemAccessDesc())
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    at = first = int(call(driver.cuMemAddressReserve(1 << 30, 0, 0, 0)))
    while True:
        error, handle = driver.cuMemCreate(PAGE, properties, 0)
        if error == OUT_OF_MEMORY:
            break
        call((error,))
        call(driver.cuMemMap(at, PAGE, 0, handle, 0))
        call(driver.cuMemSetAccess(at, PAGE, [access], 1))
        call(driver.cuMemsetD32(at, at // PAGE, PAGE // 4))
        told = call(driver.cuMemGetAllocationPropertiesFromHandle(handle))
        at += PAGE
    found = numpy.zeros((at - first) // 4, numpy.uint32)
    call(driver.cuMemcpyDtoH(found, first, at - first))
    right = all(
        (found[n * PAGE // 4 :][: PAGE // 4] == (first + n * PAGE) // PAGE).all() for n in range(len(found) * 4 // PAGE)
    )
    print((at - first) // PAGE, right, told.location.type == properties.location.type, told.location.id)
    print(told.requestedHandleTypes == properties.requestedHandleTypes)


def beside(mebibytes: int) -> None:
    home = use_gpu()
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(1))))
    call(driver.cuMemAlloc(mebibytes * MEBIBYTE))
    call(driver.cuCtxSetCurrent(home))
    call(driver.cuMemAlloc(14 * MEBIBYTE))
    given = call(driver.cuMemAlloc(20 * MEBIBYTE))
    call(driver.cuMemsetD32(given, 7, 5 * MEBIBYTE))
    found = numpy.zeros(5 * MEBIBYTE, numpy.uint32)
    call(driver.cuMemcpyDtoH(found, given, found.nbytes))
    print((found == 7).all())


def idle(kept: int) -> None:
    stream, pool = call(driver.cuStreamCreate(1)), call(driver.cuDeviceGetDefaultMemPool(0))
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    call(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(kept)))
    call(driver.cuMemFreeAsync(call(driver.cuMemAllocAsync(20 * MEBIBYTE, stream)), stream))
    call(driver.cuMemAlloc(20 * MEBIBYTE))


def code(mebibytes: int, *sizes: int) -> None:
    large_guest.layers(*sizes)
    call(driver.cuModuleLoadData(f"{HEAD}.visible .global .b8 table[{mebibytes * MEBIBYTE}];\n".encode()))


def taken(mebibytes: int, *sizes: int) -> None:
    properties = on_gpu(driver.CUmemPoolProps())
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.handleTypes = HANDLES
    pool = call(driver.cuMemPoolCreate(properties))
    if mebibytes:
        call(driver.cuMemAllocFromPoolAsync(mebibytes * MEBIBYTE, pool, driver.CUstream(1)))
    large_guest.layers(*sizes)


if __name__ == "__main__":
    use_gpu()
    ways: dict[str, Callable[..., None]] = {
        "mapped": mapped,
        "handles": lambda: mapped(HANDLES),
        "beside": beside,
        "idle": idle,
        "taken": taken,
        "code": code,
    }
    ways[sys.argv[1]](*map(int, sys.argv[2:]))
