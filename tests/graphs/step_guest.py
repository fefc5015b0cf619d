"""A launch of a graph is one step of its stream: `step_guest.py ROUNDS kernel|copy|legacy|graph`.

A graph raises a flag, records events, each between two kernels, and lowers the flag. One thread launches it again and
again. Meanwhile another one gives the same stream work that looks at the flag, or the legacy stream, for which it
waits: kernels, copies, another graph. Prints how often the flag was up: never.
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

from tests.bindings import call, elementwise, functions, use_gpu

EVENTS = 7
THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
LEGACY = driver.CUstream(1)
MARK = elementwise("mark", ("out",), ("count", "value"), "st.global.u32 [%out], %value;\n")
LOOK = elementwise(
    "look",
    ("out", "in"),
    ("count",),
    "ld.global.u32 %r1, [%in];\nld.global.u32 %r2, [%out];\nadd.u32 %r1, %r1, %r2;\nst.global.u32 [%out], %r1;\n",
)


class Program:
    def __init__(self) -> None:
        self.context = use_gpu()
        self.functions = functions(MARK, LOOK)
        self.stream = call(driver.cuStreamCreate(0))
        self.flag, self.between, self.seen, self.copies = (self.buffer() for _ in range(4))
        self.events = [call(driver.cuEventCreate(0)) for _ in range(EVENTS)]

    def buffer(self) -> Any:
        buffer = call(driver.cuMemAlloc(4096))
        call(driver.cuMemsetD32(buffer, 0, 1024))
        return buffer

    def mark(self, out: Any, value: int) -> None:
        given = (out, 1, value), (None, ctypes.c_uint32, ctypes.c_uint32)
        call(driver.cuLaunchKernel(self.functions["mark"], 1, 1, 1, 32, 1, 1, 0, self.stream, given, 0))

    def look(self, at: Any, stream: Any) -> None:
        given = (self.seen, at, 1), (None, None, ctypes.c_uint32)
        call(driver.cuLaunchKernel(self.functions["look"], 1, 1, 1, 32, 1, 1, 0, stream, given, 0))

    def captured(self, give: Callable[[], None]) -> Any:
        call(driver.cuStreamBeginCapture(self.stream, THREAD_LOCAL))
        give()
        return call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(self.stream)), 0))

    def step(self) -> None:
        external = driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
        self.mark(self.flag, 1)
        for number, event in enumerate(self.events):
            call(driver.cuEventRecordWithFlags(event, self.stream, external))
            self.mark(self.between, number)
        self.mark(self.flag, 0)

    def copy_and_look(self, _number: int) -> None:
        call(driver.cuMemcpyDtoDAsync(self.copies, self.flag, 4, self.stream))
        self.look(self.copies, self.stream)

    def work(self, what: str) -> Callable[[int], None]:
        """What the other thread does in each of its rounds, by its number."""
        if what == "kernel":
            return lambda _: self.look(self.flag, self.stream)
        if what == "legacy":
            return lambda _: self.look(self.flag, LEGACY)
        if what == "copy":
            return self.copy_and_look
        graph = self.captured(lambda: self.look(self.flag, self.stream))
        return lambda _: call(driver.cuGraphLaunch(graph, self.stream))


def main(rounds: int, what: str) -> None:
    program = Program()
    graph, work = program.captured(program.step), program.work(what)
    ended = threading.Event()
    failed: list[BaseException] = []

    def other() -> None:
        call(driver.cuCtxSetCurrent(program.context))
        number = 0
        try:
            while not ended.is_set():
                work(number)
                number += 1
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    work(0)
    call(driver.cuGraphLaunch(graph, program.stream))
    thread.start()
    for number in range(rounds):
        call(driver.cuGraphLaunch(graph, program.stream))
        if number % 16 == 0:
            call(driver.cuStreamSynchronize(program.stream))
    ended.set()
    thread.join()
    call(driver.cuCtxSynchronize())
    seen = numpy.zeros(1, numpy.uint32)
    call(driver.cuMemcpyDtoH(seen, program.seen, 4))
    print(*failed, int(seen[0]))


main(int(sys.argv[1]), sys.argv[2])
