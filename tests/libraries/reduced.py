"""A program that captures calls of a cuBLAS whose second launch is the same in each.

Arguments: the directory of the stand-ins, how many calls, how often the graph is launched, and "itself", "child" if a
copy of it is, or "hand" if one is whose nodes the program makes from what the captured ones launch: by then the pointer
that they follow leads elsewhere. Each call has weights of its own. Prints the sum of what the kernels gave.
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

THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


class Reduced(Indirect):
    """The first call makes a work area. Both launches of others go to where that leads: only the calls say it."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = call(driver.cuStreamCreate(1))

    def launch(self) -> None:
        a, b, c = (int(str(each)) for each in self.arguments)
        if not self.work:
            self.work = int(call(driver.cuMemAlloc(WORK_BYTES)))
            call(driver.cuMemcpyHtoD(self.work, numpy.array([c], dtype=numpy.uint64), 8))
            return
        for first in (a, b):
            given = ((first, b, self.work), (ctypes.c_uint64,) * 3)
            call(driver.cuLaunchKernel(self.product, 1, 1, 1, SIDE * SIDE, 1, 1, 0, self.stream, given, 0))


class Program:
    def __init__(self, stand_ins: Path, calls: int) -> None:
        self.gpu = Reduced()
        self.marks = Marks(None, stand_ins, wants=False)
        self.marks.inside = self.gpu.launch
        self.handle, self.one = ctypes.byref(ctypes.c_int(0)), ctypes.c_float(1)
        self.values = numpy.arange(SIDE * SIDE, dtype=numpy.float32)
        self.input, self.output, *self.weights = (self.allocate() for _ in range(2 + calls))
        self.multiply(self.input)

    def allocate(self) -> int:
        buffer = int(call(driver.cuMemAlloc(self.values.nbytes)))
        call(driver.cuMemcpyHtoD(buffer, self.values, self.values.nbytes))
        return buffer

    def multiply(self, weights: int) -> None:
        a, b, c = self.gpu.arguments = (weights, self.input, self.output)
        beta = ctypes.addressof(self.one)
        self.marks.call("cublasSgemm_v2", self.handle, 0, 0, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, beta, c, SIDE)

    def by_hand(self, captured: Any) -> Any:
        """The same launches, which give their results elsewhere."""
        self.output = self.allocate()
        call(driver.cuMemcpyHtoD(self.gpu.work, numpy.array([self.output], dtype=numpy.uint64), 8))
        _, count = call(driver.cuGraphGetNodes(captured))
        nodes, _ = call(driver.cuGraphGetNodes(captured, count))
        graph, earlier = call(driver.cuGraphCreate(0)), None
        for node in nodes:
            made = call(driver.cuGraphKernelNodeGetParams(node))
            earlier = [call(driver.cuGraphAddKernelNode(graph, earlier, len(earlier or ()), made))]
        return graph

    def capture(self) -> Any:
        call(driver.cuStreamBeginCapture(self.gpu.stream, THREAD_LOCAL))
        for each in self.weights:
            self.multiply(each)
        return call(driver.cuStreamEndCapture(self.gpu.stream))


def main() -> None:
    program = Program(Path(sys.argv[1]), int(sys.argv[2]))
    graph = program.capture()
    if sys.argv[4] == "child":
        parent = call(driver.cuGraphCreate(0))
        call(driver.cuGraphAddChildGraphNode(parent, None, 0, graph))
        graph = parent
    elif sys.argv[4] == "hand":
        graph = program.by_hand(graph)
    instance = call(driver.cuGraphInstantiate(graph, 0))
    for _ in range(int(sys.argv[3])):
        call(driver.cuGraphLaunch(instance, program.gpu.stream))
    call(driver.cuStreamSynchronize(program.gpu.stream))
    call(driver.cuMemcpyDtoH(program.values, program.output, program.values.nbytes))
    print(program.values.sum())


if __name__ == "__main__":
    main()
