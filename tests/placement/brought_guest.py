"""A number is read back in the stream that makes it, after work of which nothing is known was put into another stream.

That stream has been given something long before. Other numbers were read back and waited for before. Prints them.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, launch, use_gpu

READS, LONG, WORDS = 6, 60, 32
FOLLOW = """
    ld.global.u64 %a1, [%from];
    ld.global.u32 %r1, [%a1];
    st.global.u32 [%to], %r1;
"""
FREE = 1


def made(*numbers: int) -> Any:
    values = numpy.array(numbers, numpy.uint64)
    buffer = call(driver.cuMemAlloc(1 << 21))
    call(driver.cuMemcpyHtoD(buffer, values, values.nbytes))
    return buffer


def main() -> None:
    use_gpu()
    steps = (
        elementwise(name, ("out", "in", "weights"), ("rounds",), arithmetic("%rounds")) for name in ("make", "stay")
    )
    known = functions(*steps, elementwise("follow", ("to", "from"), (), FOLLOW))
    stream, other = (call(driver.cuStreamCreate(FREE)) for _ in range(2))
    number, target, long = made(1), made(7), made(1)
    pointer, copy = made(int(target)), made(0)
    read = numpy.zeros(1, numpy.uint32)

    def step(name: str, handle: Any, buffer: Any, rounds: int) -> None:
        launch(known[name], 1, WORDS, handle, ((buffer, buffer, buffer, rounds), (None, None, None, ctypes.c_uint32)))

    for turn in range(READS):
        step("make", stream, number, 1)
        if turn == READS - 1:
            for _ in range(LONG):
                step("stay", other, long, 1)
            launch(known["follow"], 1, 1, other, ((copy, pointer), (None, None)))
        call(driver.cuMemcpyDtoHAsync(read, number, read.nbytes, stream))
        call(driver.cuStreamSynchronize(stream))
        print(read[0])
    call(driver.cuCtxSynchronize())


if __name__ == "__main__":
    main()
