"""Several requests in flight from one stream: `flight_guest.py REQUESTS FLIGHT STEPS BLOCKS ROUNDS [REQUEST:GPU]`.

A request is a chain of a launch `begin` and STEPS launches `step`, of BLOCKS blocks that go round ROUNDS times, over a
buffer of its own, of which there are FLIGHT: a request waits for the one that had its buffer before. With REQUEST:GPU,
all is waited for before that request, the executor of that GPU is killed, and the request begins when the loss has been
noticed. Prints the sum of each buffer at the end.
"""

import ctypes
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, use_gpu
from tests.fault.executor_faults import executors_under, send

THREADS = 256
LONGEST_SECONDS, LOG_BYTES, NOTICED = 10.0, 4096, b"has ended"


class Server:
    def __init__(self, flight: int, steps: int, blocks: int, rounds: int) -> None:
        use_gpu()
        kernels = [
            elementwise(name, ("out", "in", "weights"), ("rounds",), arithmetic("%rounds"))
            for name in ("begin", "step")
        ]
        self.functions = functions(*kernels)
        self.stream, self.steps, self.blocks, self.rounds = call(driver.cuStreamCreate(1)), steps, blocks, rounds
        self.bytes = blocks * THREADS * 4
        self.weights, self.given = self.buffer(1), self.buffer(2)
        self.buffers = [self.buffer(number) for number in range(flight)]
        self.ended = [call(driver.cuEventCreate(2)) for _ in self.buffers]

    def buffer(self, first: int) -> Any:
        numbers = numpy.arange(first, first + self.bytes // 4, dtype=numpy.uint32)
        buffer = call(driver.cuMemAlloc(self.bytes))
        call(driver.cuMemcpyHtoD(buffer, numbers, self.bytes))
        return buffer

    def launch(self, name: str, out: Any, given: Any) -> None:
        parameters = ((out, given, self.weights, self.rounds), (None, None, None, ctypes.c_uint32))
        shape = (self.blocks, 1, 1, THREADS, 1, 1)
        call(driver.cuLaunchKernel(self.functions[name], *shape, 0, self.stream, parameters, 0))

    def request(self, number: int) -> None:
        place = number % len(self.buffers)
        buffer = self.buffers[place]
        if number >= len(self.buffers):
            call(driver.cuEventSynchronize(self.ended[place]))
        self.launch("begin", buffer, self.given)
        for _ in range(self.steps):
            self.launch("step", buffer, buffer)
        call(driver.cuEventRecord(self.ended[place], self.stream))

    def show(self) -> None:
        call(driver.cuCtxSynchronize())
        for buffer in self.buffers:
            numbers = numpy.zeros(self.bytes // 4, numpy.uint32)
            call(driver.cuMemcpyDtoH(numbers, buffer, self.bytes))
            print(int(numbers.sum()))


def end_executor(gpu: int) -> None:
    """Returns when there was a warning of that. Without an executor there is nothing to do."""
    call(driver.cuCtxSynchronize())
    found, deadline = executors_under(os.getppid(), gpu), time.monotonic() + LONGEST_SECONDS
    with tempfile.TemporaryFile() as log:
        errors = os.dup(2)
        os.dup2(log.fileno(), 2)
        send(found, signal.SIGKILL)
        while found and NOTICED not in os.pread(log.fileno(), LOG_BYTES, 0) and time.monotonic() < deadline:
            time.sleep(0.005)
        os.dup2(errors, 2)
        os.write(2, os.pread(log.fileno(), LOG_BYTES, 0))


def main() -> None:
    requests, flight, steps, blocks, rounds = map(int, sys.argv[1:6])
    ends = {int(at): int(gpu) for at, _, gpu in (word.partition(":") for word in sys.argv[6:])}
    server = Server(flight, steps, blocks, rounds)
    for number in range(requests):
        if number in ends:
            end_executor(ends[number])
        server.request(number)
    server.show()


if __name__ == "__main__":
    main()
