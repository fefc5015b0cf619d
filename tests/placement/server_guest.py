"""A server in miniature: threads with a stream each run requests through layers whose weights they share.

    server_guest.py THREADS REQUESTS [main|themselves [ROUNDS]]

Each stream has one request before the server opens: from the main thread, or from the threads themselves. A request
goes ROUNDS times through all layers. Prints the sums of what each thread's requests gave, in its order.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, use_gpu

KERNEL = elementwise("layer", ("out", "in", "weights"), (), arithmetic("12"))
THREADS_PER_BLOCK, BLOCKS, LAYERS = 256, 64, 3
ELEMENTS = BLOCKS * THREADS_PER_BLOCK
BYTES = 4 * ELEMENTS


class Server:
    """Weights of all layers, made by the first thread."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.context = use_gpu()
        self.layer = functions(KERNEL)["layer"]
        self.weights = [call(driver.cuMemAlloc(BYTES)) for _ in range(LAYERS)]
        for number, weights in enumerate(self.weights):
            values = numpy.arange(ELEMENTS, dtype=numpy.uint32) * (2 * number + 1)
            call(driver.cuMemcpyHtoD(weights, values, BYTES))

    def run(self, stream: Any, requests: int, sums: list[int]) -> None:
        call(driver.cuCtxSetCurrent(self.context))
        buffers = [call(driver.cuMemAlloc(BYTES)) for _ in range(2)]
        for number in range(requests):
            call(driver.cuMemsetD32Async(buffers[0], number + 1, ELEMENTS, stream))
            for weights in self.weights * self.rounds:
                parameters = ((buffers[1], buffers[0], weights), (None, None, None))
                call(driver.cuLaunchKernel(self.layer, BLOCKS, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, parameters, 0))
                buffers.reverse()
        values = numpy.zeros(ELEMENTS, numpy.uint32)
        call(driver.cuMemcpyDtoHAsync(values, buffers[0], BYTES, stream))
        call(driver.cuStreamSynchronize(stream))
        sums.append(int(values.sum()))

    def work(self, stream: Any, requests: int, sums: list[int], all_threads: threading.Barrier, first: bool) -> None:
        """As a thread that serves for ever: none ends before all have worked."""
        if first:
            self.run(stream, 1, [])
            all_threads.wait()
        self.run(stream, requests, sums)
        all_threads.wait()


def main() -> None:
    threads, requests = map(int, sys.argv[1:3])
    themselves = sys.argv[3:4] == ["themselves"]
    server = Server(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    streams = [call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(threads)]
    sums: list[list[int]] = [[] for _ in streams]
    for stream in streams if not themselves else ():
        server.run(stream, 1, [])
    call(driver.cuCtxSynchronize())
    barrier = threading.Barrier(threads)
    workers = [
        threading.Thread(target=server.work, args=(stream, requests, own, barrier, themselves))
        for stream, own in zip(streams, sums, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    call(driver.cuCtxSynchronize())
    print(sums)


if __name__ == "__main__":
    main()
