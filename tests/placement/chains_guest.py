"""Chains of launches in one stream: `chains_guest.py CHAINS STEPS KIB [given]`.

Chain n changes its buffer, step by step, with the kernel `step_n`; chains share a buffer of constants that all read.
given: after a step of each, one chain after another, and the host changes some of the constants before each.
Prints the sum of each chain's buffer.
"""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

STEP = """
    ld.global.u32 %r1, [%buffer];
    ld.global.u32 %r2, [%constants];
    mad.lo.u32 %r1, %r1, 3, %r2;
    st.global.u32 [%buffer], %r1;
"""


def main() -> None:
    chains, steps, kib = map(int, sys.argv[1:4])
    use_gpu()
    steps_of = [elementwise(f"step_{n}", ("buffer", "constants"), ("count",), STEP) for n in range(chains)]
    step = [*functions(*steps_of).values()]
    stream = call(driver.cuStreamCreate(1))
    count = kib * 256
    buffers = [call(driver.cuMemAlloc(4 * count)) for _ in range(chains + 1)]
    for number, buffer in enumerate(buffers):
        call(driver.cuMemcpyHtoD(buffer, numpy.arange(number, count + number, dtype=numpy.uint32), 4 * count))
    given = sys.argv[4:] == ["given"]
    for at in range(steps * chains):
        rest = steps - 1
        number = (at - chains) // rest if given and at >= chains else at % chains
        if given and at >= chains and (at - chains) % rest == 0:
            few = numpy.full(64, number, numpy.uint32)
            call(driver.cuMemcpyHtoDAsync(buffers[-1], few, few.nbytes, stream))
            few[:] = 77
        parameters = ((buffers[number], buffers[-1], count), (None, None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(step[number], -(-count // 256), 1, 1, 256, 1, 1, 0, stream, parameters, 0))
    call(driver.cuStreamSynchronize(stream))
    for buffer in buffers[:-1]:
        numbers = numpy.zeros(count, numpy.uint32)
        call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
        print(int(numbers.sum()))


if __name__ == "__main__":
    main()
