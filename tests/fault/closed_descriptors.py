"""A program that closes all descriptors but three, as daemons do, after it has used the GPU, and opens others.

Prints `told` if it gets an error after that, `deaf` if it gets none for five seconds, `wrong` as soon as a sum is
wrong, and `written` if anything was written to what it has opened.
"""

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

COUNT, TIMES, PAIRS, TOLD_S = 256, 20, 8, 5.0
BODY = "ld.global.u32 %r1, [%to]; add.u32 %r1, %r1, 1; st.global.u32 [%to], %r1;"


def add(function: Any, stream: Any, memory: Any) -> bool:
    """False: there was an error."""
    results = []
    for _ in range(TIMES):
        parameters = ((memory,), (None,))
        results += driver.cuLaunchKernel(function, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, 0)
    results += driver.cuStreamSynchronize(stream)
    return not any(map(int, results))


def main() -> None:
    use_gpu()
    function = functions(elementwise("add", ("to",), (), BODY))["add"]
    stream, memory = call(driver.cuStreamCreate(1)), call(driver.cuMemAlloc(4 * COUNT))
    call(driver.cuMemsetD32(memory, 0, COUNT))
    found, expected = numpy.zeros(COUNT, numpy.uint32), 0
    begun = None
    while begun is None or time.monotonic() - begun < TOLD_S:
        fine = add(function, stream, memory) and not int(driver.cuMemcpyDtoH(found.ctypes.data, memory, 4 * COUNT)[0])
        expected += TIMES
        if not fine:
            print("told")
            break
        if (found != expected).any():
            print("wrong")
            break
        if begun is None:
            os.closerange(3, 4096)
            opened = [end for _ in range(PAIRS) for end in socket.socketpair(type=socket.SOCK_DGRAM)]
            begun = time.monotonic()
    else:
        print("deaf")
    for end in opened:
        end.setblocking(False)
        try:
            end.recv(1)
        except BlockingIOError:
            continue
        print("written")


if __name__ == "__main__":
    main()
