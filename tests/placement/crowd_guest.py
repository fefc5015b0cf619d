"""Gives thousands of streams work under a policy, so that who used copies has to be forgotten, while memory is offered
to other processes. Prints what the last launch wrote.
"""

import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, store_ptx, use_gpu

STREAMS, OFFERED_FROM, OFFERS = 4110, 4085, 6  # the shim remembers 4,096
OWN_EXTENT = 2 << 20


def main() -> None:
    use_gpu()
    store = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(store_ptx("u32"))), b"store"))
    memory = call(driver.cuMemAlloc(OWN_EXTENT))
    before = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    for number in range(STREAMS):
        stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        call(driver.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, ((memory,), (None,)), 0))
        call(driver.cuStreamSynchronize(stream))
        for _ in range(OFFERS if number >= OFFERED_FROM else 0):
            offered = call(driver.cuMemAlloc(OWN_EXTENT))
            call(driver.cuMemsetD32Async(offered, number, 64, before))
            call(driver.cuIpcGetMemHandle(offered))
            call(driver.cuMemFree(offered))
        call(driver.cuStreamDestroy(stream))
    found = numpy.zeros(1, numpy.uint32)
    call(driver.cuMemcpyDtoH(found, memory, found.nbytes))
    print(found)


if __name__ == "__main__":
    main()
