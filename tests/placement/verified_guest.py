"""Launches the kernel that it is given on zeros, three times, and prints the sum: `alpha` adds 1, `look` only reads."""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu
from tests.placement.guest import KERNELS

COUNT = 2048
LOOK = elementwise("look", ("buffer",), ("count",), "ld.global.u32 %r1, [%buffer];")


def main() -> None:
    use_gpu()
    function = functions(*KERNELS, LOOK)[sys.argv[1]]
    buffer = call(driver.cuMemAlloc(4 * COUNT))
    call(driver.cuMemsetD8(buffer, 0, 4 * COUNT))
    for _ in range(3):
        parameters = ((buffer, COUNT), (None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(function, COUNT // 256, 1, 1, 256, 1, 1, 0, 0, parameters, 0))
    numbers = numpy.zeros(COUNT, numpy.uint32)
    call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
    print(int(numbers.sum()))


if __name__ == "__main__":
    main()
