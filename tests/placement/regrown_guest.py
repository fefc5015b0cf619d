"""A kernel reads where a number in memory says, in an allocation that is then replaced by a larger one at its address.

Prints what it read, and whether the address was the same.
"""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

SMALL, LARGE = 2 << 20, 4 << 20
LOOKED = ((5, 1), (5, 1), (5, 1), (LARGE // 4 - 5, 7))  # at which element, of what is set to which byte

GATHER = elementwise(
    "gather",
    ("out", "where", "table"),
    (),
    "ld.global.u32 %r1, [%where]; mul.wide.u32 %a1, %r1, 4; add.u64 %a1, %table, %a1;"
    "ld.global.u32 %r2, [%a1]; st.global.u32 [%out], %r2;",
)


def main() -> None:
    use_gpu()
    gather = functions(GATHER)["gather"]
    stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    out, where = (call(driver.cuMemAlloc(4)) for _ in range(2))
    table, at = call(driver.cuMemAlloc(SMALL)), set()
    found = numpy.zeros(1, numpy.uint32)
    for number, (element, byte) in enumerate(LOOKED):
        if number == len(LOOKED) - 1:
            call(driver.cuMemFree(table))
            table = call(driver.cuMemAlloc(LARGE))
        at.add(int(table))
        call(driver.cuMemcpyHtoD(where, numpy.array([element], numpy.uint32), 4))
        call(driver.cuMemsetD8Async(table, byte, SMALL if number < len(LOOKED) - 1 else LARGE, stream))
        parameters = ((int(out), int(where), int(table)), (ctypes.c_void_p,) * 3)
        call(driver.cuLaunchKernel(gather, 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0))
        call(driver.cuStreamSynchronize(stream))
        call(driver.cuMemcpyDtoH(found, out, 4))
        sys.stdout.write(f"{found[0]:x}\n")
    sys.stderr.write(f"{len(at)} addresses\n")


if __name__ == "__main__":
    main()
