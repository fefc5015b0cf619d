"""A server in miniature: threads with a stream each run requests through layers whose weights they share.

    server_guest.py THREADS REQUESTS [themselves]

Each stream has one request before the server opens: from the main thread, or from the threads themselves. Prints the
sums of what each thread's requests gave, in its order.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call

# A layer: out[i] = f(in[i], weights[i]), after some rounds of arithmetic.
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry layer(.param .u64 out, .param .u64 in, .param .u64 weights)
{
    .reg .b64 %a<5>;
    .reg .b32 %r<7>;
    .reg .pred %p;
    ld.param.u64 %a1, [out];
    ld.param.u64 %a2, [in];
    ld.param.u64 %a3, [weights];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    mul.wide.u32 %a4, %r2, 4;
    add.u64 %a1, %a1, %a4;
    add.u64 %a2, %a2, %a4;
    add.u64 %a3, %a3, %a4;
    ld.global.u32 %r1, [%a2];
    ld.global.u32 %r5, [%a3];
    mov.u32 %r6, 0;
again:
    mad.lo.u32 %r1, %r1, 1664525, %r5;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p, %r6, 12;
    @%p bra again;
    st.global.u32 [%a1], %r1;
    ret;
}
"""
THREADS_PER_BLOCK, BLOCKS, LAYERS = 256, 64, 3
ELEMENTS = BLOCKS * THREADS_PER_BLOCK
BYTES = 4 * ELEMENTS


class Server:
    """Weights of all layers, made by the first thread."""

    def __init__(self) -> None:
        call(driver.cuInit(0))
        self.context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))
        call(driver.cuCtxSetCurrent(self.context))
        self.layer = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(PTX.encode())), b"layer"))
        self.weights = [call(driver.cuMemAlloc(BYTES)) for _ in range(LAYERS)]
        for number, weights in enumerate(self.weights):
            values = numpy.arange(ELEMENTS, dtype=numpy.uint32) * (2 * number + 1)
            call(driver.cuMemcpyHtoD(weights, values, BYTES))

    def run(self, stream: Any, requests: int, sums: list[int]) -> None:
        call(driver.cuCtxSetCurrent(self.context))
        buffers = [call(driver.cuMemAlloc(BYTES)) for _ in range(2)]
        for number in range(requests):
            call(driver.cuMemsetD32Async(buffers[0], number + 1, ELEMENTS, stream))
            for weights in self.weights:
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
    themselves = sys.argv[3:] == ["themselves"]
    server = Server()
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
