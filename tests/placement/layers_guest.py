"""Requests through layers whose launches suit different GPUs: `layers_guest.py REQUESTS CLIENTS LAYERS BLOCKS ROUNDS
[CHANGE ...]`.

A layer is a launch of one block and one of BLOCKS, each with weights of its own. Each of CLIENTS threads makes so many
requests, one at a time, in a stream of its own. Prints the sums of the last results: however many requests there are,
what the host gives the GPU and reads of it is the same.

A change is `REQUEST:wide`: from that request on, the launches of many blocks have twice as many; or `REQUEST:CLIENTS`:
when the first one makes that request, others come, up to so many.
"""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, use_gpu

THREADS = 256
RESULTS = 64


class Layers:
    def __init__(self, streams: int, layers: int, blocks: int, rounds: int) -> None:
        self.context = use_gpu()
        kernels = [
            elementwise(name, ("out", "in", "weights"), ("rounds",), arithmetic("%rounds"))
            for name in ("narrow", "wide")
        ]
        found = functions(*kernels)
        self.narrow, self.wide = found["narrow"], found["wide"]
        self.blocks, self.rounds = blocks, rounds
        self.bytes = 4 * THREADS * 2 * blocks
        self.weights = [self.buffer(number) for number in range(2 * layers)]
        self.streams = [call(driver.cuStreamCreate(1)) for _ in range(streams)]

    def buffer(self, first: int) -> Any:
        numbers = numpy.arange(first, self.bytes // 4 + first, dtype=numpy.uint32)
        buffer = call(driver.cuMemAlloc(self.bytes))
        call(driver.cuMemcpyHtoD(buffer, numbers, self.bytes))
        return buffer

    def request(self, stream: Any, given: Any, out: Any, blocks: int) -> None:
        for number, weights in enumerate(self.weights):
            function, wide = (self.wide, blocks) if number % 2 else (self.narrow, 1)
            values = (out, out if number else given, weights, self.rounds)
            parameters = (values, (None, None, None, ctypes.c_uint32))
            call(driver.cuLaunchKernel(function, wide, 1, 1, THREADS, 1, 1, 0, stream, parameters, 0))

    def sum(self, buffer: Any) -> int:
        numbers = numpy.zeros(self.bytes // 4, numpy.uint32)
        call(driver.cuMemcpyDtoH(numbers, buffer, self.bytes))
        return int(numbers.sum())


class Server:
    """clients: threads, each with one request at a time in a stream of its own, which it waits for."""

    def __init__(self, program: Layers, clients: int, requests: int, blocks: int, changes: dict[int, str]) -> None:
        self.program, self.clients, self.requests, self.blocks = program, clients, requests, blocks
        self.changes, self.steps = changes, {number: threading.Event() for number in changes}
        self.given, self.results = program.buffer(1), [program.buffer(0) for _ in range(RESULTS)]

    def serve(self, client: int, begins: int) -> None:
        """begins: the request of the first client at which this one comes; 0: the first one."""
        call(driver.cuCtxSetCurrent(self.program.context))
        if begins:
            self.steps[begins].wait()
        stream, blocks = self.program.streams[client], self.blocks
        for number in range(begins, self.requests):
            blocks = 2 * self.blocks if self.changes.get(number) == "wide" else blocks
            if not client and number in self.steps:
                self.steps[number].set()
            place = (number * len(self.program.streams) + client) % RESULTS
            self.program.request(stream, self.given, self.results[place], blocks)
            call(driver.cuStreamSynchronize(stream))

    def run(self) -> None:
        more = {number: int(what) for number, what in self.changes.items() if what.isdecimal()}
        begins = [0] * self.clients
        for number, clients in sorted(more.items()):
            begins += [number] * (clients - len(begins))
        threads = [threading.Thread(target=self.serve, args=each) for each in enumerate(begins)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main() -> None:
    requests, clients, layers, blocks, rounds = map(int, sys.argv[1:6])
    changes = {int(at): what for at, _, what in (word.partition(":") for word in sys.argv[6:])}
    most = max([clients, *(int(what) for what in changes.values() if what.isdecimal())])
    program = Layers(most, layers, blocks, rounds)
    server = Server(program, clients, requests, blocks, changes)
    server.run()
    call(driver.cuCtxSynchronize())
    for out in server.results:
        print(program.sum(out))


if __name__ == "__main__":
    main()
