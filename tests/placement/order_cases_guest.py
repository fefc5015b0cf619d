"""One stream's work on several GPUs that must wait for each other, each case with a reason of its own to.

Kernels called home_*, one_* and two_* are to run on these GPUs. A *slow* launch does what it does late, so that who
should have waited for it and has not sees, or destroys, other bytes. Prints, for each case, its name and a sum of what
it was to leave behind.
"""

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

LATE = """
    mov.u32 %r1, 0;
turn:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, %turns;
    @%p1 bra turn;
"""
ADD = """
    ld.global.u32 %r2, [%to];
    ld.global.u32 %r3, [%from];
    mad.lo.u32 %r3, %r2, 3, %r3;
    add.u32 %r3, %r3, %value;
    st.global.u32 [%to], %r3;
"""
FILL = "add.u32 %r3, %i, %value; st.global.u32 [%to], %r3;"
PLACES, WORDS, TURNS = ("home", "one", "two"), 256, 60_000
LEGACY, OWN = driver.CUstream(1), driver.CUstream(2)
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
CASES: dict[str, Callable[["Program"], int]] = {}


def case(function: Callable[["Program"], int]) -> Callable[["Program"], int]:
    CASES[function.__name__] = function
    return function


class Program:
    """Buffers x, y and z of each case are new, hold small numbers, and were written in stream s, so that nothing but
    what the case is about makes anybody wait. They stay: freed memory may have been pulled for another stream.
    """

    def __init__(self) -> None:
        use_gpu()
        names = {f"{place}_{what}": body for place in PLACES for what, body in (("add", ADD), ("fill", FILL))}
        parameters = ("to", "from"), ("count", "value", "turns")
        self._functions = functions(*(elementwise(name, *parameters, LATE + body) for name, body in names.items()))
        self.s, self.t, self.blocking = (call(driver.cuStreamCreate(flags)) for flags in (1, 1, 0))
        self.pinned = int(call(driver.cuMemHostAlloc(4 * WORDS, 2)))
        self.host = numpy.ctypeslib.as_array((ctypes.c_uint32 * WORDS).from_address(self.pinned))
        self.x = self.y = self.z = 0
        self.begin()
        for place in PLACES:  # functions and copies are there when a case begins
            for stream in (self.s, self.t, self.blocking, LEGACY):
                self.fill(place, self.x, stream=stream)
                call(driver.cuCtxSynchronize())
                self.add(place, self.x, self.x, stream=stream)
                call(driver.cuCtxSynchronize())

    def begin(self) -> None:
        self.x, self.y, self.z = (self.allocate(first) for first in (1, 10, 100))
        self.host[:] = 0

    def allocate(self, first: int) -> int:
        address = int(call(driver.cuMemAlloc(4 * WORDS)))
        values = numpy.arange(first, first + WORDS, dtype=numpy.uint32)
        call(driver.cuMemcpyHtoDAsync(address, values, values.nbytes, self.s))
        call(driver.cuStreamSynchronize(self.s))
        return address

    def _launch(self, name: str, to: int, source: int, slow: bool, stream: Any) -> None:
        parameters = ((to, source, WORDS, 7, TURNS if slow else 1), (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 3)
        handle = self.s if stream is None else stream
        call(driver.cuLaunchKernel(self._functions[name], WORDS // 128, 1, 1, 128, 1, 1, 0, handle, parameters, 0))

    def add(self, place: str, to: int, source: int, slow: bool = False, stream: Any = None) -> None:
        """to = 3 to + source + 7."""
        self._launch(f"{place}_add", to, source, slow, stream)

    def fill(self, place: str, to: int, slow: bool = False, stream: Any = None) -> None:
        """to = 7, 8, 9, ..."""
        self._launch(f"{place}_fill", to, 0, slow, stream)

    def sum(self, buffer: int) -> int:
        values = numpy.zeros(WORDS, numpy.uint32)
        call(driver.cuCtxSynchronize())
        call(driver.cuMemcpyDtoH(values, buffer, values.nbytes))
        return int(values.sum())

    def then(self, earlier: Any, later: Any) -> None:
        event = call(driver.cuEventCreate(2))
        call(driver.cuEventRecord(event, earlier))
        call(driver.cuStreamWaitEvent(later, event, 0))
        call(driver.cuEventDestroy(event))


@case
def a_pull_is_over_before_home_overwrites_its_source(p: Program) -> int:
    p.add("one", p.y, p.y, slow=True)
    p.add("one", p.z, p.x)
    p.fill("home", p.x)
    return p.sum(p.z)


@case
def a_pull_is_over_before_an_executor_overwrites_its_source(p: Program) -> int:
    p.fill("one", p.x)
    p.add("home", p.y, p.y, slow=True)
    p.add("home", p.z, p.x)
    p.add("one", p.x, p.x)
    return p.sum(p.z)


@case
def a_pull_is_over_before_another_pull_replaces_its_source(p: Program) -> int:
    other, unused = p.allocate(3), p.allocate(4)
    p.fill("two", unused)
    p.fill("one", p.x)
    p.add("one", p.x, p.x)
    p.add("home", p.y, p.y, slow=True)
    p.add("home", p.z, p.x)
    p.fill("two", p.x)
    p.add("one", other, p.x)
    return p.sum(p.z)


@case
def an_executor_pulls_what_home_has_written(p: Program) -> int:
    p.fill("one", p.y)
    p.fill("home", p.x, slow=True)
    p.add("one", p.z, p.x)
    return p.sum(p.z)


@case
def home_pulls_what_an_executor_has_written(p: Program) -> int:
    p.fill("one", p.x, slow=True)
    p.add("home", p.z, p.x)
    return p.sum(p.z)


@case
def an_executor_pulls_what_another_has_written(p: Program) -> int:
    p.fill("one", p.x, slow=True)
    p.add("two", p.z, p.x)
    return p.sum(p.z)


@case
def a_wait_is_made_again_for_what_came_later(p: Program) -> int:
    for _ in range(3):
        p.add("one", p.x, p.y, slow=True)
        p.add("home", p.z, p.x)
        p.add("home", p.y, p.x, slow=True)
        p.add("one", p.x, p.y)
    return p.sum(p.z) + p.sum(p.x)


@case
def what_another_stream_s_pull_brings_is_waited_for(p: Program) -> int:
    p.add("one", p.y, p.y, slow=True, stream=p.t)
    p.add("one", p.y, p.x, stream=p.t)
    p.add("one", p.z, p.x)
    return p.sum(p.z)


@case
def what_another_stream_wrote_there_is_waited_for_by_an_event(p: Program) -> int:
    p.fill("one", p.z)
    p.add("one", p.x, p.y, slow=True, stream=p.t)
    p.then(p.t, p.s)
    p.add("one", p.z, p.x)
    return p.sum(p.z)


@case
def an_event_is_after_all_strands(p: Program) -> int:
    p.add("one", p.x, p.y, slow=True)
    p.add("home", p.y, p.y)
    p.then(p.s, p.t)
    p.add("home", p.z, p.x, stream=p.t)
    return p.sum(p.z)


@case
def all_strands_are_after_an_event(p: Program) -> int:
    p.fill("one", p.z)
    p.add("home", p.z, p.z, slow=True, stream=p.t)
    p.then(p.t, p.s)
    p.fill("one", p.z)
    p.add("one", p.z, p.x)
    return p.sum(p.z)


@case
def pinned_memory_is_in_order_from_an_executor(p: Program) -> int:
    p.fill("one", p.pinned, slow=True)
    p.add("home", p.z, p.pinned)
    return p.sum(p.z)


@case
def pinned_memory_is_in_order_from_home(p: Program) -> int:
    p.fill("one", p.y)
    p.fill("home", p.pinned, slow=True)
    p.add("one", p.z, p.pinned)
    return p.sum(p.z)


@case
def pinned_memory_is_in_order_between_executors(p: Program) -> int:
    p.fill("one", p.pinned, slow=True)
    p.add("two", p.z, p.pinned)
    return p.sum(p.z)


@case
def pinned_memory_is_read_before_it_is_overwritten(p: Program) -> int:
    p.fill("home", p.pinned)
    p.add("one", p.y, p.y, slow=True)
    p.add("one", p.z, p.pinned)
    p.add("home", p.pinned, p.pinned)
    return p.sum(p.z)


@case
def memory_is_freed_after_all_strands(p: Program) -> int:
    buffer = p.allocate(5)
    p.add("one", p.y, p.y, slow=True)
    p.add("one", p.z, buffer)
    call(driver.cuMemFree(buffer))
    again = p.allocate(50)
    p.add("two", p.y, again)
    total = p.sum(p.z) + p.sum(p.y)
    call(driver.cuMemFree(again))
    return total


@case
def memory_goes_back_to_the_driver_after_all_strands(p: Program) -> int:
    buffer = int(call(driver.cuMemAlloc(4 << 20)))
    call(driver.cuMemsetD32Async(buffer, 9, 1 << 20, p.s))
    p.add("one", p.y, p.y, slow=True)
    p.add("one", p.z, buffer)
    call(driver.cuMemFree(buffer))
    return p.sum(p.z)


@case
def memory_is_freed_in_the_stream_after_all_strands(p: Program) -> int:
    buffer = int(call(driver.cuMemAllocAsync(4 * WORDS, p.s)))
    p.fill("one", buffer)
    p.add("one", buffer, buffer, slow=True)
    p.add("two", p.z, buffer, slow=True)
    call(driver.cuMemFreeAsync(buffer, p.s))
    again = int(call(driver.cuMemAllocAsync(4 * WORDS, p.s)))
    p.fill("home", again)
    p.add("one", p.z, again)
    total = p.sum(p.z)
    call(driver.cuMemFreeAsync(again, p.s))
    return total


@case
def launches_that_repeat_wait_as_well(p: Program) -> int:
    for turn in range(12):
        p.add("one", p.x, p.y, slow=turn % 5 == 4)
        p.add("one", p.y, p.y)
        p.add("home", p.z, p.x)
        p.add("home", p.z, p.z)
        if turn % 4 == 3:
            p.fill("home", p.x)
    return p.sum(p.z) + p.sum(p.x)


def host_sees(p: Program, wait: Callable[[], None]) -> int:
    p.fill("one", p.pinned, slow=True)
    p.add("home", p.z, p.z)
    wait()
    return int(p.host.sum())


@case
def the_host_sees_all_strands_after_synchronising_the_stream(p: Program) -> int:
    return host_sees(p, lambda: call(driver.cuStreamSynchronize(p.s)))


@case
def the_host_sees_all_strands_after_synchronising_the_context(p: Program) -> int:
    return host_sees(p, lambda: call(driver.cuCtxSynchronize()))


@case
def the_host_sees_all_strands_after_an_event(p: Program) -> int:
    event = call(driver.cuEventCreate(2))
    return host_sees(p, lambda: (call(driver.cuEventRecord(event, p.s)), call(driver.cuEventSynchronize(event)))[1])


@case
def the_host_sees_all_strands_when_a_query_says_so(p: Program) -> int:
    def poll() -> None:
        while driver.cuStreamQuery(p.s)[0] == driver.CUresult.CUDA_ERROR_NOT_READY:
            pass

    return host_sees(p, poll)


@case
def the_host_sees_all_strands_after_a_copy(p: Program) -> int:
    values = numpy.zeros(4, numpy.uint32)

    def copy() -> None:
        call(driver.cuMemcpyDtoHAsync(values, p.x, values.nbytes, p.s))
        call(driver.cuStreamSynchronize(p.s))

    return host_sees(p, copy)


@case
def a_graph_is_after_all_strands(p: Program) -> int:
    p.add("one", p.x, p.y, slow=True)
    call(driver.cuStreamBeginCapture(p.s, RELAXED))
    p.add("home", p.z, p.x)
    graph = call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(p.s)), 0))
    call(driver.cuGraphLaunch(graph, p.s))
    p.add("two", p.z, p.x)
    return p.sum(p.z)


@case
def a_stream_is_captured_while_its_strands_run(p: Program) -> int:
    p.add("one", p.x, p.y, slow=True)
    call(driver.cuStreamBeginCapture(p.s, RELAXED))
    p.add("home", p.z, p.x)
    graph = call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(p.s)), 0))
    p.then(p.s, p.t)
    call(driver.cuGraphLaunch(graph, p.t))
    return p.sum(p.z)


@case
def a_blocking_stream_is_after_the_legacy_one_s_strands(p: Program) -> int:
    p.fill("one", p.pinned, slow=True, stream=LEGACY)
    p.add("home", p.z, p.pinned, stream=p.blocking)
    return p.sum(p.z)


@case
def the_legacy_stream_is_after_blocking_ones_strands(p: Program) -> int:
    p.fill("one", p.pinned, slow=True, stream=p.blocking)
    p.fill("two", p.x, slow=True, stream=p.blocking)
    p.add("home", p.x, p.pinned, stream=LEGACY)
    return p.sum(p.x)


@case
def strands_of_the_legacy_stream_are_after_blocking_ones(p: Program) -> int:
    p.add("one", p.y, p.y, stream=LEGACY)
    p.fill("home", p.pinned, slow=True, stream=p.blocking)
    p.add("one", p.z, p.pinned, stream=LEGACY)
    return p.sum(p.z)


@case
def a_thread_s_own_stream_is_in_order_with_the_legacy_one(p: Program) -> int:
    p.add("one", p.x, p.y, slow=True, stream=LEGACY)
    p.add("two", p.z, p.x, slow=True, stream=OWN)
    p.add("home", p.z, p.x, stream=OWN)
    p.add("one", p.z, p.z, stream=LEGACY)
    return p.sum(p.z)


@case
def a_stream_is_destroyed_after_its_strands(p: Program) -> int:
    stream = call(driver.cuStreamCreate(1))
    p.add("one", p.x, p.y, slow=True, stream=stream)
    p.add("home", p.z, p.z, stream=stream)
    event = call(driver.cuEventCreate(2))
    call(driver.cuEventRecord(event, stream))
    call(driver.cuStreamDestroy(stream))
    call(driver.cuStreamWaitEvent(p.s, event, 0))
    p.add("home", p.z, p.x)
    return p.sum(p.z)


@case
def copies_and_memsets_are_in_order(p: Program) -> int:
    p.add("one", p.x, p.y, slow=True)
    call(driver.cuMemcpyDtoDAsync(p.z, p.x, 4 * WORDS, p.s))
    p.add("home", p.y, p.y, slow=True)
    call(driver.cuMemcpyDtoDAsync(p.x, p.y, 4 * WORDS, p.s))
    call(driver.cuMemsetD32Async(p.y, 5, WORDS, p.s))
    p.add("two", p.x, p.y)
    return p.sum(p.z) + p.sum(p.x)


def main() -> None:
    program = Program()
    for name in sys.argv[1:] or CASES:
        program.begin()
        print(name, CASES[name](program), flush=True)


if __name__ == "__main__":
    main()
