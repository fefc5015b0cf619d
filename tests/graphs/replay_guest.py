"""Programs that launch graphs again and again: `replay_guest.py PROGRAM TIMES STEPS KIB`.

A graph is a chain of steps over a buffer of its own, captured; all read the same weights. server: four threads, with
a stream and a graph each, so many requests each. single: one thread and one stream, eight graphs in turn, each over
its own buffer: none depends on another. chain: one graph, after itself. guidance: a step is a copy of a few bytes, two
graphs that read them and an image, and two launches that make the next image; the graphs' kernels are launched with
programmatic dependencies, as cuBLAS launches some of its own. Prints the sum of each buffer.
"""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import PROGRAMMATIC, call, elementwise, functions, launch, use_gpu

STEP = """
    ld.global.u32 %r1, [%in];
    ld.global.u32 %r2, [%other];
    mad.lo.u32 %r1, %r1, 3, %r2;
    st.global.u32 [%out], %r1;
"""
WEIGHTS, THREADS, BRANCHES = 4, 4, 8
FEW_BYTES = 16
THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


class Program:
    def __init__(self, steps: int, kib: int) -> None:
        self.context = use_gpu()
        self.function = functions(elementwise("step", ("out", "in", "other"), ("count",), STEP))["step"]
        self.steps, self.count = steps, kib * 256
        self.weights = [self.buffer(number) for number in range(WEIGHTS)]

    def buffer(self, first: int) -> Any:
        numbers = numpy.arange(first, self.count + first, dtype=numpy.uint32)
        buffer: Any = call(driver.cuMemAlloc(numbers.nbytes))
        call(driver.cuMemcpyHtoD(buffer, numbers, numbers.nbytes))
        return buffer

    def step(self, stream: Any, out: Any, into: Any, other: Any, *attributes: str) -> None:
        parameters = ((out, into, other, self.count), (None, None, None, ctypes.c_uint32))
        launch(self.function, -(-self.count // 256), 256, stream, parameters, *attributes)

    def enqueue(self, stream: Any, buffer: Any, *attributes: str) -> None:
        for number in range(self.steps):
            self.step(stream, buffer, buffer, self.weights[number % WEIGHTS], *attributes)

    def graph(self, stream: Any, buffer: Any, *reads: Any) -> Any:
        """reads: what it makes its first numbers of."""
        call(driver.cuStreamBeginCapture(stream, THREAD_LOCAL))
        if reads:
            self.step(stream, buffer, *reads)
        self.enqueue(stream, buffer, *([PROGRAMMATIC] if reads else []))
        return call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(stream)), 0))

    def print(self, *buffers: Any) -> None:
        call(driver.cuCtxSynchronize())
        for buffer in buffers:
            numbers = numpy.zeros(self.count, numpy.uint32)
            call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
            print(int(numbers.sum()))


def serve(program: Program, work: tuple[Any, Any], times: int, all_threads: threading.Barrier) -> None:
    """The first request is waited for, by everyone."""
    graph, stream = work
    call(driver.cuCtxSetCurrent(program.context))
    call(driver.cuGraphLaunch(graph, stream))
    call(driver.cuStreamSynchronize(stream))
    all_threads.wait()
    for _ in range(times):
        call(driver.cuGraphLaunch(graph, stream))
    call(driver.cuStreamSynchronize(stream))
    all_threads.wait()


def server(program: Program, times: int) -> list[Any]:
    streams, buffers = [call(driver.cuStreamCreate(1)) for _ in range(THREADS)], []
    work = []
    for number, stream in enumerate(streams):
        buffers.append(program.buffer(number))
        work.append((program.graph(stream, buffers[-1]), stream))
    barrier = threading.Barrier(THREADS)
    threads = [threading.Thread(target=serve, args=(program, each, times, barrier)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return buffers


def single(program: Program, times: int, branches: int) -> list[Any]:
    stream = call(driver.cuStreamCreate(1))
    buffers = [program.buffer(number) for number in range(branches)]
    graphs = [program.graph(stream, buffer) for buffer in buffers]
    for turn in range(times):
        for graph in graphs:
            call(driver.cuGraphLaunch(graph, stream))
        if turn < 2:
            call(driver.cuStreamSynchronize(stream))
    return buffers


def guidance(program: Program, times: int) -> list[Any]:
    stream = call(driver.cuStreamCreate(1))
    image, time, *branches = [program.buffer(number) for number in range(4)]
    graphs = [program.graph(stream, branch, image, time) for branch in branches]
    for turn in range(times):
        later = int(program.weights[0]) + FEW_BYTES * turn
        call(driver.cuMemcpyDtoDAsync(time, later, FEW_BYTES, stream))
        for graph in graphs:
            call(driver.cuGraphLaunch(graph, stream))
        for branch in branches:
            program.step(stream, image, image, branch)
        if turn < 2:
            call(driver.cuStreamSynchronize(stream))
    return [image, *branches]


def main() -> None:
    what = sys.argv[1]
    times, steps, kib = map(int, sys.argv[2:])
    program = Program(steps, kib)
    if what == "server":
        buffers = server(program, times)
    elif what == "guidance":
        buffers = guidance(program, times)
    else:
        buffers = single(program, times, BRANCHES if what == "single" else 1)
    program.print(*buffers)


if __name__ == "__main__":
    main()
