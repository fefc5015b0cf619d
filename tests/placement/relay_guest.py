"""Streams whose work is elsewhere copy bytes that the home GPU holds; then the program reads the copies.

    relay_guest.py STREAMS BYTES

Prints what the copies on the GPU took (ms), and whether all bytes are those that they were made of.
"""

import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu
from tests.placement.server_guest import KERNEL

ELEMENTS = 256


def go_away(layer: Any, scratch: Any, stream: Any) -> None:
    """The policy sends launches to the other GPU, and copies follow their stream."""
    parameters = ((scratch, scratch, scratch), (None, None, None))
    call(driver.cuLaunchKernel(layer, 1, 1, 1, ELEMENTS, 1, 1, 0, stream, parameters, 0))


def main() -> None:
    count, size = map(int, sys.argv[1:])
    use_gpu()
    layer = functions(KERNEL)["layer"]
    streams = [call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(count)]
    scratch, made, copied = ([call(driver.cuMemAlloc(size)) for _ in streams] for _ in range(3))
    values = [numpy.random.default_rng(number).bytes(size) for number in range(count)]
    for address, value in zip(made, values, strict=True):
        call(driver.cuMemcpyHtoD(address, value, size))
    call(driver.cuCtxSynchronize())
    for number, stream in enumerate(streams):
        go_away(layer, scratch[number], stream)
    call(driver.cuCtxSynchronize())
    begin, end = (call(driver.cuEventCreate(0)) for _ in range(2))
    call(driver.cuEventRecord(begin, streams[0]))
    for number, stream in enumerate(streams):
        go_away(layer, scratch[number], stream)
        call(driver.cuMemcpyDtoDAsync(copied[number], made[number], size, stream))
    call(driver.cuEventRecord(end, streams[0]))
    call(driver.cuCtxSynchronize())
    print(call(driver.cuEventElapsedTime(begin, end)))
    read = numpy.zeros(size, numpy.uint8)
    right = True
    for address, value in zip(copied, values, strict=True):
        call(driver.cuMemcpyDtoH(read, address, size))
        right = right and read.tobytes() == value
    print("right" if right else "wrong")


if __name__ == "__main__":
    main()
