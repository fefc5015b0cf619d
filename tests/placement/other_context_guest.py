"""A program for one GPU that makes a context of another one: `other_context_guest.py WHAT ROUNDS [WARM]`.

Layers of 4 MiB on the first GPU, as in large_guest.py; after WARM requests there is a context on the second GPU. Then
that does something with what a request gave (WHAT): `none`; it copies it to memory of its own, in a stream of its own
(`copy`) or the first GPU's (`peer`); a `kernel` there reads it; it changes it, by a memset (`set`) or with bytes of the
host (`give`). Prints the sums of the results and of what the second GPU has.
"""

import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.placement.large_guest import Program

LAYERS, ROWS, KIB = 10, 256, 16
WARM = int(sys.argv[3]) if len(sys.argv) > 3 else 24


class Other:
    """The second GPU."""

    def __init__(self, count: int) -> None:
        self.context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(1))))
        call(driver.cuCtxPushCurrent(self.context))
        self.count, self.memory = count, call(driver.cuMemAlloc(count * 4))
        call(driver.cuMemsetD8(self.memory, 0, count * 4))
        call(driver.cuCtxPopCurrent())

    def take(self, what: str, source: Any, home: Any) -> None:
        if what == "peer":
            call(driver.cuMemcpyPeer(self.memory, self.context, source, home, self.count * 4))
            return
        call(driver.cuCtxPushCurrent(self.context))
        if what == "copy":
            call(driver.cuMemcpyDtoDAsync(self.memory, source, self.count * 4, 0))
        elif what == "set":
            call(driver.cuMemsetD32Async(source, 3, self.count // 2, 0))
        elif what == "give":
            call(driver.cuMemcpyHtoDAsync(source, numpy.full(64, 5, numpy.uint32), 256, 0))
        elif what == "kernel":
            here = Program(ROWS, KIB, uses_first=False)
            call(driver.cuCtxEnablePeerAccess(home, 0))
            here.launch(here.layer, (self.memory, source, source), self.count, 1)
        call(driver.cuCtxSynchronize())
        call(driver.cuCtxPopCurrent())

    def sum(self) -> int:
        numbers = numpy.zeros(self.count, numpy.uint32)
        call(driver.cuCtxPushCurrent(self.context))
        call(driver.cuMemcpyDtoH(numbers, self.memory, numbers.nbytes))
        call(driver.cuCtxPopCurrent())
        return int(numbers.sum())


def main() -> None:
    what, rounds = sys.argv[1], int(sys.argv[2])
    program = Program(ROWS, KIB)
    home = call(driver.cuCtxGetCurrent())
    weights = [program.buffer(program.count * ROWS, number) for number in range(LAYERS)]
    one, two = (program.buffer(program.count, number) for number in range(2))

    def request() -> None:
        for each in weights:
            program.launch(program.layer, (two, one, each), program.count, ROWS)
            program.launch(program.layer, (one, two, each), program.count, ROWS)
        call(driver.cuStreamSynchronize(program.stream))

    for _ in range(WARM):
        request()
    other = Other(program.count)
    for _ in range(rounds):
        request()
    if what != "none":
        other.take(what, one, home)
        request()
    print(program.sum(one), other.sum())


main()
