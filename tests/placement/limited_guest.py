"""A pool of the program's own is full, up to its limit, while work is held up: `limited_guest.py`.

Memory of another pool is freed behind that work, which goes on only when the program has heard that there is no more.
Prints what allocations from the full pool answer, and one after a piece has been freed.
"""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

BYTES = 2 << 20


def main() -> None:
    use_gpu()
    held, stream = call(driver.cuStreamCreate(1)), call(driver.cuStreamCreate(1))
    word = call(driver.cuMemHostAlloc(4, 0))
    ctypes.c_uint32.from_address(int(word)).value = 0
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.maxSize = 2 * BYTES
    pool = call(driver.cuMemPoolCreate(properties))
    other = call(driver.cuMemAllocAsync(BYTES, held))
    pieces = [call(driver.cuMemAllocFromPoolAsync(BYTES, pool, stream)) for _ in range(2)]
    call(driver.cuStreamWaitValue32(held, int(word), 1, 0))
    call(driver.cuMemFreeAsync(other, held))
    for size in (BYTES, 4 * BYTES, 1):
        print(driver.cuMemAllocFromPoolAsync(size, pool, stream)[0].name)
    ctypes.c_uint32.from_address(int(word)).value = 1
    call(driver.cuMemFreeAsync(pieces.pop(), held))
    print(driver.cuMemAllocFromPoolAsync(BYTES, pool, stream)[0].name)
    call(driver.cuCtxSynchronize())


main()
