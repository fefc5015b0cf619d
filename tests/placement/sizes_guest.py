"""Launches in two streams, each with memory of its own: sizes_guest.py MEBIBYTES [after].

With `after` both are used in the second stream, one after the other, and the first one's memory in between by many
memsets in the first stream. Prints sums.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

ADD = """
    ld.global.u32 %r1, [%values];
    add.u32 %r1, %r1, %more;
    st.global.u32 [%values], %r1;
"""
BLOCK, LAUNCHES = 256, 3


def run(add: Any, stream: Any, memory: Any, count: int) -> int:
    for number in range(LAUNCHES):
        parameters = ((memory, number), (None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(add, count // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, 0))
    values = numpy.zeros(count, numpy.uint32)
    call(driver.cuMemcpyDtoHAsync(values, memory, 4 * count, stream))
    call(driver.cuStreamSynchronize(stream))
    return int(values.sum())


def main() -> None:
    count = int(sys.argv[1]) * 2**18
    use_gpu()
    add = functions(elementwise("add", ("values",), ("more",), ADD))["add"]
    streams = [call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2)]
    memory = [call(driver.cuMemAlloc(4 * count)) for _ in streams]
    for number, part in enumerate(memory):
        call(driver.cuMemsetD32(part, number, count))
    call(driver.cuCtxSynchronize())
    if sys.argv[2:] == ["after"]:
        print(run(add, streams[1], memory[0], count))
        for number in range(100):
            call(driver.cuMemsetD32Async(memory[0], number, count, streams[0]))
        call(driver.cuStreamSynchronize(streams[0]))
        print(run(add, streams[1], memory[1], count), run(add, streams[0], memory[0], count))
        return
    for _ in range(2):
        print([run(add, stream, part, count) for stream, part in zip(streams, memory, strict=True)])


if __name__ == "__main__":
    main()
