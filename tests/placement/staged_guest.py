"""Copies from the host, each followed at once by a launch in a stream that does not wait for the copy's.

    staged_guest.py HtoD|plain|2D

Prints how many of the launches saw what was copied.
"""

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy
import numpy.typing
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu
from tests.placement.guest import KERNELS

COUNT, ROUNDS = 4096, 10
Numbers: TypeAlias = "numpy.typing.NDArray[numpy.uint32]"


def as_row(to: int, values: Numbers) -> None:
    row = driver.CUDA_MEMCPY2D()
    row.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
    row.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    row.srcHost, row.dstDevice = values.ctypes.data, to
    row.srcPitch = row.dstPitch = row.WidthInBytes = values.nbytes
    row.Height = 1
    call(driver.cuMemcpy2D(row))


COPIES: dict[str, Callable[[int, Numbers], None]] = {
    "HtoD": lambda to, values: call(driver.cuMemcpyHtoD(to, values, values.nbytes)),
    "plain": lambda to, values: call(driver.cuMemcpy(to, values.ctypes.data, values.nbytes)),
    "2D": as_row,
}


def main() -> None:
    copy = COPIES[sys.argv[1]]
    use_gpu()
    function = functions(*KERNELS)["alpha"]
    stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    buffer, right = int(call(driver.cuMemAlloc(4 * COUNT))), 0
    found = numpy.zeros(COUNT, numpy.uint32)
    for number in range(ROUNDS):
        copy(buffer, numpy.full(COUNT, 10 * number, numpy.uint32))
        parameters = ((buffer, COUNT), (ctypes.c_uint64, ctypes.c_uint32))
        call(driver.cuLaunchKernel(function, COUNT // 256, 1, 1, 256, 1, 1, 0, stream, parameters, 0))
        call(driver.cuStreamSynchronize(stream))
        call(driver.cuCtxSynchronize())
        call(driver.cuMemcpyDtoH(found, buffer, found.nbytes))
        right += bool((found == 10 * number + 1).all())
    print(right)


if __name__ == "__main__":
    main()
