"""A program that gains nothing from a second GPU, and later does: `asleep_guest.py STEPS REQUESTS`.

First one chain of STEPS steps of a millisecond, then REQUESTS chains of twenty, each over a buffer of its own. Prints
the sum of each result.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

STEP = """
    nanosleep.u32 1000000;
    ld.global.u32 %r1, [%values];
    mad.lo.u32 %r1, %r1, 3, 1;
    st.global.u32 [%values], %r1;
"""
COUNT, LENGTH = 32, 20


def main() -> None:
    steps, requests = map(int, sys.argv[1:])
    use_gpu()
    step = functions(elementwise("step", ("values",), ("count",), STEP))["step"]
    stream = call(driver.cuStreamCreate(1))
    buffers = [call(driver.cuMemAlloc(4 * COUNT)) for _ in range(1 + requests)]

    def chain(buffer: Any, length: int) -> None:
        for _ in range(length):
            parameters = ((buffer, COUNT), (None, ctypes.c_uint32))
            call(driver.cuLaunchKernel(step, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, 0))

    for number, buffer in enumerate(buffers):
        call(driver.cuMemsetD32Async(buffer, number, COUNT, stream))
    chain(buffers[0], steps)
    call(driver.cuStreamSynchronize(stream))
    for buffer in buffers[1:]:
        chain(buffer, LENGTH)
    for buffer in buffers:
        values = numpy.zeros(COUNT, numpy.uint32)
        call(driver.cuMemcpyDtoHAsync(values, buffer, values.nbytes, stream))
        call(driver.cuStreamSynchronize(stream))
        print(int(values.sum()))


if __name__ == "__main__":
    main()
