"""Launches of one thread and stream, each timed: `deferred_guest.py LAUNCHES WAY`.

quiet: launches alone. mixed: with memsets and copies on the GPU between them, and now and then a number that is read
back. forked: as mixed, with a child in the middle that only ends. threads: two threads by turns, a hundred launches at
a time. graph: as mixed, launches of one graph, which is now and then changed. shared graph: one graph that two threads
launch by turns, each in its own stream; nothing else orders what they do. refused: as quiet, and the driver refuses
one: what the wait then says is printed, and what a second wait says; refused before its end: the same of a thread that
has ended when the main one waits.

Prints the sum of each result, and on standard error the middle and the longest time of a launch, in milliseconds.
"""

import ctypes
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

COUNT, BUFFERS, AT_A_TIME, EVERY = 1024, 4, 100, 37
BODY = "ld.global.u32 %r1, [%in]; mad.lo.u32 %r1, %r1, 5, 7; st.global.u32 [%out], %r1;"


THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


class Guest:
    """instance: of a graph of one launch, node: that launch."""

    def __init__(self) -> None:
        use_gpu()
        self.function = functions(elementwise("step", ("out", "in"), ("count",), BODY))["step"]
        self.stream = call(driver.cuStreamCreate(1))
        self.buffers = [call(driver.cuMemAlloc(4 * COUNT)) for _ in range(BUFFERS)]
        for buffer in self.buffers:
            call(driver.cuMemsetD32(buffer, 1, COUNT))
        self.taken: list[float] = []

    def launch(self, number: int) -> None:
        out, source = self.buffers[number % BUFFERS], self.buffers[number // 3 % BUFFERS]
        parameters = ((out, source, COUNT), (None, None, ctypes.c_uint32))
        begun = time.perf_counter()
        call(driver.cuLaunchKernel(self.function, COUNT // 256, 1, 1, 256, 1, 1, 0, self.stream, parameters, 0))
        self.taken.append(time.perf_counter() - begun)

    def capture(self) -> None:
        call(driver.cuStreamBeginCapture(self.stream, THREAD_LOCAL))
        self.launch(0)
        self.graph = call(driver.cuStreamEndCapture(self.stream))
        (self.node,), *_ = call(driver.cuGraphGetNodes(self.graph, 1))
        self.instance = call(driver.cuGraphInstantiate(self.graph, 0))
        self.taken.clear()

    def launch_graph(self, number: int) -> None:
        if number % EVERY == 1:
            parameters = call(driver.cuGraphKernelNodeGetParams(self.node))
            given = self.buffers[number % BUFFERS], self.buffers[number // 3 % BUFFERS], COUNT
            parameters.kernelParams = (given, (None, None, ctypes.c_uint32))
            call(driver.cuGraphExecKernelNodeSetParams(self.instance, self.node, parameters))
        begun = time.perf_counter()
        call(driver.cuGraphLaunch(self.instance, self.stream))
        self.taken.append(time.perf_counter() - begun)

    def mix(self, number: int) -> None:
        """Something else before some launches."""
        some, other = self.buffers[number % BUFFERS], self.buffers[(number + 1) % BUFFERS]
        if number % 3 == 0:
            call(driver.cuMemsetD32Async(some, number, COUNT // 2, self.stream))
        elif number % 5 == 0:
            call(driver.cuMemcpyDtoDAsync(some, other, 2 * COUNT, self.stream))
        elif number % EVERY == 0:
            read = numpy.zeros(1, dtype=numpy.uint32)
            call(driver.cuMemcpyDtoHAsync(read, some, 4, self.stream))
            call(driver.cuStreamSynchronize(self.stream))
            print(int(read[0]))

    def print(self) -> None:
        call(driver.cuStreamSynchronize(self.stream))
        result = numpy.zeros(COUNT, dtype=numpy.uint32)
        for buffer in self.buffers:
            call(driver.cuMemcpyDtoH(result, buffer, result.nbytes))
            print(int(result.sum(dtype=numpy.uint64)))


def end_at_once() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def in_a_thread(run: Callable[[int], None], launches: int) -> None:
    """One that ends."""

    def work() -> None:
        use_gpu()
        for number in range(launches):
            run(number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():  # what has to be done at its end is done
        time.sleep(0.001)


def by_turns(launches: int, run: Callable[[int], None], begin_turn: Callable[[], None]) -> None:
    """Two threads, one after the other."""
    first, second = threading.Semaphore(1), threading.Semaphore(0)

    def work(own: threading.Semaphore, other: threading.Semaphore, begin: int) -> None:
        use_gpu()
        for at in range(begin, launches, 2 * AT_A_TIME):
            own.acquire()
            begin_turn()
            for number in range(at, min(at + AT_A_TIME, launches)):
                run(number)
            other.release()

    threads = [threading.Thread(target=work, args=each) for each in ((first, second, 0), (second, first, AT_A_TIME))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    launches, way = int(sys.argv[1]), sys.argv[2]
    guest = Guest()

    streams = [guest.stream, call(driver.cuStreamCreate(1))]

    def run(number: int) -> None:
        if way != "quiet" and not way.startswith("refused") and not (way == "shared graph" and number % AT_A_TIME == 0):
            guest.mix(number)
        (guest.launch_graph if "graph" in way else guest.launch)(number)

    def begin_turn() -> None:
        if way == "shared graph":
            streams.reverse()
            guest.stream = streams[0]

    if "graph" in way:
        guest.capture()
    if way in ("threads", "shared graph"):
        by_turns(launches, run, begin_turn)
    elif way == "refused before its end":
        in_a_thread(run, launches)
    else:
        for number in range(launches):
            if way == "forked" and number == launches // 2:
                end_at_once()
            run(number)
    if way.startswith("refused"):
        print(*(driver.cuStreamSynchronize(guest.stream)[0].name for _ in range(2)))
    guest.print()
    print(1e3 * statistics.median(guest.taken), 1e3 * max(guest.taken), file=sys.stderr)


if __name__ == "__main__":
    main()
