"""Programs of one thread and one stream: `automatic_guest.py PROGRAM TIMES STEPS KIB [BRANCHES]`.

requests: so many chains of steps, one after another, each over its own buffer; their results are kept. answers: the
same, but each begins with a short step of which the host reads the result before it goes on; default: in the legacy
default stream, after a stream for which that waits has copied to the host. pageable, pinned: each
begins with numbers that the host copies there, of its ordinary or its page-locked memory, to where those of the request
before were; uploads: the same, of ordinary memory, and the host waits for the stream; zeroed: with a memset there.
recorded: after each an event is recorded; awaited: and waited for; called: after each a host function is called.
guidance: two such chains, or BRANCHES, begin from the same buffer, and are joined in it, again and again. sides: one
chain, and beside it, each time, a short step of weights alone that it needs next. chain: all in one. Steps read weights
that all share. A chain comes first, and is waited for. Prints the sum of each result.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

STEP = """
    ld.global.u32 %r1, [%in];
    ld.global.u32 %r2, [%other];
    mad.lo.u32 %r1, %r1, 3, %r2;
    st.global.u32 [%out], %r1;
"""
LOOK = """
    ld.global.u32 %r1, [%in];
    ld.global.u32 %r2, [table];
    mad.lo.u32 %r1, %r1, 3, %r2;
    st.global.u32 [%out], %r1;
"""
TABLE = ".visible .global .align 4 .u32 table = 1;\n"
WEIGHTS = 4
FEW = 64
TOKENS = 1024
NOTHING = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)


class Program:
    def __init__(self, steps: int, kib: int) -> None:
        use_gpu()
        step = elementwise("step", ("out", "in", "other"), ("count",), STEP)
        found = functions(TABLE + elementwise("look", ("out", "in"), ("count",), LOOK), step)
        self.function, self.look = found["step"], found["look"]
        self.stream, self.other = call(driver.cuStreamCreate(1)), call(driver.cuStreamCreate(0))
        self.apart = call(driver.cuStreamCreate(1))
        self.nothing = driver.CUhostFn(ctypes.cast(NOTHING, ctypes.c_void_p).value)
        self.steps, self.count = steps, kib * 256
        self.pinned = int(call(driver.cuMemHostAlloc(4096, 0)))
        self.tokens = call(driver.cuMemAlloc(4 * TOKENS))
        self.weights = [self.buffer(number) for number in range(WEIGHTS)]

    def buffer(self, first: int) -> Any:
        numbers = numpy.arange(first, self.count + first, dtype=numpy.uint32)
        buffer: Any = call(driver.cuMemAlloc(numbers.nbytes))
        call(driver.cuMemcpyHtoD(buffer, numbers, numbers.nbytes))
        return buffer

    def step(self, out: Any, given: Any, other: Any, count: int = 0) -> None:
        parameters = ((out, given, other, count or self.count), (None, None, None, ctypes.c_uint32))
        blocks = -(-(count or self.count) // 256)
        call(driver.cuLaunchKernel(self.function, blocks, 1, 1, 256, 1, 1, 0, self.stream, parameters, 0))

    def chain(self, out: Any, given: Any) -> None:
        for number in range(self.steps):
            self.step(out, out if number else given, self.weights[number % WEIGHTS])

    def answer(self, flag: Any) -> int:
        """A number of the GPU's making, with one of the module's own."""
        parameters = ((flag, flag, FEW), (None, None, ctypes.c_uint32))
        call(driver.cuLaunchKernel(self.look, 1, 1, 1, FEW, 1, 1, 0, self.stream, parameters, 0))
        call(driver.cuMemcpyDtoHAsync(self.pinned, flag, 4, self.stream))
        call(driver.cuStreamSynchronize(self.stream))
        return ctypes.c_uint32.from_address(self.pinned).value

    def give(self, what: str, number: int) -> None:
        """The next request's tokens. Ordinary memory is used again at once."""
        if what == "zeroed":
            call(driver.cuMemsetD32Async(self.tokens, number, TOKENS, self.stream))
            return
        numbers = numpy.arange(number, number + TOKENS, dtype=numpy.uint32)
        if what != "pinned":
            call(driver.cuMemcpyHtoDAsync(self.tokens, numbers, numbers.nbytes, self.stream))
            numbers[:] = 0
            if what == "uploads":
                call(driver.cuStreamSynchronize(self.stream))
            return
        pinned = int(call(driver.cuMemHostAlloc(numbers.nbytes, 0)))
        ctypes.memmove(pinned, numbers.ctypes.data, numbers.nbytes)
        call(driver.cuMemcpyHtoDAsync(self.tokens, pinned, numbers.nbytes, self.stream))

    def print(self, *buffers: Any) -> None:
        call(driver.cuStreamSynchronize(self.stream))
        for buffer in buffers:
            numbers = numpy.zeros(self.count, numpy.uint32)
            call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
            print(int(numbers.sum()))


def ask(program: Program, flag: Any, buffer: Any) -> int:
    answer = program.answer(flag)
    program.chain(buffer, buffer)
    return answer


def main() -> None:
    what = sys.argv[1]
    times, steps, kib, *more = map(int, sys.argv[2:])
    branches = more[0] if more else 2
    program = Program(steps, kib)
    given = what in ("pageable", "pinned", "uploads", "zeroed")
    ended = what in ("recorded", "awaited", "called")
    several = given or ended or what in ("requests", "answers", "default")
    buffers = [program.buffer(number) for number in range(times if several else 1 + branches)]
    first = program.buffer(1)
    if what == "default":
        program.stream = driver.CUstream(0)
    program.chain(first, first)
    if what == "default":
        call(driver.cuMemcpyDtoHAsync(program.pinned, first, 4, program.other))
    call(driver.cuStreamSynchronize(program.stream))
    if what == "requests":
        for buffer in buffers:
            program.chain(buffer, buffer)
    elif ended:
        event = call(driver.cuEventCreate(2))
        for buffer in buffers:
            program.chain(buffer, buffer)
            if what == "called":
                call(driver.cuLaunchHostFunc(program.stream, program.nothing, 0))
                continue
            call(driver.cuEventRecord(event, program.stream))
            if what == "awaited":
                call(driver.cuEventSynchronize(event))
    elif given:
        for number, buffer in enumerate(buffers):
            program.give(what, number)
            program.step(buffer, buffer, program.tokens, TOKENS)
            program.chain(buffer, buffer)
    elif what in ("answers", "default"):
        flags = [program.buffer(number) for number in range(times)]
        print(*(ask(program, flag, buffer) for flag, buffer in zip(flags, buffers, strict=True)))
        print(program.answer(flags[0]))
        call(driver.cuStreamQuery(program.stream))  # whoever has waited for a stream finds it done
    elif what == "guidance":
        for _ in range(times):
            for branch in buffers[1:]:
                program.chain(branch, buffers[0])
            program.step(*buffers[:3])
            for branch in buffers[3:]:
                program.step(buffers[0], buffers[0], branch)
    else:
        for _ in range(times):
            program.chain(buffers[0], buffers[0])
            if what == "sides":
                program.step(buffers[1], program.weights[0], program.weights[1], 256)
                program.step(buffers[0], buffers[0], buffers[1])
    program.print(first, *buffers)


if __name__ == "__main__":
    main()
