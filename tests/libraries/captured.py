"""A program that captures the calls of a cuBLAS whose kernels follow a pointer in their work area.

So only the calls say what the graph's kernels touch. Arguments: the directory of the stand-ins, how often the graph is
launched. The graph is launched from the captured one, from a copy of it as a child graph, and after an update. Prints
the sum of what the products gave.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.libraries.placed import SIDE, WORK_BYTES, Indirect
from tests.libraries.stand_ins import Marks

CALLS = 6
THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


class Captured(Indirect):
    """The first call with an output makes a work area that leads there; later ones launch, with that work area."""

    def __init__(self) -> None:
        super().__init__()
        self.works: dict[int, int] = {}
        self.stream = call(driver.cuStreamCreate(1))

    def launch(self) -> None:
        a, b, c = (int(str(each)) for each in self.arguments)
        if c not in self.works:
            self.works[c] = int(call(driver.cuMemAlloc(WORK_BYTES)))
            call(driver.cuMemcpyHtoD(self.works[c], numpy.array([c], dtype=numpy.uint64), 8))
            return
        given = ((a, b, self.works[c]), (ctypes.c_uint64,) * 3)
        call(driver.cuLaunchKernel(self.product, 1, 1, 1, SIDE * SIDE, 1, 1, 0, self.stream, given, 0))


class Program:
    def __init__(self, stand_ins: Path) -> None:
        self.gpu = Captured()
        self.marks = Marks(None, stand_ins, wants=False)
        self.marks.inside = self.gpu.launch
        self.handle, self.one = ctypes.byref(ctypes.c_int(0)), ctypes.c_float(1)
        self.values = numpy.arange(SIDE * SIDE, dtype=numpy.float32)
        self.buffers = [int(call(driver.cuMemAlloc(self.values.nbytes))) for _ in range(4)]
        for buffer in self.buffers:
            call(driver.cuMemcpyHtoD(buffer, self.values, self.values.nbytes))

    def multiply(self, number: int) -> None:
        a, b, c = (self.buffers[(number + place) % len(self.buffers)] for place in range(3))
        self.gpu.arguments = (a, b, c)
        beta = ctypes.addressof(self.one)
        self.marks.call("cublasSgemm_v2", self.handle, 0, 0, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, beta, c, SIDE)

    def capture(self, first: int) -> Any:
        call(driver.cuStreamBeginCapture(self.gpu.stream, THREAD_LOCAL))
        for number in range(first, first + CALLS):
            self.multiply(number)
        return call(driver.cuStreamEndCapture(self.gpu.stream))


def main() -> None:
    program, times = Program(Path(sys.argv[1])), int(sys.argv[2])
    for number in range(len(program.buffers)):
        program.multiply(number)
    graph, parent = program.capture(0), call(driver.cuGraphCreate(0))
    call(driver.cuGraphAddChildGraphNode(parent, None, 0, graph))
    instances = [call(driver.cuGraphInstantiate(each, 0)) for each in (graph, parent, graph)]
    call(driver.cuGraphExecUpdate(instances[2], program.capture(1)))
    for _ in range(times):
        for instance in instances:
            call(driver.cuGraphLaunch(instance, program.gpu.stream))
    call(driver.cuStreamSynchronize(program.gpu.stream))
    for buffer in program.buffers:
        call(driver.cuMemcpyDtoH(program.values, buffer, program.values.nbytes))
        print(program.values.sum())


if __name__ == "__main__":
    main()
