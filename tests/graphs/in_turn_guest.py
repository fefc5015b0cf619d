"""One graph in two streams, and nothing else that orders them: `in_turn_guest.py ROUNDS [destroy|capture|new|threads]`.

The first stream is given long work and then the graph, the second one the graph and then something that reads what the
work wrote. CUDA orders launches of a graph, and so the reading comes after the work. Before the second launch the first
stream is destroyed, or captured (new: and the second one is another); or the streams are two threads' default ones.
Prints the sum of what was read.
"""

import ctypes
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, use_gpu

SMALL, LARGE, WORK, ITERATIONS = 1 << 10, 1 << 18, 8, 40
THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
OWN = driver.CUstream(2)


class Program:
    """Memory and graph are made anew in each round: then no other GPU holds anything, and nothing is noted at first."""

    def __init__(self) -> None:
        self.context = use_gpu()
        kernels = (
            elementwise(name, ("out", "in", "weights"), ("count",), arithmetic(str(rounds)))
            for name, rounds in (("work", ITERATIONS), ("read", 1), ("step", 1))
        )
        self.functions = functions(*kernels)
        self.later, self.earlier = (call(driver.cuStreamCreate(1)) for _ in range(2))

    def begin(self) -> None:
        self.ones, self.large, self.out, self.small = (self.buffer(count) for count in (LARGE, LARGE, LARGE, SMALL))
        call(driver.cuCtxSynchronize())
        self.launch("read", self.out, self.large, LARGE, self.later)  # all is where it will be read
        call(driver.cuCtxSynchronize())
        call(driver.cuStreamBeginCapture(self.earlier, THREAD_LOCAL))
        self.launch("step", self.small, self.small, SMALL, self.earlier)
        self.graph = call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(self.earlier)), 0))

    def end(self) -> int:
        numbers = numpy.zeros(LARGE, numpy.uint32)
        call(driver.cuCtxSynchronize())
        call(driver.cuMemcpyDtoH(numbers, self.out, numbers.nbytes))
        call(driver.cuGraphExecDestroy(self.graph))
        for buffer in (self.ones, self.large, self.out, self.small):
            call(driver.cuMemFree(buffer))
        return int(numbers.sum())

    def buffer(self, count: int) -> Any:
        buffer = call(driver.cuMemAlloc(4 * count))
        call(driver.cuMemsetD32(buffer, 1, count))
        return buffer

    def launch(self, name: str, out: Any, source: Any, count: int, stream: Any) -> None:
        given = (out, source, self.ones, count), (None, None, None, ctypes.c_uint32)
        call(driver.cuLaunchKernel(self.functions[name], -(-count // 256), 1, 1, 256, 1, 1, 0, stream, given, 0))

    def first(self, stream: Any) -> None:
        for _ in range(WORK):
            self.launch("work", self.large, self.large, LARGE, stream)
        call(driver.cuGraphLaunch(self.graph, stream))

    def second(self, stream: Any) -> None:
        call(driver.cuGraphLaunch(self.graph, stream))
        self.launch("read", self.out, self.large, LARGE, stream)

    def between(self, what: str) -> None:
        if what == "destroy":
            call(driver.cuStreamDestroy(self.earlier))
            self.earlier = call(driver.cuStreamCreate(1))
        elif what in ("capture", "new"):
            if what == "new":
                self.later = call(driver.cuStreamCreate(1))
            call(driver.cuStreamBeginCapture(self.earlier, THREAD_LOCAL))

    def after(self, what: str) -> None:
        if what in ("capture", "new"):
            call(driver.cuGraphDestroy(call(driver.cuStreamEndCapture(self.earlier))))


def in_thread(program: Program, do: Callable[[Any], None]) -> None:
    def run() -> None:
        call(driver.cuCtxSetCurrent(program.context))
        do(OWN)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def main() -> None:
    rounds, what = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    program = Program()
    for _ in range(rounds):
        program.begin()
        if what == "threads":
            in_thread(program, program.first)
            in_thread(program, program.second)
        else:
            program.first(program.earlier)
            program.between(what)
            program.second(program.later)
            program.after(what)
        print(program.end())


main()
